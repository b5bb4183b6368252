//! `tidegate log` and `tidegate explain`: looking into a log, also while its node runs.
//!
//! Nothing here writes into a log, takes its lock, or needs more memory than its largest segment. What
//! a segment holds and how a record ended are pure functions in the `log` crate; here are the files and the
//! words.

mod arguments;
mod explain;
mod export;
mod files;
mod frame;
mod ls;
mod record;
mod select;
mod sessions;
mod sink;
mod verify;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use tidegate_types::record::Identity;

pub use self::arguments::{
    CatArguments, ExplainArguments, ExportArguments, ExportFormat, FrameName, KEY_VARIABLE,
    LogArguments, LogCommand, LogPlace, LsArguments, PayloadForm, Select, VerifyArguments,
};
pub(super) use self::arguments::{EXPLAIN_HELP, LOG_HELP};

/// Lists, prints, verifies or exports a log.
///
/// # Errors
/// It cannot be read.
pub fn log(command: &LogCommand) -> anyhow::Result<ExitCode> {
    unless_closed(match command {
        LogCommand::Ls(arguments) => ls::ls(arguments).map(|()| ExitCode::SUCCESS),
        LogCommand::Sessions(arguments) => {
            sessions::sessions(arguments).map(|()| ExitCode::SUCCESS)
        }
        LogCommand::Cat(arguments) => export::cat(arguments),
        LogCommand::Verify(arguments) => verify::verify(arguments),
        LogCommand::Export(arguments) => export::export(arguments),
    })
}

/// Tells the life of a record, or of a frame.
///
/// # Errors
/// The log, or the folder of frames, cannot be read.
pub fn explain(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    unless_closed(match (&arguments.frame, &arguments.place.config) {
        (Some(asked), Some(config)) => frame::explain(asked, config),
        _ => explain::explain(arguments),
    })
}

/// A record's life in words, and the neighbours that carried it.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Its life, or why the log does not know it.
    pub text: String,
    /// Where a neighbour's uplink carried it.
    pub carried: Vec<Carried>,
}

/// A neighbour's uplink carried a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The neighbour's name.
    pub by: String,
    /// The record's class.
    pub class: String,
    /// When the record was accepted, nanoseconds since the Unix epoch; 0: unknown.
    pub accepted_ns: u64,
    /// When its end was noted.
    pub ended_ns: Option<u64>,
}

/// The life of one record.
///
/// # Errors
/// The log cannot be read.
pub fn life(
    directory: Option<&Path>,
    place: &LogPlace,
    identity: &Identity,
) -> anyhow::Result<Told> {
    explain::life(directory, place, identity)
}

/// Who reads no further, as `head` does, has what it wants.
pub(super) fn unless_closed(told: anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
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
