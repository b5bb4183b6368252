//! The `tidegate` command.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use tidegate::cli::{Cli, dispatch};

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
