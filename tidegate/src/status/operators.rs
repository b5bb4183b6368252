//! Operators in the status: one entry for each of their topics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_stream::StepError;

use super::Snapshot;
use super::view::TimesView;
use crate::operators::{DropWhy, MeterStatus};

/// One topic of one operator. What a model of latency reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopicView {
    /// The operator's name.
    pub operator: String,
    /// The topic of the records that it takes.
    pub topic: String,
    /// Latency bound, from a publish's arrival to a result's delivery.
    pub bound_seconds: f64,
    /// Records that came.
    pub records: u64,
    /// The same a second, over `rates_over_seconds`.
    pub records_per_second: f64,
    /// Records that wait or are worked on.
    pub waiting_records: u64,
    /// Results that were published.
    pub results: u64,
    /// Records and results that were dropped, by reason; those that never were are left out.
    pub dropped: BTreeMap<String, u64>,
    /// Records that ended in a step, by reason; those that never did are left out.
    pub failed: BTreeMap<String, u64>,
    /// Mean time of a record on a processor.
    pub cpu_mean_seconds: f64,
    /// Its standard deviation by its mean.
    pub cpu_variation: f64,
    /// Time of a record on a processor.
    pub cpu: TimesView,
    /// From arrival at the operator to its beginning.
    pub wait: TimesView,
    /// From a publish's arrival at the node until a result was handed to a subscriber's connection.
    pub delivery: TimesView,
    /// Deliveries that took longer than the bound.
    pub violated: u64,
}

/// All topics; `over` are the seconds since the snapshot before.
pub(super) fn views(snapshot: &Snapshot, over: f64) -> Vec<TopicView> {
    let before = &snapshot.operators_before;
    snapshot.operators.iter().map(|meter| view(meter, before, over)).collect()
}

/// The view of a topic; `before` is the same earlier.
fn view(meter: &MeterStatus, before: &[MeterStatus], over: f64) -> TopicView {
    let figures = &meter.figures;
    let same = |old: &&MeterStatus| old.operator == meter.operator && old.topic == meter.topic;
    let old = before.iter().find(same).map_or(0, |old| old.figures.records);
    let (cpu_mean_seconds, cpu_variation) = figures.cpu_mean_and_cv();
    let some = |name: &'static str, count: u64| (count > 0).then(|| (name.to_owned(), count));
    let dropped = DropWhy::ALL.into_iter().zip(figures.dropped);
    let failed = StepError::ALL.into_iter().zip(figures.failed);
    TopicView {
        operator: meter.operator.to_string(),
        topic: meter.topic.clone(),
        bound_seconds: figures.bound.as_secs_f64(),
        records: figures.records,
        records_per_second: match over {
            over if over > 0.0 => figures.records.saturating_sub(old) as f64 / over,
            _ => 0.0,
        },
        waiting_records: meter.waiting,
        results: figures.results,
        dropped: dropped.filter_map(|(why, count)| some(why.name(), count)).collect(),
        failed: failed.filter_map(|(fault, count)| some(fault.name(), count)).collect(),
        cpu_mean_seconds,
        cpu_variation,
        cpu: (&figures.cpu).into(),
        wait: (&figures.wait).into(),
        delivery: (&figures.delivery).into(),
        violated: figures.violated,
    }
}
