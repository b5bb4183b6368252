//! The metrics that inputs count by themselves.

use super::Metric;
use super::text::Text;
use crate::node::contract::counts::Counts;

pub(super) const DROPPED: Metric = Metric::counter(
    "tidegate_input_dropped_records_total",
    "Counts a record that is not taken though its sender believes so, by the reason why.",
);
pub(super) const REFUSED: Metric = Metric::counter(
    "tidegate_input_refused_records_total",
    "Counts a record that an input refuses by itself, and says so, by the reason why.",
);
pub(super) const DENIED: Metric = Metric::counter(
    "tidegate_input_denied_connections_total",
    "Counts a connection that is not let in, by the reason why.",
);
pub(super) const UNPROVEN: Metric = Metric::counter(
    "tidegate_input_unproven_records_total",
    "Counts a record of a link that bears another node's name without proof when it is taken, by whether it keeps that name (taken) or gets one of ours (renamed).",
);

/// Writes them.
pub(super) fn encode(counts: &Counts, text: &mut Text) {
    let Counts { dropped, refused, denied, unproven } = counts;
    let all = [
        (DROPPED, "reason", dropped),
        (REFUSED, "reason", refused),
        (DENIED, "reason", denied),
        (UNPROVEN, "outcome", unproven),
    ];
    for (metric, label, counts) in all {
        text.head(metric);
        for (value, count) in counts {
            text.sample(metric.name, &[(label, value)], *count as f64);
        }
    }
}
