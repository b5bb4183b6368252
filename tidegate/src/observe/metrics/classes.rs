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
pub(super) const COFLOWS: Metric = Metric::counter(
    "tidegate_coflow_begun_total",
    "Counts a set of records (co-flow) of the class when its first record comes.",
);
pub(super) const COFLOWS_LATE: Metric = Metric::counter(
    "tidegate_coflow_late_total",
    "Counts a set when its bound passes before all of it is on the wire, or has come where its size is known.",
);
pub(super) const COFLOWS_REFUSED: Metric = Metric::counter(
    "tidegate_coflow_refused_records_total",
    "Counts a record whose set had no place among the 4096 that may be open: it is sent as one without a set.",
);
pub(super) const COFLOW_TIMES: Metric = Metric::histogram(
    "tidegate_coflow_seconds",
    "Counts a set when its last record's last byte goes to the wire: the time since its first record came.",
);

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
    let counters: [(Metric, Read); 3] = [
        (COFLOWS, |class| class.coflows.begun as f64),
        (COFLOWS_LATE, |class| class.coflows.late as f64),
        (COFLOWS_REFUSED, |class| class.coflows.refused as f64),
    ];
    for (metric, read) in gauges.into_iter().chain(counters) {
        text.head(metric);
        for class in &status.classes {
            text.sample(metric.name, &[("class", &class.name)], read(class));
        }
    }
    text.head(COFLOW_TIMES);
    for class in status.classes.iter().filter(|class| class.coflows.begun > 0) {
        text.histogram(COFLOW_TIMES.name, &[("class", &class.name)], &class.coflows.times);
    }
}
