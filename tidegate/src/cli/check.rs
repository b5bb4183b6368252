//! `tidegate check`: every mistake in a configuration file.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::assembly::cgroup;
use crate::assembly::run::{count, tell};

/// Tells everything that is wrong with a file; the exit code says whether anything is.
///
/// # Errors
/// The file cannot be read.
pub fn check(file: &Path) -> anyhow::Result<ExitCode> {
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
    if let Some(warning) = cgroup::warning(&reading.config.limits, cgroup::memory_max()) {
        writeln!(io::stderr(), "{warning}")?;
    }
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
