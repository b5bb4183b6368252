//! The metrics that inputs count by themselves.

use super::Metric;
use super::text::Text;
use crate::input::counts::Counts;

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

/// Writes them.
pub(super) fn encode(counts: &Counts, text: &mut Text) {
    let Counts { dropped, refused, denied } = counts;
    for (metric, by_reason) in [(DROPPED, dropped), (REFUSED, refused), (DENIED, denied)] {
        text.head(metric);
        for (reason, count) in by_reason {
            text.sample(metric.name, &[("reason", reason)], *count as f64);
        }
    }
}
