//! The log in the status.

use serde::{Deserialize, Serialize};
use tidegate_node::status::LogStatus;

use super::view::TimesView;
use crate::node::log_store::Commits;

/// The log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogView {
    /// Whether it takes what it is given; where not, durable records are refused.
    pub is_working: bool,
    /// Its segments.
    pub segments: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Bound on these.
    pub bound_bytes: u64,
    /// Records in it without a fate.
    pub held_records: u64,
    /// Deliveries without a fate that memory does not hold.
    pub left_deliveries: u64,
    /// From the first write of a group commit to the end of its sync.
    pub commit: TimesView,
    /// Entries that commits took.
    pub committed_entries: u64,
    /// Commits that failed.
    pub failed_commits: u64,
    /// Damaged places that the start met.
    pub damaged_ranges: u64,
}

pub(super) fn log_view(log: &LogStatus, commits: Option<&Commits>) -> LogView {
    let commits = commits.cloned().unwrap_or_default();
    LogView {
        is_working: log.is_working,
        segments: log.segments,
        bytes: log.bytes.0,
        bound_bytes: log.bound.0,
        held_records: log.held_records,
        left_deliveries: log.left_deliveries,
        commit: (&commits.times).into(),
        committed_entries: commits.entries,
        failed_commits: commits.failed,
        damaged_ranges: commits.damaged,
    }
}
