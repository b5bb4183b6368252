//! A node of a fleet in virtual time, and what its agent and its orchestrator go by.

use std::time::Duration;

use tidegate_capacity::RateControllerName;
use tidegate_fleet::{FleetOptions, MatchingName};
use tidegate_node::io::{OutputId, UplinkId};
use tidegate_node::options::{FleetSeat, NodeOptions, OutputOptions, UplinkOptions};
use tidegate_node::rules::{Rule, Rules};
use tidegate_schedule::SchedulerName;
use tidegate_types::class::{ClassId, ClassSpec, Classes, default_classes};
use tidegate_types::units::{Rate, Ratio, Size};

use crate::sim::quantity::{Amount, Span};
use crate::sim::scenario::{Arrivals, ConnectionSpec, LinkSpec, LoadSpec, NodeSpec, Scenario};

/// Classes by name, and their bounds in milliseconds.
pub(super) const CLASSES: [(&str, u64); 3] = [("ls", 50), ("nm", 500), ("lt", 1000)];
/// The class of neighbours' records.
const RELAYED: ClassId = ClassId(3);
/// No node meets a bound of its memory.
const MEMORY: Size = Size::from_mib(1024);

/// What a node is called.
pub(super) fn name_of(at: usize) -> String {
    format!("gate-{at}")
}

/// What comes to a class of a node: so many a second, of sizes from and to.
pub(super) fn load(class: usize, per_second: f64, size: (u64, u64)) -> LoadSpec {
    let (name, latency) = CLASSES[class];
    LoadSpec {
        name: name.into(),
        key: name.into(),
        latency: Span::millis(latency),
        size: (Amount(size.0), Amount(size.1)),
        arrivals: Arrivals::Poisson(per_second),
        from: Span::default(),
        until: None,
    }
}

/// What agents and the orchestrator go by. Beside the paper's node everything that the paper does not say is left out: its
/// grants follow each request at once, use all that is spare, are judged by nobody, and nothing is permitted ahead.
pub(super) fn options(scheduler: SchedulerName, matching: MatchingName) -> FleetOptions {
    let ours = FleetOptions { matching, ..FleetOptions::default() };
    if scheduler != SchedulerName::JanusPaper {
        return ours;
    }
    FleetOptions {
        headroom: Ratio::ZERO,
        slack: Ratio::ZERO,
        smoothing: Duration::from_millis(1),
        standing_lease: Duration::ZERO,
        trial: Duration::from_secs(3600),
        ..ours
    }
}

/// A node's place in its fleet.
pub(super) struct Seat {
    pub(super) at: usize,
    /// How many others it has a line to; without any it is in no fleet.
    pub(super) peers: usize,
    pub(super) scheduler: SchedulerName,
    pub(super) law: RateControllerName,
    /// What its uplink is told to carry.
    pub(super) cap: Option<Rate>,
}

impl Seat {
    /// What it plays.
    pub(super) fn scenario(
        self,
        link: LinkSpec,
        load: Vec<LoadSpec>,
        length: Duration,
    ) -> anyhow::Result<Scenario> {
        let scheduler = self.scheduler;
        let options = Some(Box::new(self.options()?));
        Ok(Scenario {
            name: scheduler.name().into(),
            length: Span(length),
            drain: Span::default(),
            node: NodeSpec { options, scheduler, ..NodeSpec::default() },
            connection: ConnectionSpec::default(),
            link,
            load,
            flow: Vec::new(),
            step: Vec::new(),
            phase: Vec::new(),
        })
    }

    /// The node: its own uplink, and a line without end to each other one.
    fn options(self) -> anyhow::Result<NodeOptions> {
        let Seat { at, peers, scheduler, law, cap } = self;
        let is_fleet = peers > 0;
        let mut specs = default_classes();
        if is_fleet {
            let relay = ClassSpec::new("relay", Duration::from_secs(2));
            specs.push(ClassSpec { min_share: Ratio::ZERO, ..relay });
        }
        let classes = Classes::new(specs)?;
        let all = Rule { bound: MEMORY, ..Rule::catch_all(&classes, vec![OutputId(0)]) };
        let mut rules = Vec::new();
        for (name, bound) in CLASSES {
            let bound = Duration::from_millis(bound);
            rules.push(all.clone().for_topics(&classes, name, &[name], bound)?);
        }
        if is_fleet {
            let relay = |of| {
                let (of, to) = (ClassId(of), OutputId(0));
                [Rule::reserved(&classes, of, to), Rule::relay(&classes, of, RELAYED, to)]
                    .map(|rule| Rule { bound: MEMORY, ..rule })
            };
            rules.extend((0..3).flat_map(relay));
        }
        let uplink = |name: &str, controller, cap| UplinkOptions {
            name: name.into(),
            controller,
            cap,
            ..UplinkOptions::default()
        };
        let output = |name: &str, uplink| OutputOptions {
            name: name.into(),
            uplink: UplinkId(uplink),
            overhead: Size::ZERO,
            unconfirmed_max: 100_000,
            one_lane: false,
            is_gone: false,
        };
        let lines = (0..peers).map(|_| uplink("lan", RateControllerName::Unlimited, None));
        let to_peers = (1..=peers as u16).map(|place| output("peer", place));
        Ok(NodeOptions {
            name: name_of(at).into(),
            incarnation: 1,
            classes,
            rules: Rules::new(rules)?,
            uplinks: std::iter::once(uplink("wan", law, cap)).chain(lines).collect(),
            outputs: std::iter::once(output("cloud", 0)).chain(to_peers).collect(),
            scheduler,
            memory: MEMORY,
            inbound: None,
            record_max: Size::from_mib(1),
            log: None,
            fleet: is_fleet.then_some(FleetSeat { output: OutputId(0), relayed: RELAYED }),
        })
    }
}
