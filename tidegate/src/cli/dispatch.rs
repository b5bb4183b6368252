//! Runs the command that was asked for.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::CommandFactory;
use tokio::runtime::Builder;

use super::{Cli, Command, ConfigArguments};
use crate::assembly::run;
use crate::cli::{
    calibrate, check, demo, envoy_config, fleet, keys, log, moves, orchestrate, place, plan, proxy,
    script, shell, top, user,
};
use crate::config::{FileKind, page, reference, schema};
use crate::observe::logs;

/// Runs a command to its end and answers with the exit code of the process. The runtime's `block_on` stands here and not
/// in `main`: a future is compiled where it is polled, and the small program would be the second to compile everything.
///
/// # Errors
/// The command failed: the message is for the user.
pub fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let shows_a_table = matches!(cli.command, Command::Demo(_) | Command::Top(_));
    logs::start(cli.logs.filter.as_ref(), cli.logs.format, shows_a_table)?;
    let many = Builder::new_multi_thread;
    match cli.command {
        Command::Check(arguments) => check::check(&arguments),
        Command::Config(arguments) => {
            let written = write!(std::io::stdout(), "{}", configuration(&arguments));
            log::unless_closed(written.map(|()| ExitCode::SUCCESS).map_err(Into::into))
        }
        Command::Run(arguments) => wait(many, run::run(arguments.file.path())),
        Command::Demo(arguments) => wait(many, demo::demo(&arguments)),
        Command::Top(arguments) => wait(many, top::top(&arguments)),
        Command::Log { command } => log::log(&command),
        Command::Explain(arguments) => log::explain(&arguments),
        Command::Orchestrate(arguments) => wait(gathering, orchestrate::orchestrate(&arguments)),
        Command::Plan(arguments) => plan::plan(&arguments),
        Command::Move(arguments) => wait(many, moves::move_topics(&arguments)),
        Command::Place(arguments) => wait(many, place::place(&arguments)),
        Command::Drain(arguments) => wait(many, place::drain(&arguments)),
        Command::Fleet(arguments) => wait(many, fleet::fleet(&arguments)),
        Command::Proxy(arguments) => proxy::proxy(&arguments),
        Command::ExtProc(arguments) => proxy::ext_proc(&arguments),
        Command::EnvoyConfig(arguments) => envoy_config::envoy_config(&arguments),
        Command::Script { command } => script::script(&command),
        Command::Calibrate { command } => calibrate::calibrate(&command),
        Command::User { command } => user::user(&command),
        Command::Keys { command } => keys::keys(&command),
        Command::Completions(arguments) => {
            log::unless_closed(shell::completions(&arguments, Cli::command()))
        }
        Command::Man(arguments) => shell::man(&arguments, Cli::command()),
    }
}

/// What `tidegate config` prints.
fn configuration(arguments: &ConfigArguments) -> String {
    let ConfigArguments { minimal, schema, markdown, orchestrator } = *arguments;
    let kind = if orchestrator { FileKind::Orchestrator } else { FileKind::Node };
    match () {
        () if minimal => reference::MINIMAL.into(),
        () if schema => format!("{:#}\n", schema::schema(kind)),
        () if markdown => page::page(),
        () if orchestrator => reference::orchestrator(),
        () => reference::render(),
    }
}

/// How long an orchestrator lets events gather before it looks at them.
const GATHER: Duration = Duration::from_millis(5);

/// A thread for many small steps that are in no hurry: several would only wake each other, and this one wakes
/// for all that came meanwhile, not for each.
fn gathering() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.on_thread_park(|| std::thread::sleep(GATHER));
    builder
}

/// Runs a command that waits for the world, on these threads.
fn wait(
    threads: fn() -> Builder,
    command: impl Future<Output = anyhow::Result<ExitCode>>,
) -> anyhow::Result<ExitCode> {
    let runtime = threads().enable_all().build()?;
    let code = runtime.block_on(command);
    // Threads that still look up a name would hold the process up.
    runtime.shutdown_background();
    code
}
