//! What can be wrong with a replay, and where.

use std::io;
use std::path::PathBuf;

use super::row::RowError;

/// Why a text is no key template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Nothing.
    #[error("a key template is not empty")]
    Empty,
    /// Braces that do not match.
    #[error("in the key template {0:?}, a field is written as {{name}}")]
    Brace(String),
    /// Characters that no key may have.
    #[error("the key template {0:?} has a wildcard (+, #) or a NUL character")]
    Wildcard(String),
}

/// Why a replay ends before its end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Nothing to replay.
    #[error("replay: no file is named")]
    NoFile,
    /// A speed or rate that is no positive number.
    #[error("replay: {0} must be a positive number")]
    Pace(&'static str),
    /// A file cannot be read.
    #[error("replay: cannot read {}: {source}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A row is wrong.
    #[error("replay: {}, line {line}: {source}", .file.display())]
    Row {
        /// The file.
        file: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong.
        source: RowError,
    },
    /// The node is stopping.
    #[error("replay: the node is stopping")]
    Stopping,
}
