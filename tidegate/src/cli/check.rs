//! `tidegate check`: every mistake in a configuration file.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::assembly::cgroup;
use crate::assembly::run::{count, tell};

/// Arguments of `check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArguments {
    /// The file to check
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

pub(super) const CHECK_HELP: &str = "\
Prints FILE:LINE:COLUMN, the key, what is wrong and what would be right, for every mistake.
Warnings tell what is surely not meant, such as a stream that another one hides.
Exits with 0 if there is no error, with 1 if there is one.";

/// Tells everything that is wrong with a file; the exit code says whether anything is.
///
/// # Errors
/// The file cannot be read.
pub fn check(arguments: &CheckArguments) -> anyhow::Result<ExitCode> {
    let file = &arguments.file;
    let (reading, text) = tell(file)?;
    let (errors, warnings) = reading.counts();
    let told = reading.render(&file.display().to_string(), &text);
    let verdict = match (errors, warnings) {
        (0, 0) => "right".to_owned(),
        (0, warnings) => format!("right, with {}", count(warnings, "warning")),
        (errors, 0) => count(errors, "error"),
        (errors, warnings) => {
            format!("{}, {}", count(errors, "error"), count(warnings, "warning"))
        }
    };
    writeln!(io::stdout(), "{told}{}: {verdict}", file.display())?;
    // A proxy has upstreams, which confirm nothing.
    if errors == 0 && reading.config.proxy.listener.is_empty() {
        for output in &reading.config.output {
            let (name, when) = (output.label(), output.confirms());
            writeln!(io::stdout(), "output {name} confirms a record {when}")?;
        }
    }
    if let Some(warning) = cgroup::warning(&reading.config.limits, cgroup::memory_max()) {
        writeln!(io::stderr(), "{warning}")?;
    }
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
