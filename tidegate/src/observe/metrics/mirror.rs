//! Metrics of mirrors: only of a node that has to do with one.

use super::{Metric, NONE, Text};
use crate::services::standby::{KeptFigures, MirrorFigures};

pub(super) const UP: Metric =
    Metric::gauge("tidegate_mirror_up", "1 while another node keeps this node's log.");
pub(super) const BEHIND: Metric = Metric::gauge(
    "tidegate_mirror_behind_bytes",
    "Bytes of this node's log that its mirror does not have safe yet.",
);
pub(super) const KEPT: Metric =
    Metric::gauge("tidegate_mirror_kept_bytes", "Bytes of another node's log kept here.");
pub(super) const OWNER_UP: Metric =
    Metric::gauge("tidegate_mirror_up_owner", "1 while the node whose log is kept is connected.");
pub(super) const INHERITED: Metric = Metric::counter(
    "tidegate_mirror_inherited_records_total",
    "Grows by one for each record of a node that was away, when this node takes it over.",
);

/// Adds all of them.
pub(super) fn encode(figures: Option<&MirrorFigures>, text: &mut Text) {
    let Some(figures) = figures else { return };
    if figures.has_mirror {
        text.family(UP, [(NONE, f64::from(u8::from(figures.behind.is_some())))]);
        text.head(BEHIND);
        if let Some(behind) = figures.behind {
            text.sample(BEHIND.name, NONE, behind as f64);
        }
    }
    type Read = fn(&KeptFigures) -> f64;
    let all: [(Metric, Read); 3] = [
        (KEPT, |kept| kept.bytes as f64),
        (OWNER_UP, |kept| f64::from(u8::from(kept.is_connected))),
        (INHERITED, |kept| kept.records as f64),
    ];
    for (metric, read) in all {
        text.head(metric);
        for ((node, life), kept) in &figures.kept {
            let labels = &[("node", &**node), ("incarnation", &format!("{life:016x}"))];
            text.sample(metric.name, labels, read(kept));
        }
    }
}
