//! Metrics of a group: only of a node that is a member of one.

use super::{Metric, NONE, Text};
use crate::services::cluster::GroupView;

pub(super) const OPEN: Metric = Metric::gauge(
    "tidegate_group_open",
    "1 while this node owns the placed topics of this name and takes records of them.",
);
pub(super) const EPOCH: Metric =
    Metric::gauge("tidegate_group_epoch", "How often the placed topics of this name have moved.");
pub(super) const FORWARDED: Metric = Metric::counter(
    "tidegate_group_forwarded_records_total",
    "Grows by one for each record of a placed topic that comes in here, when it is brought to the owner.",
);
pub(super) const DROPPED: Metric = Metric::counter(
    "tidegate_group_dropped_results_total",
    "Grows by one for each result of a placed topic that a member does not get, for want of room.",
);

pub(super) const MEMORY: Metric = Metric::counter(
    "tidegate_group_memory_keys_total",
    "Grows by one for each key of an operator whose memory was to move: sent to the next owner or left behind, taken over from the last one or refused, by result.",
);

/// Adds all of them.
pub(super) fn encode(group: Option<&GroupView>, text: &mut Text) {
    let Some(group) = group else { return };
    for (metric, is_epoch) in [(OPEN, false), (EPOCH, true)] {
        text.head(metric);
        for unit in &group.units {
            let value = if is_epoch { unit.epoch } else { u64::from(unit.is_open) };
            text.sample(metric.name, &[("placed", &*unit.name)], value as f64);
        }
    }
    text.family(FORWARDED, [(NONE, group.forwarded as f64)]);
    text.family(DROPPED, [(NONE, group.dropped as f64)]);
    text.head(MEMORY);
    let memory = &group.memory;
    for (result, count) in [
        ("sent", memory.sent),
        ("left", memory.left),
        ("taken", memory.taken),
        ("refused", memory.refused),
    ] {
        text.sample(MEMORY.name, &[("result", result)], count as f64);
    }
}
