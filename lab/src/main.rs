//! The evaluator's tool.

use std::process::ExitCode;

fn main() -> ExitCode {
    match tidegate_lab::cli::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
