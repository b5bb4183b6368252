//! The metrics of the log.

use tidegate_node::status::LogStatus;

use super::text::{NONE, Text};
use super::{Metric, NodeStatus};
use crate::node::log_store::Commits;

pub(super) const WORKING: Metric = Metric::gauge(
    "tidegate_log_working",
    "1 while the log takes what it is given; 0 while it fails and durable records are refused.",
);
pub(super) const BYTES: Metric = Metric::gauge(
    "tidegate_log_bytes",
    "Bytes of all segments of the log, without the room ahead in the newest.",
);
pub(super) const BOUND: Metric =
    Metric::gauge("tidegate_log_bound_bytes", "Bound on the bytes of the log, as configured.");
pub(super) const SEGMENTS: Metric =
    Metric::gauge("tidegate_log_segments", "Segments that the log has on disk.");
pub(super) const HELD: Metric =
    Metric::gauge("tidegate_log_held_records", "Records in the log that have no fate yet.");
pub(super) const LEFT: Metric = Metric::gauge(
    "tidegate_log_left_deliveries",
    "Deliveries without a fate that are in the log only: memory does not hold them.",
);
pub(super) const COMMITS: Metric = Metric::counter(
    "tidegate_log_commits_total",
    "Counts a group commit when its entries are safe on disk.",
);
pub(super) const FAILED: Metric = Metric::counter(
    "tidegate_log_failed_commits_total",
    "Counts a group commit when writing or syncing it failed.",
);
pub(super) const ENTRIES: Metric = Metric::counter(
    "tidegate_log_committed_entries_total",
    "Grows by the entries of a group commit when they are safe on disk.",
);
pub(super) const COMMIT: Metric = Metric::histogram(
    "tidegate_log_commit_seconds",
    "Counts a group commit when it is safe on disk: from its first write to the end of its sync.",
);
pub(super) const DAMAGED: Metric = Metric::gauge(
    "tidegate_log_damaged_ranges",
    "Damaged places of the log: those that the start met, torn ends not counted, and files found damaged since.",
);
pub(super) const QUARANTINED: Metric = Metric::gauge(
    "tidegate_log_quarantined_files",
    "Files in the folder quarantine of the log: damaged, and of no use to the node any more.",
);

/// Writes them; their values only where there is a log.
pub(super) fn encode(status: &NodeStatus, commits: Option<&Commits>, text: &mut Text) {
    type Read = fn(&LogStatus) -> f64;
    let gauges: [(Metric, Read); 6] = [
        (WORKING, |log| f64::from(u8::from(log.is_working))),
        (BYTES, |log| log.bytes.as_f64()),
        (BOUND, |log| log.bound.as_f64()),
        (SEGMENTS, |log| log.segments as f64),
        (HELD, |log| log.held_records as f64),
        (LEFT, |log| log.left_deliveries as f64),
    ];
    for (metric, read) in gauges {
        text.head(metric);
        if let Some(log) = &status.log {
            text.sample(metric.name, NONE, read(log));
        }
    }
    type Count = fn(&Commits) -> f64;
    let counts: [(Metric, Count); 5] = [
        (COMMITS, |commits| commits.times.count() as f64),
        (FAILED, |commits| commits.failed as f64),
        (ENTRIES, |commits| commits.entries as f64),
        (DAMAGED, |commits| commits.damaged as f64),
        (QUARANTINED, |commits| commits.quarantined as f64),
    ];
    for (metric, read) in counts {
        text.head(metric);
        if let Some(commits) = commits {
            text.sample(metric.name, NONE, read(commits));
        }
    }
    text.head(COMMIT);
    if let Some(commits) = commits {
        text.histogram(COMMIT.name, NONE, &commits.times);
    }
}
