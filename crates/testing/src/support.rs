//! Nodes to test: short ways to options, and the words that the tests are written in.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(missing_docs, reason = "the words of tests: their names say what they do")]

use std::time::Duration;

use tidegate_capacity::RateControllerName;
use tidegate_node::io::{Event, Input, OutputId, PathId, UplinkId};
use tidegate_node::node::Node;
use tidegate_node::options::{BacklogOrder, LogOptions, NodeOptions, OutputOptions, UplinkOptions};
use tidegate_node::rules::{FullPolicy, Rule, Rules};
use tidegate_node::status::NodeStatus;
use tidegate_schedule::SchedulerName;
use tidegate_types::class::{ClassId, ClassSpec, Classes};
use tidegate_types::random::SplitMix;
use tidegate_types::record::{AcceptMode, Offered, RefuseReason, Token};
use tidegate_types::units::{Rate, Ratio, Size, Time};

use crate::{Answer, Disk, Wire, offer};

pub const LS: ClassId = ClassId(0);
pub const NM: ClassId = ClassId(1);
pub const LT: ClassId = ClassId(2);

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The lane of a class on the first output.
pub const fn lane(class: ClassId) -> PathId {
    PathId { output: OutputId(0), lane: class.0 }
}

/// The three classes of the paper without minimum shares, so that tests see one thing at a time.
pub fn classes() -> Classes {
    with_classes(|_| ())
}

pub fn with_classes(change: impl Fn(&mut ClassSpec)) -> Classes {
    let mut specs = tidegate_types::class::default_classes();
    for spec in &mut specs {
        spec.min_share = Ratio::ZERO;
        change(spec);
    }
    Classes::new(specs).unwrap()
}

/// `ls/#`, `nm/#` and `lt/#`, each of its class, to the first output, rejecting what does not fit.
pub fn rules() -> Vec<Rule> {
    [("ls", 50), ("nm", 500), ("lt", 1000)].map(|(name, bound)| rule(name, bound)).to_vec()
}

pub fn rule(name: &str, bound: u64) -> Rule {
    let classes = classes();
    let all = Rule::catch_all(&classes, vec![OutputId(0)]);
    let all = Rule { full: FullPolicy::Reject, ..all };
    all.for_topics(&classes, name, &[&format!("{name}/#")], ms(bound)).unwrap()
}

/// One output on one uplink with no network below, which takes everything at once.
pub fn options(rules: Vec<Rule>) -> NodeOptions {
    NodeOptions {
        name: "gate-7".into(),
        incarnation: 7,
        classes: classes(),
        rules: Rules::new(rules).unwrap(),
        uplinks: vec![uplink(RateControllerName::Unlimited, None)],
        outputs: vec![output(0)],
        scheduler: SchedulerName::Tidegate,
        memory: Size::from_mib(64),
        inbound: None,
        record_max: Size::from_mib(1),
        log: Some(log()),
        fleet: None,
    }
}

pub fn durable(rule: Rule) -> Rule {
    Rule { accept: AcceptMode::Durable, ..rule }
}

pub fn all_durable() -> Vec<Rule> {
    rules().into_iter().map(durable).collect()
}

/// A log that no test fills by chance.
pub fn log() -> LogOptions {
    let backlog = BacklogOrder::OldestFirst;
    LogOptions { boot: 9, bound: Size::from_mib(64), segment: Size::from_mib(1), backlog }
}

pub fn uplink(controller: RateControllerName, cap: Option<Rate>) -> UplinkOptions {
    UplinkOptions { name: "wan".into(), controller, cap, ..UplinkOptions::default() }
}

pub fn output(uplink: u16) -> OutputOptions {
    OutputOptions {
        name: "cloud".into(),
        uplink: UplinkId(uplink),
        overhead: Size::ZERO,
        unconfirmed_max: 1000,
        one_lane: false,
        is_gone: false,
    }
}

/// The same on an uplink of 2 Mbit/s, on which every byte must be acknowledged.
pub fn narrow(rules: Vec<Rule>) -> NodeOptions {
    let uplinks = vec![uplink(RateControllerName::Known, Some(Rate::from_bits(2e6)))];
    NodeOptions { uplinks, ..options(rules) }
}

/// A wire whose paths are down, with connection 0 open.
pub fn down(options: NodeOptions) -> Wire {
    let mut wire = Wire::new(Node::new(options).unwrap());
    wire.poll();
    wire.sync();
    wire.forget_history();
    wire.open(0, "sensor");
    wire
}

/// A wire whose paths are up, with connection 0 open.
pub fn up(options: NodeOptions) -> Wire {
    let mut wire = down(options);
    wire.up();
    wire.forget_history();
    wire
}

/// The process ends in the middle of everything; another one goes on with all that was written.
pub fn restart(mut wire: Wire, mut options: NodeOptions) -> Wire {
    let empty = Disk::new(Wire::log_name(&wire.node), vec![]);
    let disk = std::mem::replace(&mut wire.disk, empty);
    if let Some(log) = &mut options.log {
        log.boot += 1;
    }
    let node = Node::resume(options, disk.recover().unwrap()).unwrap();
    let name = Wire::log_name(&node);
    let mut wire = Wire::on(node, disk.boot(name));
    wire.now = Time::from_millis(20);
    wire.poll();
    wire.sync();
    wire.open(0, "sensor");
    wire.forget_history();
    wire
}

/// What the tests say about a wire.
pub trait Words {
    fn offer(&mut self, key: &str, size: usize);
    fn offer_all(&mut self, offers: Vec<Offered>);
    fn ask(&mut self, source: u32, token: u64, key: &str, size: usize);
    fn keys(&self) -> Vec<String>;
    fn status(&mut self) -> NodeStatus;
    fn is_full(&self) -> Vec<bool>;
    fn verdicts(&self) -> Vec<(u64, Result<(), RefuseReason>)>;
}

impl Words for Wire {
    /// Connection 0 offers a record without waiting for an answer.
    fn offer(&mut self, key: &str, size: usize) {
        let offered = offer(self.now, 0, key, size);
        self.offer_all(vec![offered]);
    }

    fn offer_all(&mut self, offers: Vec<Offered>) {
        self.handle(Input::Arrived(offers));
    }

    /// A connection offers a record and waits for the answer.
    fn ask(&mut self, source: u32, token: u64, key: &str, size: usize) {
        let offered = offer(self.now, source, key, size);
        self.offer_all(vec![Offered { token: Some(Token(token)), ..offered }]);
    }

    /// Keys of the records that went as a whole, in the order of their last cuts.
    fn keys(&self) -> Vec<String> {
        let whole = self.history.iter().filter(|cut| cut.is_last());
        whole.map(|cut| cut.key.clone()).collect()
    }

    fn status(&mut self) -> NodeStatus {
        self.node.status(self.now)
    }

    /// The `Full` reports, in order.
    fn is_full(&self) -> Vec<bool> {
        let full = |event: &Event| match event {
            Event::Full { full, .. } => Some(*full),
            _ => None,
        };
        self.events.iter().filter_map(full).collect()
    }

    /// The answers by token.
    fn verdicts(&self) -> Vec<(u64, Result<(), RefuseReason>)> {
        self.answers.iter().map(|&(_, token, result): &Answer| (token.0, result)).collect()
    }
}

/// In `least..most`, each power of two as likely as any other.
pub fn log_uniform(random: &mut SplitMix, least: f64, most: f64) -> f64 {
    least * (most / least).powf(random.share())
}
