//! Metrics of operators: only of a node that has some. Topics are no labels: their figures are in `/status`.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_stream::StepError;

use super::Metric;
use super::text::Text;
use crate::operators::{DropWhy, Figures, MeterStatus};

pub(super) const RECORDS: Metric = Metric::counter(
    "tidegate_operator_records_total",
    "Counts a record when it comes to the operator.",
);
pub(super) const RESULTS: Metric = Metric::counter(
    "tidegate_operator_results_total",
    "Counts what the last step gave when it is published.",
);
pub(super) const DROPPED: Metric = Metric::counter(
    "tidegate_operator_dropped_records_total",
    "Counts a record that found no room or no thread, or a result that the node had no room for, by reason.",
);
pub(super) const FAILED: Metric = Metric::counter(
    "tidegate_operator_failed_records_total",
    "Counts a record, or a row of it, that ended in a step which could not do its work, by reason.",
);
pub(super) const WAITING: Metric = Metric::gauge(
    "tidegate_operator_waiting_records",
    "Records that wait for the operator or are worked on.",
);
pub(super) const CPU: Metric = Metric::counter(
    "tidegate_operator_cpu_seconds_total",
    "Grows by the time that a record took on a processor, its publishing with it.",
);
pub(super) const VIOLATED: Metric = Metric::counter(
    "tidegate_operator_violated_deliveries_total",
    "Counts a result that was handed to a subscriber later than the bound after its publish came.",
);
pub(super) const STAGE: Metric = Metric::histogram(
    "tidegate_operator_stage_seconds",
    "Counts a record when it ends a stage. wait: arrival to begin; cpu: time on a processor; delivery: arrival \
     of the publish to a subscriber's connection, once for each subscriber.",
);

/// Adds all of them.
pub(super) fn encode(meters: &[MeterStatus], text: &mut Text) {
    if meters.is_empty() {
        return;
    }
    let mut all: BTreeMap<Arc<str>, (u64, Figures)> = BTreeMap::new();
    for meter in meters {
        let (waiting, figures) = all.entry(meter.operator.clone()).or_default();
        *waiting += meter.waiting;
        figures.add(&meter.figures);
    }
    type Read = fn(&(u64, Figures)) -> f64;
    let plain: [(Metric, Read); 5] = [
        (RECORDS, |(_, figures)| figures.records as f64),
        (RESULTS, |(_, figures)| figures.results as f64),
        (WAITING, |(waiting, _)| *waiting as f64),
        (CPU, |(_, figures)| figures.cpu_sum),
        (VIOLATED, |(_, figures)| figures.violated as f64),
    ];
    for (metric, read) in plain {
        text.head(metric);
        for (operator, figures) in &all {
            text.sample(metric.name, &[("operator", operator)], read(figures));
        }
    }
    text.head(DROPPED);
    for (operator, (_, figures)) in &all {
        for (why, count) in DropWhy::ALL.into_iter().zip(figures.dropped) {
            let labels = [("operator", &**operator), ("reason", why.name())];
            text.sample(DROPPED.name, &labels, count as f64);
        }
    }
    text.head(FAILED);
    for (operator, (_, figures)) in &all {
        for (fault, count) in StepError::ALL.into_iter().zip(figures.failed) {
            let labels = [("operator", &**operator), ("reason", fault.name())];
            text.sample(FAILED.name, &labels, count as f64);
        }
    }
    text.head(STAGE);
    for (operator, (_, figures)) in &all {
        let stages =
            [("wait", &figures.wait), ("cpu", &figures.cpu), ("delivery", &figures.delivery)];
        for (stage, times) in stages {
            text.histogram(STAGE.name, &[("operator", operator), ("stage", stage)], times);
        }
    }
}
