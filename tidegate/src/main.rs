//! The `tidegate` command.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tidegate::cli::{Cli, Command};
use tidegate::config::reference;
use tidegate::fleet::ask;
use tidegate::script::tools;
use tidegate::{demo, inspect, logs, run, secrets, top};

fn main() -> ExitCode {
    match dispatch(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            // Standard error may be closed: the exit code tells all the same.
            let _ = writeln!(std::io::stderr(), "tidegate: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let shows_a_table = matches!(cli.command, Command::Demo(_) | Command::Top(_));
    logs::start(&cli.logs, shows_a_table)?;
    match cli.command {
        Command::Check(arguments) => run::check(&arguments.file),
        Command::Config => {
            write!(std::io::stdout(), "{}", reference::render())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Run(arguments) => wait(run::run(arguments.config.as_deref())),
        Command::Demo(arguments) => wait(demo::demo(&arguments)),
        Command::Top(arguments) => wait(top::top(&arguments)),
        Command::Log { command } => inspect::log(&command),
        Command::Explain(arguments) => inspect::explain(&arguments),
        Command::Orchestrate(arguments) => wait(run::orchestrate(&arguments)),
        Command::Fleet(arguments) => wait(ask::fleet(&arguments)),
        Command::Script { command } => tools::script(&command),
        Command::User { command } => secrets::user(&command),
        Command::Keys { command } => secrets::keys(&command),
    }
}

/// Runs a command that waits for the world.
fn wait(command: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(command);
    // Threads that still look up a name would hold the process up.
    runtime.shutdown_background();
    code
}
