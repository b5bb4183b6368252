//! `tidegate log` and `tidegate explain`: looking into a log, also while its node runs.
//!
//! Nothing here writes into a log, takes its lock, or needs more memory than its largest segment. What
//! a segment holds and how a record ended are pure functions in core's `log`; here are the files and the
//! words.

mod explain;
mod export;
mod files;
mod ls;
mod record;
mod select;
mod verify;

use std::io;
use std::process::ExitCode;

use crate::cli::log::{ExplainArguments, LogCommand};

/// Lists, prints, verifies or exports a log.
///
/// # Errors
/// It cannot be read.
pub fn log(command: &LogCommand) -> anyhow::Result<ExitCode> {
    unless_closed(match command {
        LogCommand::Ls(arguments) => ls::ls(arguments).map(|()| ExitCode::SUCCESS),
        LogCommand::Cat(arguments) => export::cat(arguments),
        LogCommand::Verify(arguments) => verify::verify(arguments),
        LogCommand::Export(arguments) => export::export(arguments),
    })
}

/// Tells the life of a record.
///
/// # Errors
/// The log cannot be read.
pub fn explain(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    unless_closed(explain::explain(arguments))
}

/// Who reads no further, as `head` does, has what it wants.
fn unless_closed(told: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    match told {
        Err(error) if is_closed(&error) => Ok(ExitCode::SUCCESS),
        told => told,
    }
}

fn is_closed(error: &anyhow::Error) -> bool {
    let of_io = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json =
            cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    };
    error.chain().any(of_io)
}
