//! Metrics of the node's part in its fleet: only of a node that has one.

use tidegate_node::status::NodeStatus;
use tidegate_types::class::ClassId;

use super::Metric;
use super::text::{NONE, Text};
use crate::services::fleet::FleetFigures;

pub(super) const LEADER: Metric = Metric::gauge(
    "tidegate_fleet_leader_up",
    "1 while the node is connected to the orchestrator that leads, else 0.",
);
pub(super) const PEERS_UP: Metric =
    Metric::gauge("tidegate_fleet_up_peers", "Neighbours whose link is up.");
pub(super) const LENT: Metric = Metric::gauge(
    "tidegate_fleet_lent_bytes_per_second",
    "What of this node's uplink a neighbour may use now, by neighbour and class.",
);
pub(super) const BORROWED: Metric = Metric::gauge(
    "tidegate_fleet_borrowed_bytes_per_second",
    "What of a neighbour's uplink this node may use now, by neighbour and class.",
);
pub(super) const RELAYED: Metric = Metric::counter(
    "tidegate_fleet_relayed_bytes_total",
    "Grows by a neighbour's record's payload when the far end has confirmed it.",
);
pub(super) const BEATS: Metric = Metric::counter(
    "tidegate_fleet_beats_total",
    "Counts a heartbeat when it is handed to the stream.",
);
pub(super) const OBEYED: Metric = Metric::counter(
    "tidegate_fleet_obeyed_directives_total",
    "Counts a directive of the leader when the node obeys it.",
);
pub(super) const REFUSED: Metric = Metric::counter(
    "tidegate_fleet_refused_directives_total",
    "Counts a directive that is not newer than one that was obeyed, or of a deposed leader.",
);
pub(super) const TAKEOVERS: Metric = Metric::counter(
    "tidegate_fleet_leaders_found_total",
    "Counts each time the node found a leader: after its start, and after one was lost.",
);
pub(super) const REDIRECTED: Metric = Metric::counter(
    "tidegate_fleet_redirected_records_total",
    "Counts a record of another output's queue when it is sent by this output: by a neighbour.",
);
pub(super) const REDIRECTED_BYTES: Metric = Metric::counter(
    "tidegate_fleet_redirected_bytes_total",
    "Grows by the size of a record of another output's queue when it is sent by this output.",
);

/// Adds all of them.
pub(super) fn encode(status: &NodeStatus, figures: Option<&FleetFigures>, text: &mut Text) {
    let Some(figures) = figures else { return };
    text.family(LEADER, [(NONE, f64::from(u8::from(figures.has_leader)))]);
    text.family(PEERS_UP, [(NONE, figures.peers_up as f64)]);
    for (metric, wanted) in [(LENT, true), (BORROWED, false)] {
        text.head(metric);
        for ((peer, ClassId(class), is_lent), amount) in &figures.grants {
            if *is_lent == wanted {
                let class = status.classes.get(usize::from(*class)).map_or("", |class| &class.name);
                text.sample(metric.name, &[("peer", peer), ("class", class)], *amount as f64);
            }
        }
    }
    for (metric, count) in [
        (RELAYED, figures.relayed),
        (BEATS, figures.beats),
        (OBEYED, figures.obeyed),
        (REFUSED, figures.refused),
        (TAKEOVERS, figures.takeovers),
    ] {
        text.family(metric, [(NONE, count as f64)]);
    }
    text.head(REDIRECTED);
    for output in &status.outputs {
        let count = output.redirected_records as f64;
        text.sample(REDIRECTED.name, &[("output", &output.name)], count);
    }
    text.head(REDIRECTED_BYTES);
    for output in &status.outputs {
        let bytes = output.redirected.as_f64();
        text.sample(REDIRECTED_BYTES.name, &[("output", &output.name)], bytes);
    }
}
