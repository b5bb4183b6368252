//! Every metric of a node, and its text form for Prometheus (docs/decisions/0004-metrics.md).
//!
//! Names are `tidegate_<name>_<unit>[_total]`. Labels are names of the configuration (stream, class,
//! uplink, output) and the fixed lists of reasons and stages: their number is bounded by the
//! configuration, and no client or topic is ever a label. What a class did is the sum over its
//! streams: `sum by (class) (...)`.

mod broker;
mod classes;
mod fleet;
mod frames;
mod group;
mod inputs;
mod links;
mod log;
mod mirror;
mod operators;
pub mod orchestrator;
mod proxy;
mod scripts;
mod text;
mod uplinks;

use std::time::Duration;

use tidegate_node::status::{NodeStatus, RuleStatus, Stages};
use tidegate_types::record::DropReason;

use self::text::{Labels, NONE, Text};
use crate::node::contract::counts::Counts;
use crate::observe::status::Snapshot;

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only upward, from 0 at start.
    Counter,
    /// Both ways.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// When it moves.
    pub help: &'static str,
}

impl Metric {
    const fn counter(name: &'static str, help: &'static str) -> Metric {
        Metric { name, kind: Kind::Counter, help }
    }

    const fn gauge(name: &'static str, help: &'static str) -> Metric {
        Metric { name, kind: Kind::Gauge, help }
    }

    const fn histogram(name: &'static str, help: &'static str) -> Metric {
        Metric { name, kind: Kind::Histogram, help }
    }
}

const INFO: Metric =
    Metric::gauge("tidegate_node_info", "Always 1; the labels name the node and its version.");
const UPTIME: Metric = Metric::gauge(
    "tidegate_node_uptime_seconds",
    "Time since the node started, by its monotonic clock.",
);
const HELD: Metric = Metric::gauge(
    "tidegate_node_held_deliveries",
    "Deliveries without a fate: they wait, or are sent and not confirmed.",
);
const HELD_BYTES: Metric =
    Metric::gauge("tidegate_node_held_bytes", "Bytes of the records without a fate.");
const MEMORY: Metric =
    Metric::gauge("tidegate_node_memory_bytes", "Bound on the bytes held, as configured.");
const LOST: Metric = Metric::gauge(
    "tidegate_node_lost_deliveries",
    "Accepted - confirmed - dropped - held. Anything but 0 is a mistake of Tidegate.",
);
const REFUSED: Metric = Metric::counter(
    "tidegate_node_refused_offers_total",
    "Offers refused, for whatever stream or for none.",
);
const RECORDS: Metric = Metric::counter(
    "tidegate_stream_accepted_records_total",
    "Counts a record when it is given its sequence number.",
);
const ACCEPTED: Metric = Metric::counter(
    "tidegate_stream_accepted_deliveries_total",
    "Counts a delivery (a record for one destination) when its record is accepted.",
);
const ACCEPTED_BYTES: Metric = Metric::counter(
    "tidegate_stream_accepted_bytes_total",
    "Grows by a delivery's size (payload, key, properties) when its record is accepted.",
);
const CONFIRMED: Metric = Metric::counter(
    "tidegate_stream_confirmed_deliveries_total",
    "Counts a delivery when its destination confirms it.",
);
const CONFIRMED_BYTES: Metric = Metric::counter(
    "tidegate_stream_confirmed_bytes_total",
    "Grows by a delivery's size when its destination confirms it.",
);
const DROPPED: Metric = Metric::counter(
    "tidegate_stream_dropped_deliveries_total",
    "Counts a delivery when it is given up, by the reason why.",
);
const STREAM_REFUSED: Metric = Metric::counter(
    "tidegate_stream_refused_offers_total",
    "Counts an offer of this stream when it is refused.",
);
const VIOLATED: Metric = Metric::counter(
    "tidegate_stream_violated_deliveries_total",
    "Counts a delivery, once, when its latency bound passes while it waits (at most 100 ms later), or when its last byte goes to the wire after it. Records that only the log holds count when they are read back.",
);
const AGAIN: Metric = Metric::counter(
    "tidegate_stream_resent_deliveries_total",
    "Counts a delivery each time it is sent again after a connection was lost.",
);
const STREAM_HELD: Metric =
    Metric::gauge("tidegate_stream_held_bytes", "Bytes of the stream's deliveries without a fate.");
const OPEN: Metric = Metric::gauge(
    "tidegate_stream_open_streams",
    "Streams of single sources under this rule that are open or hold records.",
);
const STAGE: Metric = Metric::histogram(
    "tidegate_stream_stage_seconds",
    "Counts a delivery when it ends a stage. wait: arrival to first byte picked; transmit: to \
     last byte handed to the wire; residence: both; confirm: last byte to confirmation.",
);
const BOUND: Metric =
    Metric::gauge("tidegate_stream_bound_seconds", "Latency bound on residence, as configured.");
/// Every metric.
pub const ALL: [Metric; 145] = [
    INFO,
    UPTIME,
    HELD,
    HELD_BYTES,
    MEMORY,
    LOST,
    REFUSED,
    inputs::DROPPED,
    inputs::REFUSED,
    inputs::DENIED,
    inputs::OVER_QUOTA,
    inputs::UNPROVEN,
    broker::PUBLISHED,
    broker::DELIVERED,
    broker::DROPPED,
    broker::UNRETAINED,
    broker::SESSIONS,
    broker::SUBSCRIPTIONS,
    broker::WAITING,
    broker::IN_FLIGHT,
    broker::RETAINED,
    broker::RETAINED_BYTES,
    broker::ACCOUNT_BOUND,
    broker::ACCOUNT_BYTES,
    broker::ACCOUNT_REFUSED,
    operators::RECORDS,
    operators::RESULTS,
    operators::DROPPED,
    operators::FAILED,
    operators::WAITING,
    operators::CPU,
    operators::VIOLATED,
    operators::STAGE,
    RECORDS,
    ACCEPTED,
    ACCEPTED_BYTES,
    CONFIRMED,
    CONFIRMED_BYTES,
    DROPPED,
    STREAM_REFUSED,
    VIOLATED,
    AGAIN,
    STREAM_HELD,
    OPEN,
    STAGE,
    BOUND,
    classes::BACKLOG,
    classes::BACKLOG_BYTES,
    classes::LATE,
    classes::DELAY,
    classes::WANTED,
    classes::ALLOCATED,
    classes::COFLOWS,
    classes::COFLOWS_LATE,
    classes::COFLOWS_REFUSED,
    classes::COFLOW_TIMES,
    uplinks::CAPACITY,
    uplinks::WINDOW,
    uplinks::IN_FLIGHT,
    uplinks::RTT,
    uplinks::MIN_RTT,
    uplinks::LANES,
    uplinks::LANES_UP,
    uplinks::UNCONFIRMED,
    links::UP,
    links::RATE,
    links::RTT,
    links::LOSS,
    links::SENT,
    links::LOST,
    links::MARKED,
    links::REPEATED,
    log::WORKING,
    log::BYTES,
    log::BOUND,
    log::SEGMENTS,
    log::HELD,
    log::LEFT,
    log::COMMITS,
    log::FAILED,
    log::ENTRIES,
    log::COMMIT,
    log::DAMAGED,
    log::QUARANTINED,
    fleet::LEADER,
    fleet::PEERS_UP,
    fleet::LENT,
    fleet::BORROWED,
    fleet::RELAYED,
    fleet::BEATS,
    fleet::OBEYED,
    fleet::REFUSED,
    fleet::TAKEOVERS,
    fleet::REDIRECTED,
    fleet::REDIRECTED_BYTES,
    group::OPEN,
    group::EPOCH,
    group::FORWARDED,
    group::DROPPED,
    group::MEMORY,
    mirror::UP,
    mirror::BEHIND,
    mirror::KEPT,
    mirror::OWNER_UP,
    mirror::INHERITED,
    orchestrator::LEADS,
    orchestrator::NODES,
    orchestrator::GRANTS,
    orchestrator::WANTED,
    orchestrator::GRANTED,
    orchestrator::APART,
    orchestrator::DECISIONS,
    orchestrator::DECIDING,
    orchestrator::BEATS,
    orchestrator::FALSE_CLAIMS,
    orchestrator::DIRECTIVES,
    orchestrator::GIVEN,
    orchestrator::ENDED,
    scripts::ON,
    scripts::RUNS,
    scripts::TIME,
    scripts::FAILED,
    scripts::UNADAPTED,
    scripts::VERDICTS,
    scripts::REQUESTS,
    proxy::REQUESTS,
    proxy::BROKEN,
    proxy::CLIENTS,
    proxy::ACCEPTED,
    proxy::TURNED_AWAY,
    proxy::INFORMATIONAL,
    proxy::OPENED,
    proxy::FAILED,
    frames::TAKEN,
    frames::REFUSED,
    frames::ENCODED,
    frames::UNSTORED,
    frames::ENDED,
    frames::BYTES,
    frames::ARRIVED,
    frames::BROKEN,
    frames::SKIPPED,
    frames::LATE,
    frames::SUBSCRIPTIONS,
    frames::ASIDE,
];

/// Upper edges of the stage histograms: from a scheduler's own cost to a long outage, with the default
/// bounds (50, 500, 1000 ms) among them.
pub const BUCKETS: [Duration; 15] = [
    Duration::from_micros(250),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

/// The text that Prometheus reads (exposition format 0.0.4); `counts` is what inputs count by themselves.
pub fn encode(snapshot: &Snapshot, counts: &Counts) -> String {
    let status = &*snapshot.now;
    let mut text = Text::default();
    node(status, &mut text);
    inputs::encode(counts, &mut text);
    broker::encode(status, &snapshot.broker, &mut text);
    operators::encode(&snapshot.operators, &mut text);
    streams(status, &mut text);
    classes::encode(status, &mut text);
    uplinks::encode(status, &mut text);
    links::encode(&snapshot.links, &mut text);
    log::encode(status, snapshot.commits.as_ref(), &mut text);
    fleet::encode(status, snapshot.fleet.as_ref(), &mut text);
    group::encode(snapshot.group.as_ref(), &mut text);
    mirror::encode(snapshot.mirror.as_ref(), &mut text);
    scripts::encode(&snapshot.scripts, &mut text);
    proxy::encode(snapshot.proxy.as_ref(), &mut text);
    frames::encode(snapshot.frames.as_ref(), &mut text);
    text.finish()
}

fn node(status: &NodeStatus, text: &mut Text) {
    let version = env!("CARGO_PKG_VERSION");
    let info: Labels<'_> = &[("node", &status.name), ("version", version)];
    text.family(INFO, [(info, 1.0)]);
    text.family(UPTIME, [(NONE, status.now.as_secs_f64())]);
    text.family(HELD, [(NONE, status.held as f64)]);
    text.family(HELD_BYTES, [(NONE, status.held_bytes.as_f64())]);
    text.family(MEMORY, [(NONE, status.memory.as_f64())]);
    text.family(LOST, [(NONE, status.counts.lost(status.held) as f64)]);
    text.family(REFUSED, [(NONE, status.counts.refused as f64)]);
}

fn streams(status: &NodeStatus, text: &mut Text) {
    type Read = fn(&RuleStatus) -> u64;
    let simple: [(Metric, Read); 6] = [
        (RECORDS, |rule| rule.counts.records),
        (ACCEPTED, |rule| rule.counts.accepted),
        (ACCEPTED_BYTES, |rule| rule.counts.accepted_bytes),
        (CONFIRMED, |rule| rule.counts.confirmed),
        (CONFIRMED_BYTES, |rule| rule.counts.confirmed_bytes),
        (STREAM_REFUSED, |rule| rule.counts.refused),
    ];
    let more: [(Metric, Read); 4] = [
        (VIOLATED, |rule| rule.counts.violated),
        (AGAIN, |rule| rule.counts.again),
        (STREAM_HELD, |rule| rule.held_bytes.0),
        (OPEN, |rule| rule.streams),
    ];
    for (metric, read) in simple.into_iter().chain(more) {
        text.head(metric);
        for rule in &status.rules {
            text.sample(metric.name, &of_rule(rule), read(rule) as f64);
        }
    }
    text.head(DROPPED);
    for rule in &status.rules {
        for reason in DropReason::ALL {
            let [stream, class] = of_rule(rule);
            let labels = [stream, class, ("reason", reason.name())];
            text.sample(DROPPED.name, &labels, rule.counts.dropped[reason.index()] as f64);
        }
    }
    text.head(BOUND);
    for rule in &status.rules {
        text.sample(BOUND.name, &of_rule(rule), rule.bound.as_secs_f64());
    }
    text.head(STAGE);
    for rule in &status.rules {
        let Stages { wait, transmit, residence, confirm } = &rule.stages;
        let stages = [
            ("wait", wait),
            ("transmit", transmit),
            ("residence", residence),
            ("confirm", confirm),
        ];
        for (stage, times) in stages {
            let [stream, class] = of_rule(rule);
            text.histogram(STAGE.name, &[stream, class, ("stage", stage)], times);
        }
    }
}

fn of_rule(rule: &RuleStatus) -> [(&'static str, &str); 2] {
    [("stream", &rule.name), ("class", &rule.class)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_grammar_and_say_when_they_move() {
        for Metric { name, kind, help } in &ALL {
            assert!(name.starts_with("tidegate_"), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert!(help.ends_with('.') && help.len() > 20, "{name}");
        }
        let mut names: Vec<&str> = ALL.iter().map(|metric| metric.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
    }
}
