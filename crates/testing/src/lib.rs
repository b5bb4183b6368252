//! What tests of a node share: a driver that checks every step, and random operations with a model that
//! knows what must hold after each. A crate of its own, so that each room is compiled once: as it is shipped.

mod cut;
mod disk;
pub mod fleets;
mod hostile;
mod link;
mod log;
mod steps;
pub mod support;
mod trial;
mod wire;

use std::time::Duration;

use bytes::Bytes;

pub use self::cut::Cut;
pub use self::disk::{Disk, File};
pub use self::hostile::hear;
pub use self::link::{Came, LinkWorld, NAME, OVERHEAD, Way};
pub use self::log::scan_log;
pub use self::steps::NodeOp;
pub use self::trial::{Trial, run};
pub use self::wire::{Answer, Wire};

use tidegate_capacity::RateControllerName;
use tidegate_node::io::{OutputId, UplinkId};
use tidegate_node::options::{BacklogOrder, LogOptions, NodeOptions, OutputOptions, UplinkOptions};
use tidegate_node::rules::{Discipline, FullPolicy, Rule, Rules, ScriptId};
use tidegate_schedule::SchedulerName;
use tidegate_types::class::{Classes, default_classes};
use tidegate_types::record::{AcceptMode, Offered, Properties, SourceId};
use tidegate_types::units::{Rate, Ratio, Size, Time};

/// A small node that runs into every bound: the bits of the number choose scheduler, uplinks and rate controllers.
pub fn trial_options(setup: u8) -> NodeOptions {
    let is = |bit: u8| setup >> bit & 1 == 1;
    let mut classes = default_classes();
    classes[1].min_share = Ratio::new(0.2);
    classes[1].cap = is(4).then(|| Rate::new(20_000.0));
    let classes = Classes::new(classes).unwrap_or_else(|error| panic!("{error}"));
    let controller = match (is(1), is(5)) {
        (false, _) => RateControllerName::Unlimited,
        (true, false) => RateControllerName::Known,
        (true, true) => RateControllerName::Tide,
    };
    let uplink = |name: &str| UplinkOptions {
        name: name.into(),
        controller,
        cap: is(1).then(|| Rate::from_bits(2e6)),
        ..UplinkOptions::default()
    };
    let output = |name: &str, uplink| OutputOptions {
        name: name.into(),
        uplink: UplinkId(uplink),
        overhead: Size(u64::from(setup % 5) * 10),
        unconfirmed_max: if is(3) { 4 } else { 30 },
        one_lane: false,
        is_gone: false,
    };
    let (bound, segment) = (Size(if is(6) { 6_000 } else { 60_000 }), Size(1_000));
    let backlog = if is(7) { BacklogOrder::NewestFirst } else { BacklogOrder::OldestFirst };
    let log = LogOptions { boot: 77, bound, segment, backlog };
    NodeOptions {
        name: "trial".into(),
        incarnation: u64::from(setup),
        rules: trial_rules(&classes),
        classes,
        uplinks: vec![uplink("first"), uplink("second")],
        outputs: vec![output("cloud", 0), output("archive", u16::from(is(2)))],
        scheduler: match (is(0), is(6)) {
            (true, false) => SchedulerName::Native,
            (false, false) => SchedulerName::Tidegate,
            (true, true) => SchedulerName::JanusPaper,
            (false, true) => SchedulerName::Janus,
        },
        inbound: is(7).then(|| Rate::new(20_000.0)),
        memory: Size(12_000),
        record_max: Size(1_900),
        log: Some(log),
        fleet: None,
    }
}

/// The rules of a trial, changed: the bits of the number choose how.
pub fn changed_rules(classes: &Classes, change: u8) -> Rules {
    let is = |bit: u8| change >> bit & 1 == 1;
    let mut rules: Vec<Rule> = trial_rules(classes).asked().map(|(_, rule)| rule.clone()).collect();
    for rule in &mut rules {
        if is(0) {
            rule.to.iter_mut().for_each(|output| output.0 = 1 - output.0);
        }
        if is(1) {
            rule.to.truncate(1);
        }
        if is(2) {
            rule.discipline = Discipline::Fifo;
            rule.accept = AcceptMode::Memory;
        }
        if is(3) {
            (rule.latency, rule.class) =
                (Duration::from_millis(300), tidegate_types::class::ClassId(1));
        }
    }
    if is(4) {
        let filters = std::mem::take(&mut rules[0].filters);
        rules[0].filters = std::mem::replace(&mut rules[4].filters, filters);
    }
    if is(5) {
        rules.reverse();
    }
    if is(6) {
        rules.remove(usize::from(change % 5));
    }
    if is(7) {
        rules.push(Rule::catch_all(classes, vec![OutputId(0), OutputId(1)]));
    }
    Rules::new(rules).unwrap_or_else(|error| panic!("{error}"))
}

/// One rule of each kind.
fn trial_rules(classes: &Classes) -> Rules {
    let rule = |name: &str, latency, to: &[u16], bound| {
        let to = to.iter().map(|&output| OutputId(output)).collect();
        // Where more is stored than held in memory, the log has the rest.
        let all =
            Rule { bound: Size(bound), memory: Size(bound / 2), ..Rule::catch_all(classes, to) };
        let latency = Duration::from_millis(latency);
        all.for_topics(classes, name, &[&format!("{name}/#")], latency)
            .unwrap_or_else(|error| panic!("{error}"))
    };
    let block = |millis| FullPolicy::Block(Duration::from_millis(millis));
    let rules = vec![
        Rule { full: block(50), ..rule("ls", 50, &[0], 3_000) },
        Rule {
            discipline: Discipline::NewestOnly,
            full: FullPolicy::DropNewest,
            accept: AcceptMode::Confirmed,
            script: Some(ScriptId(1)),
            ..rule("newest", 200, &[0, 1], 3_000)
        },
        Rule {
            discipline: Discipline::Lifo,
            full: FullPolicy::Reject,
            accept: AcceptMode::Durable,
            ttl: Some(Duration::from_millis(400)),
            script: Some(ScriptId(0)),
            ..rule("lifo", 500, &[0], 4_000)
        },
        Rule {
            strict_order: true,
            full: FullPolicy::DropOldest,
            ..rule("strict", 700, &[1, 0], 6_000)
        },
        Rule { full: block(300), accept: AcceptMode::Confirmed, ..rule("lt", 1000, &[1], 9_000) },
    ];
    Rules::new(rules).unwrap_or_else(|error| panic!("{error}"))
}

/// An offer of `size` payload bytes, with no token.
pub fn offer(now: Time, source: u32, key: &str, size: usize) -> Offered {
    Offered {
        source: SourceId(source),
        token: None,
        key: Bytes::copy_from_slice(key.as_bytes()),
        properties: Properties::default(),
        payload: vec![0; size].into(),
        read_at: now,
        source_unix_ns: None,
        ttl: None,
        foreign: None,
        packet: None,
    }
}
