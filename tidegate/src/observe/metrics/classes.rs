//! Metrics of classes.

use tidegate_node::status::NodeStatus;

use super::Metric;
use super::text::Text;

pub(super) const BACKLOG: Metric =
    Metric::gauge("tidegate_class_backlog_records", "Records of the class that wait.");
pub(super) const BACKLOG_BYTES: Metric =
    Metric::gauge("tidegate_class_backlog_bytes", "Bytes of the class that wait.");
pub(super) const LATE: Metric = Metric::gauge(
    "tidegate_class_late_records",
    "Records of the class that wait and are past their deadline.",
);
pub(super) const DELAY: Metric = Metric::gauge(
    "tidegate_class_queue_delay_seconds",
    "Estimated time that a record arriving now would wait.",
);
pub(super) const WANTED: Metric = Metric::gauge(
    "tidegate_class_wanted_bytes_per_second",
    "Rate that would clear backlog and arrivals within the bound.",
);
pub(super) const ALLOCATED: Metric =
    Metric::gauge("tidegate_class_allocated_bytes_per_second", "The class's part of the uplinks.");

/// Writes them.
pub(super) fn encode(status: &NodeStatus, text: &mut Text) {
    type Read = fn(&tidegate_node::status::ClassStatus) -> f64;
    let gauges: [(Metric, Read); 6] = [
        (BACKLOG, |class| class.backlog_records as f64),
        (BACKLOG_BYTES, |class| class.backlog.as_f64()),
        (LATE, |class| class.overdue_records as f64),
        (DELAY, |class| class.queue_delay.as_secs_f64()),
        (WANTED, |class| class.wanted_rate.as_f64()),
        (ALLOCATED, |class| class.allocated_rate.as_f64()),
    ];
    for (metric, read) in gauges {
        text.head(metric);
        for class in &status.classes {
            text.sample(metric.name, &[("class", &class.name)], read(class));
        }
    }
}
