//! The status as JSON: what `/status` answers and `tidegate top` reads.
//!
//! Fields end in their unit. A new field may come in any version; none changes its meaning.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidegate_node::status::{ClassStatus, Counts, RuleStatus, StageTimes, Stages, UplinkStatus};
use tidegate_types::record::DropReason;

use super::Snapshot;
use super::broker::{BrokerView, broker_view};
use super::cameras::{FramesView, frames_view};
use super::coflows::CoflowsView;
use super::fleet::{FleetView, fleet_view};
use super::links::LinkView;
use super::log::{LogView, log_view};
use super::mirror::{MirrorView, mirror_view};
use super::operators::{self, TopicView};
use super::outputs::{OutputView, output_views};
use super::recent::{HistoryView, PERIOD, RecentView};
use super::scripts::ScriptView;
use crate::services::cluster::UnitView;

/// The whole node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeView {
    /// Its name.
    pub node: String,
    /// Its incarnation, in hexadecimal as in identities.
    pub incarnation: String,
    /// Since it started.
    pub uptime_seconds: f64,
    /// What the rates of `streams` are averages over.
    pub rates_over_seconds: f64,
    /// What `recent` of classes and streams is over: a minute, or less after a start.
    #[serde(default)]
    pub recent_seconds: f64,
    /// Accepted - confirmed - dropped - held: anything but 0 is a mistake of ours.
    pub lost_deliveries: i64,
    /// Deliveries without a fate.
    pub held_deliveries: u64,
    /// Bytes of them.
    pub held_bytes: u64,
    /// Bound on these.
    pub memory_bytes: u64,
    /// Sum over all streams.
    pub counts: CountsView,
    /// Most urgent first.
    pub classes: Vec<ClassView>,
    /// In the order of the configuration.
    pub streams: Vec<StreamView>,
    /// In the order of the configuration.
    pub uplinks: Vec<UplinkView>,
    /// In the order of the configuration.
    pub outputs: Vec<OutputView>,
    /// Links, those of outputs and those that came to inputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkView>,
    /// Scripts, in the order of the configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<ScriptView>,
    /// Topics of operators, by operator and topic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operators: Vec<TopicView>,
    /// Placed topics, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placed: Vec<UnitView>,
    /// The log, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogView>,
    /// Its part in a fleet, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetView>,
    /// Mirrors: of its log, and of others' logs, if it has to do with any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mirror: Option<MirrorView>,
    /// Its own broker and clients, if anybody ever came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broker: Option<BrokerView>,
    /// Cameras and subscribers of frames, if it has to do with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<FramesView>,
    /// Classes over the last ten minutes, in periods of `history_period_seconds`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<HistoryView>,
    /// Length of these periods.
    #[serde(default)]
    pub history_period_seconds: f64,
}

/// One class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassView {
    /// Its name.
    pub name: String,
    /// Bound on residence.
    pub bound_seconds: f64,
    /// Records that wait.
    pub backlog_records: u64,
    /// Bytes that wait.
    pub backlog_bytes: u64,
    /// Of these, records past their deadline.
    pub late_records: u64,
    /// Arrivals.
    pub input_bytes_per_second: f64,
    /// Arrivals.
    pub input_records_per_second: f64,
    /// Departures.
    pub output_bytes_per_second: f64,
    /// What would clear backlog and arrivals within the bound.
    pub wanted_bytes_per_second: f64,
    /// Its part of the uplinks.
    pub allocated_bytes_per_second: f64,
    /// Estimated queueing delay.
    pub queue_delay_seconds: f64,
    /// Since start.
    pub counts: CountsView,
    /// Over the last minute, `recent_seconds`.
    #[serde(default)]
    pub recent: RecentView,
    /// Since start.
    pub stages: StagesView,
    /// Sets of its records (co-flows), if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coflows: Option<CoflowsView>,
}

/// One `[[stream]]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamView {
    /// Its name.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Its own bound on residence.
    pub bound_seconds: f64,
    /// Streams of single sources under this rule.
    pub streams: u64,
    /// Deliveries without a fate.
    pub held_deliveries: u64,
    /// Bytes of them.
    pub held_bytes: u64,
    /// Accepted, over `rates_over_seconds`.
    pub input_bytes_per_second: f64,
    /// Confirmed, over `rates_over_seconds`.
    pub output_bytes_per_second: f64,
    /// Since start.
    pub counts: CountsView,
    /// Over the last minute, `recent_seconds`.
    #[serde(default)]
    pub recent: RecentView,
    /// Since start.
    pub stages: StagesView,
}

/// Counts since start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountsView {
    /// Records accepted.
    pub records: u64,
    /// Deliveries accepted: one for each destination of a record.
    pub accepted: u64,
    /// Bytes of them.
    pub accepted_bytes: u64,
    /// Deliveries confirmed.
    pub confirmed: u64,
    /// Bytes of them.
    pub confirmed_bytes: u64,
    /// Deliveries dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Offers refused.
    pub refused: u64,
    /// Deliveries later than their bound.
    pub violated: u64,
    /// Deliveries sent again.
    pub again: u64,
}

/// Times of every stage of a delivery.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StagesView {
    /// Arrival to the first byte picked.
    pub wait: TimesView,
    /// First byte picked to the last byte handed to the wire.
    pub transmit: TimesView,
    /// Arrival to the last byte handed to the wire.
    pub residence: TimesView,
    /// Last byte handed to the wire to the confirmation.
    pub confirm: TimesView,
}

/// Quantiles of one stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimesView {
    /// Deliveries counted.
    pub count: u64,
    /// Their mean.
    pub mean_seconds: f64,
    /// Half took at most this.
    pub p50_seconds: f64,
    /// 90 of 100.
    pub p90_seconds: f64,
    /// 99 of 100.
    pub p99_seconds: f64,
    /// 999 of 1000.
    pub p999_seconds: f64,
}

/// One uplink.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UplinkView {
    /// Its name.
    pub name: String,
    /// Estimated capacity; 0 while unknown.
    pub capacity_bytes_per_second: f64,
    /// Bytes that may be below the scheduler.
    pub window_bytes: u64,
    /// Bytes that are.
    pub in_flight_bytes: u64,
    /// Smallest round trip seen.
    pub min_rtt_seconds: Option<f64>,
    /// Newest round trip seen.
    pub rtt_seconds: Option<f64>,
}

impl From<&Snapshot> for NodeView {
    fn from(snapshot: &Snapshot) -> Self {
        let now = &*snapshot.now;
        let before = snapshot.before.as_deref();
        let since = before.map_or(tidegate_types::units::Time::ZERO, |before| before.now);
        let over = now.now.since(since).as_secs_f64();
        let recent = &*snapshot.recent;
        let stream = |(place, rule): (usize, &RuleStatus)| {
            // Rules stand at their places; after a reload a name tells whether it is the same one.
            let same = |old: &&RuleStatus| old.name == rule.name;
            let old = before.and_then(|before| before.rules.get(place)).filter(same);
            let recent = recent.rules.get(place).cloned().unwrap_or_default();
            StreamView { recent, ..stream_view(rule, old.map(|old| &old.counts), over) }
        };
        let class = |(place, class): (usize, &ClassStatus)| {
            let recent = recent.classes.get(place).cloned().unwrap_or_default();
            ClassView { recent, ..class.into() }
        };
        NodeView {
            node: now.name.to_string(),
            incarnation: format!("{:016x}", now.incarnation),
            uptime_seconds: now.now.as_secs_f64(),
            rates_over_seconds: over,
            recent_seconds: recent.over.as_secs_f64(),
            lost_deliveries: now.counts.lost(now.held).clamp(i64::MIN.into(), i64::MAX.into())
                as i64,
            held_deliveries: now.held,
            held_bytes: now.held_bytes.0,
            memory_bytes: now.memory.0,
            counts: (&now.counts).into(),
            classes: now.classes.iter().enumerate().map(class).collect(),
            streams: now.rules.iter().enumerate().map(stream).collect(),
            uplinks: now.uplinks.iter().map(Into::into).collect(),
            outputs: output_views(snapshot),
            links: snapshot.links.iter().map(Into::into).collect(),
            scripts: snapshot.scripts.iter().map(Into::into).collect(),
            operators: operators::views(snapshot, over),
            placed: snapshot.group.clone().map_or_else(Vec::new, |group| group.units),
            log: now.log.as_ref().map(|log| log_view(log, snapshot.commits.as_ref())),
            fleet: fleet_view(snapshot),
            mirror: snapshot.mirror.as_ref().map(mirror_view),
            broker: broker_view(snapshot),
            frames: snapshot.frames.as_ref().map(frames_view),
            history: recent.history.clone(),
            history_period_seconds: PERIOD.as_secs_f64(),
        }
    }
}

fn stream_view(rule: &RuleStatus, before: Option<&Counts>, over: f64) -> StreamView {
    let rate = |now: u64, before: u64| {
        if over > 0.0 { now.saturating_sub(before) as f64 / over } else { 0.0 }
    };
    let old = before.cloned().unwrap_or_default();
    StreamView {
        name: rule.name.to_string(),
        class: rule.class.to_string(),
        bound_seconds: rule.bound.as_secs_f64(),
        streams: rule.streams,
        held_deliveries: rule.held,
        held_bytes: rule.held_bytes.0,
        input_bytes_per_second: rate(rule.counts.accepted_bytes, old.accepted_bytes),
        output_bytes_per_second: rate(rule.counts.confirmed_bytes, old.confirmed_bytes),
        counts: (&rule.counts).into(),
        stages: (&rule.stages).into(),
        recent: RecentView::default(),
    }
}

impl From<&ClassStatus> for ClassView {
    fn from(class: &ClassStatus) -> Self {
        ClassView {
            name: class.name.to_string(),
            bound_seconds: class.bound.as_secs_f64(),
            backlog_records: class.backlog_records,
            backlog_bytes: class.backlog.0,
            late_records: class.overdue_records,
            input_bytes_per_second: class.input_rate.as_f64(),
            input_records_per_second: class.input_records_per_second,
            output_bytes_per_second: class.output_rate.as_f64(),
            wanted_bytes_per_second: class.wanted_rate.as_f64(),
            allocated_bytes_per_second: class.allocated_rate.as_f64(),
            queue_delay_seconds: class.queue_delay.as_secs_f64(),
            counts: (&class.counts).into(),
            stages: (&class.stages).into(),
            recent: RecentView::default(),
            coflows: (class.coflows.begun > 0).then(|| (&class.coflows).into()),
        }
    }
}

impl From<&Counts> for CountsView {
    fn from(counts: &Counts) -> Self {
        let dropped = |reason: DropReason| (reason.name().into(), counts.dropped[reason.index()]);
        CountsView {
            records: counts.records,
            accepted: counts.accepted,
            accepted_bytes: counts.accepted_bytes,
            confirmed: counts.confirmed,
            confirmed_bytes: counts.confirmed_bytes,
            dropped: DropReason::ALL.map(dropped).into(),
            refused: counts.refused,
            violated: counts.violated,
            again: counts.again,
        }
    }
}

impl CountsView {
    /// `expired 3, full 12`, or nothing.
    pub fn drops_in_words(&self) -> String {
        let some = self.dropped.iter().filter(|(_, count)| **count > 0);
        let words: Vec<String> = some.map(|(reason, count)| format!("{reason} {count}")).collect();
        words.join(", ")
    }

    /// All drops together.
    pub fn dropped_all(&self) -> u64 {
        self.dropped.values().sum()
    }
}

impl From<&Stages> for StagesView {
    fn from(stages: &Stages) -> Self {
        StagesView {
            wait: (&stages.wait).into(),
            transmit: (&stages.transmit).into(),
            residence: (&stages.residence).into(),
            confirm: (&stages.confirm).into(),
        }
    }
}

impl From<&StageTimes> for TimesView {
    fn from(times: &StageTimes) -> Self {
        let quantile = |share| times.quantile(share).as_secs_f64();
        let count = times.count();
        TimesView {
            count,
            mean_seconds: if count > 0 { times.sum().as_secs_f64() / count as f64 } else { 0.0 },
            p50_seconds: quantile(0.5),
            p90_seconds: quantile(0.9),
            p99_seconds: quantile(0.99),
            p999_seconds: quantile(0.999),
        }
    }
}

impl From<&UplinkStatus> for UplinkView {
    fn from(uplink: &UplinkStatus) -> Self {
        UplinkView {
            name: uplink.name.to_string(),
            capacity_bytes_per_second: uplink.capacity.as_f64(),
            window_bytes: uplink.window.0,
            in_flight_bytes: uplink.in_flight.0,
            min_rtt_seconds: uplink.min_rtt.map(|rtt| rtt.as_secs_f64()),
            rtt_seconds: uplink.rtt.map(|rtt| rtt.as_secs_f64()),
        }
    }
}
