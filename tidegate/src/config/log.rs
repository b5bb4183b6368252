//! `[log]`: the log that keeps accepted records over a crash.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tidegate_types::units::Size;

use super::units::{ByteSize, Period};

/// `[log]`; without a directory there is none.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Folder of its segments, for this node alone.
    pub directory: Option<PathBuf>,
    /// Bound on the bytes of all segments.
    pub bound: ByteSize,
    /// Bytes at which a segment is finished.
    pub segment: ByteSize,
    /// Records that one commit takes at most.
    pub commit_max: usize,
    /// How long a commit waits for more than its first entry.
    pub commit_delay: Period,
    /// Which records on disk are read back first.
    pub backlog: Backlog,
    /// File with the key that seals new segments.
    pub key_file: Option<PathBuf>,
    /// Environment variable with that key.
    pub key_env: Option<String>,
    /// Files with keys of earlier segments.
    pub old_key_files: Vec<PathBuf>,
    /// Whether to wait for another process that uses the log, and to take over when it ends.
    pub standby: bool,
}

/// `backlog` of `[log]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backlog {
    /// The oldest.
    #[default]
    OldestFirst,
    /// Those of the newest segment.
    NewestFirst,
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig {
            directory: None,
            bound: ByteSize(Size::from_mib(1024)),
            segment: ByteSize(Size::from_mib(64)),
            commit_max: 256,
            commit_delay: Period(Duration::ZERO),
            backlog: Backlog::OldestFirst,
            key_file: None,
            key_env: None,
            old_key_files: Vec::new(),
            standby: false,
        }
    }
}
