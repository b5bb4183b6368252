//! What a world is made of, and what is counted in it.

use std::iter::Sum;

use bytes::Bytes;
use tidegate_capacity::RateControllerName;
use tidegate_node::io::{OutputId, UplinkId};
use tidegate_node::options::{BacklogOrder, LogOptions, NodeOptions, OutputOptions, UplinkOptions};
use tidegate_node::rules::{FullPolicy, Rule, Rules};
use tidegate_schedule::SchedulerName;
use tidegate_types::class::{Classes, default_classes};
use tidegate_types::record::AcceptMode;
use tidegate_types::units::Size;

/// Where the sink writes.
pub(super) const SINK: &str = "/sink";

/// The name that a payload begins with.
pub(super) fn name_of(payload: &[u8]) -> u64 {
    let text = std::str::from_utf8(payload).expect("every payload is text");
    let name = text.split('.').next().and_then(|name| name.parse().ok()).expect("it has a name");
    assert!(*payload == *payload_of(name, payload.len()), "a payload was changed");
    name
}

/// What a record of this name has to say.
pub(super) fn payload_of(name: u64, size: usize) -> Bytes {
    let mut text = format!("{name:08}.");
    while text.len() < size {
        text.push(char::from(b'a' + (name % 26) as u8));
    }
    text.into()
}

/// How often a life saw what it is for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tallies {
    pub(super) worlds: u64,
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) failed: u64,
    pub(super) cuts: u64,
    pub(super) kills: u64,
    /// Records of which the disk destroyed the copy in the log, or the line in the sink.
    pub(super) destroyed: u64,
    /// Of these, acknowledged ones that are not in the sink.
    pub(super) lost: u64,
    /// Of these, those whose segment was named.
    pub(super) named: u64,
}

impl Sum for Tallies {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Tallies::default(), |sum, one| Tallies {
            worlds: sum.worlds + one.worlds,
            accepted: sum.accepted + one.accepted,
            refused: sum.refused + one.refused,
            failed: sum.failed + one.failed,
            cuts: sum.cuts + one.cuts,
            kills: sum.kills + one.kills,
            destroyed: sum.destroyed + one.destroyed,
            lost: sum.lost + one.lost,
            named: sum.named + one.named,
        })
    }
}

/// A node with one durable stream rule and a sink.
pub(super) fn node_options(segment: u64, incarnation: u64, boot: u64) -> NodeOptions {
    let classes = Classes::new(default_classes()).expect("the paper's classes");
    let all = Rule::catch_all(&classes, vec![OutputId(0)]);
    let rule = Rule {
        accept: AcceptMode::Durable,
        full: FullPolicy::Reject,
        bound: Size(1 << 20),
        memory: Size(4_000),
        ..all
    };
    let output = OutputOptions {
        name: "sink".into(),
        uplink: UplinkId(0),
        overhead: Size(0),
        unconfirmed_max: 50,
        one_lane: false,
        is_gone: false,
    };
    let uplink = UplinkOptions {
        name: "disk".into(),
        controller: RateControllerName::Unlimited,
        cap: None,
        ..UplinkOptions::default()
    };
    let (bound, segment) = (Size(1 << 20), Size(segment));
    NodeOptions {
        name: "gate".into(),
        incarnation,
        rules: Rules::new(vec![rule]).expect("one rule"),
        classes,
        uplinks: vec![uplink],
        outputs: vec![output],
        scheduler: SchedulerName::Tidegate,
        memory: Size(8_000),
        inbound: None,
        record_max: Size(2_000),
        log: Some(LogOptions { boot, bound, segment, backlog: BacklogOrder::OldestFirst }),
        fleet: None,
    }
}
