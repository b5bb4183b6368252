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

pub(super) const OVER_QUOTA: Metric = Metric::counter(
    "tidegate_input_over_quota_total",
    "Counts what a user, or an address where nobody says who he is, wanted beyond his [[quota]] or share: a connection or a subscription that is refused, a session that made room for another one of his, a session expiry that was reduced.",
);

/// Writes them.
pub(super) fn encode(counts: &Counts, text: &mut Text) {
    let Counts { dropped, refused, denied, over_quota, unproven } = counts;
    let all = [
        (DROPPED, "reason", dropped),
        (REFUSED, "reason", refused),
        (DENIED, "reason", denied),
        (OVER_QUOTA, "quota", over_quota),
        (UNPROVEN, "outcome", unproven),
    ];
    for (metric, label, counts) in all {
        text.head(metric);
        for (value, count) in counts {
            text.sample(metric.name, &[(label, value)], *count as f64);
        }
    }
}
