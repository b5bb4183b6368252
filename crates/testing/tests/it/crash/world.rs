//! The make-up of a seed's world: keys, rules, bounds.

use std::time::Duration;

use tidegate_capacity::RateControllerName;
use tidegate_log::Key;
use tidegate_node::io::{OutputId, UplinkId};
use tidegate_node::options::{BacklogOrder, LogOptions, NodeOptions, OutputOptions, UplinkOptions};
use tidegate_node::rules::{Discipline, FullPolicy, Rule, Rules};
use tidegate_schedule::SchedulerName;
use tidegate_types::class::{Classes, default_classes};
use tidegate_types::random::SplitMix;
use tidegate_types::record::AcceptMode;
use tidegate_types::units::Size;

/// Seeded numbers of 64 bits.
#[derive(Clone, Debug)]
pub(crate) struct Random(SplitMix);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(SplitMix(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.number()
    }

    /// Below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// Bits of a change of rules: records go to one of their outputs only; those of one rule are not durable.
pub(crate) const MOVED: u64 = 64;
pub(crate) const FORGETFUL: u64 = 128;
/// All of them.
pub(crate) const CHANGES: u64 = 256;

pub(crate) const OUTPUTS: [&str; 2] = ["cloud", "archive"];
/// What publishers publish, and to which outputs it goes.
pub(crate) const KEYS: [(&str, &[&str]); 4] = [
    ("ls/a", &["cloud"]),
    ("nm/b", &["cloud", "archive"]),
    ("lt/c", &["archive"]),
    ("strict/d", &["cloud"]),
];

/// What a world is made of; a restart may change the order of things and the classes.
#[derive(Clone, Debug)]
pub(crate) struct Make {
    pub(crate) keys: Vec<Key>,
    memory: u64,
    bound: u64,
    segment: u64,
    unconfirmed_max: usize,
    order: BacklogOrder,
    full: FullPolicy,
}

impl Make {
    pub(crate) fn new(random: &mut Random) -> Self {
        let segment = [600, 2_000, 20_000][random.below(3) as usize];
        Make {
            keys: if random.one_in(2) { vec![Key::new(&[3; 32])] } else { vec![] },
            memory: [1_500, 4_000, 100_000][random.below(3) as usize],
            bound: segment * [4, 8, 40][random.below(3) as usize],
            segment,
            unconfirmed_max: [1, 5, 50][random.below(3) as usize],
            order: if random.one_in(3) {
                BacklogOrder::NewestFirst
            } else {
                BacklogOrder::OldestFirst
            },
            full: match random.below(5) {
                0 => FullPolicy::Reject,
                3 => FullPolicy::DropOldest,
                4 => FullPolicy::DropNewest,
                1 => FullPolicy::Block(Duration::from_millis(30)),
                _ => FullPolicy::Block(Duration::from_secs(5)),
            },
        }
    }

    /// Whether what a full stream cannot hold is accepted and dropped at once.
    pub(crate) fn drops_newest(&self) -> bool {
        self.full == FullPolicy::DropNewest
    }

    /// The options of a process; `variant` changes what an operator may change between two of them.
    pub(crate) fn options(&self, boot: u64, variant: u64) -> NodeOptions {
        let classes = Classes::new(default_classes()).expect("the paper's classes");
        let names = Make::names(variant);
        let output = |name: &str| OutputOptions {
            name: name.into(),
            uplink: UplinkId(0),
            overhead: Size(7),
            unconfirmed_max: self.unconfirmed_max,
            one_lane: false,
            is_gone: false,
        };
        let uplink = UplinkOptions {
            name: "wan".into(),
            controller: RateControllerName::Unlimited,
            cap: None,
            ..UplinkOptions::default()
        };
        let backlog = self.order;
        let (bound, segment) = (Size(self.bound), Size(self.segment));
        NodeOptions {
            name: "gate".into(),
            incarnation: 5,
            rules: self.rules(&classes, &names, variant),
            classes,
            uplinks: vec![uplink],
            outputs: names.map(output).to_vec(),
            scheduler: SchedulerName::Tidegate,
            memory: Size(self.memory),
            inbound: None,
            record_max: Size(600),
            log: Some(LogOptions { boot, bound, segment, backlog }),
            fleet: None,
        }
    }

    /// The rules that an operator may put in force while a process runs that began with `variant`.
    pub(crate) fn changed_rules(&self, variant: u64, change: u64) -> Rules {
        let classes = Classes::new(default_classes()).expect("the paper's classes");
        self.rules(&classes, &Make::names(variant), change)
    }

    fn names(variant: u64) -> [&'static str; 2] {
        let mut names = OUTPUTS;
        if variant & 1 == 1 {
            names.reverse();
        }
        names
    }

    fn rules(&self, classes: &Classes, names: &[&str], variant: u64) -> Rules {
        let is = |bit: u64| variant & bit == bit;
        let place = |name: &&str| {
            let place = names.iter().position(|other| other == name);
            OutputId(place.expect("the outputs are always these") as u16)
        };
        let mut rules = Vec::new();
        for (number, (key, to)) in KEYS.into_iter().enumerate() {
            let mut to: Vec<OutputId> = to.iter().map(place).collect();
            if is(MOVED) {
                to.truncate(1);
            }
            let all = Rule::catch_all(classes, to);
            let name = key.split_once('/').map_or(key, |(name, _)| name);
            // The same records, under a rule of another name and class.
            let is_new = is(2);
            let latency = if is_new { 400 } else { [40, 400, 900, 900][number] };
            let label = if is_new { format!("new {name}") } else { name.to_owned() };
            let filter = format!("{name}/#");
            let latency = Duration::from_millis(latency);
            let rule = all.for_topics(classes, &label, &[&filter], latency).expect("a filter");
            rules.push(Rule {
                accept: if is(FORGETFUL) && number == 2 {
                    AcceptMode::Memory
                } else {
                    AcceptMode::Durable
                },
                full: if is(8) { FullPolicy::Reject } else { self.full },
                bound: Size(if is(16) { 2_000 } else { 1 << 20 }),
                memory: Size([2_500, 1 << 20][usize::from(number == 1)]),
                strict_order: name == "strict" && !is(32),
                discipline: if (number == 1) == is(4) {
                    Discipline::Fifo
                } else {
                    Discipline::Lifo
                },
                ..rule
            });
        }
        Rules::new(rules).expect("few rules")
    }
}
