//! The cases of the tables: a mode, a network, a load and a system.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate_capacity::RateControllerName;
use tidegate_fleet::{FleetOptions, MatchingName};
use tidegate_node::io::{OutputId, UplinkId};
use tidegate_node::options::{FleetSeat, NodeOptions, OutputOptions, UplinkOptions};
use tidegate_node::rules::{Rule, Rules};
use tidegate_schedule::SchedulerName;
use tidegate_types::class::{ClassId, ClassSpec, Classes, default_classes};
use tidegate_types::units::{Rate, Ratio, Size};

use super::measure::{Measured, measure};
use super::oracle;
use crate::link::Service;
use crate::link::trace::parse;
use crate::sim::fleet::nodes::Nodes;
use crate::sim::quantity::{Amount, Span, Speed};
use crate::sim::scenario::{Arrivals, ConnectionSpec, LinkSpec, LoadSpec, NodeSpec, Scenario};

/// Nodes: the busy one, and idle ones.
const NODES: usize = 4;
/// Records/s of `ls` and `nm` of the busy node, and of each class of an idle one (§VII-A).
pub(super) const URGENT: [f64; 2] = [30.0, 300.0];
pub(super) const IDLE: f64 = 30.0;
/// Wire bytes of a record in paper mode: near the least that AMQP can send.
const SMALL: u64 = 65;
/// Seconds that are not measured in link mode.
const WARM_UP: f64 = 10.0;
/// The class of neighbours' records.
const RELAYED: ClassId = ClassId(3);
/// No node meets a bound of its memory.
const MEMORY: Size = Size::from_mib(1024);

/// A network of Table III.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Network {
    pub(super) name: &'static str,
    megabits: f64,
    delay_ms: u64,
    /// Records/s that the paper's node could forward, fitted to its Native row; on 3G the link is less.
    forwards: Option<f64>,
}

impl Network {
    /// One way, seconds.
    pub(super) fn delay(&self) -> f64 {
        self.delay_ms as f64 / 1e3
    }
}

/// Table III, slowest first.
pub(super) fn networks() -> [Network; 3] {
    [
        Network { name: "3G", megabits: 0.78, delay_ms: 100, forwards: None },
        Network { name: "4G", megabits: 18.0, delay_ms: 50, forwards: Some(2676.0) },
        Network { name: "WiFi", megabits: 200.0, delay_ms: 5, forwards: Some(2752.0) },
    ]
}

/// What bounds a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Records of 65 bytes; what the paper's nodes could forward; all from the beginning.
    Paper,
    /// Records so large that 5,000 `lt` records/s are twice what the link carries.
    Link,
}

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Paper => "paper_mode",
            Mode::Link => "link_mode",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System {
    /// Every node for itself, by its scheduler: the paper's QM-Only, but for Native.
    Alone(SchedulerName),
    /// Ours, with redirection by this matching.
    Fleet(MatchingName),
    /// Who knows the recorded uplinks, and takes the earliest of all.
    Oracle,
}

impl System {
    /// Those that run at every rate.
    pub(super) const MAIN: [System; 4] = [
        System::Alone(SchedulerName::Native),
        System::Alone(SchedulerName::JanusPaper),
        System::Alone(SchedulerName::Tidegate),
        System::Fleet(MatchingName::Augment),
    ];

    pub(super) fn is_fleet(self) -> bool {
        matches!(self, System::Fleet(_))
    }

    pub(super) fn name(self) -> String {
        match self {
            System::Alone(scheduler) => scheduler.name().into(),
            System::Fleet(matching) => format!("+ {}", matching.name()),
            System::Oracle => "oracle".into(),
        }
    }

    fn scheduler(self) -> SchedulerName {
        match self {
            System::Alone(scheduler) => scheduler,
            System::Fleet(_) | System::Oracle => SchedulerName::Tidegate,
        }
    }
}

/// Recorded uplinks, the busy node's first.
pub(super) type Traces = Arc<Vec<Service>>;

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) mode: Mode,
    pub(super) network: Network,
    /// Records/s of `lt` at the busy node.
    pub(super) rate: f64,
    pub(super) system: System,
    /// Seconds that are measured.
    pub(super) length: f64,
    pub(super) traces: Option<Traces>,
}

/// Reads recorded uplinks; `None` where one is not there.
pub(super) fn recorded(folder: &Path) -> anyhow::Result<Option<Traces>> {
    let mut all = Vec::new();
    for name in super::RECORDED {
        let path = folder.join(name);
        let Ok(text) = std::fs::read_to_string(&path) else { return Ok(None) };
        all.push(parse(&text).with_context(|| path.display().to_string())?);
    }
    Ok(Some(Arc::new(all)))
}

/// The runs over recorded uplinks: twice what the busy node's carries on average.
pub(super) fn over(traces: Traces) -> Vec<Case> {
    let network = Network { name: "LTE", megabits: 0.83, delay_ms: 50, forwards: None };
    let case = |system| Case {
        mode: Mode::Link,
        network,
        rate: 1000.0,
        system,
        length: 90.0,
        traces: Some(traces.clone()),
    };
    let fleets = MatchingName::ALL.map(System::Fleet);
    let alone = System::MAIN.into_iter().filter(|system| !system.is_fleet());
    std::iter::once(System::Oracle).chain(alone).chain(fleets).map(case).collect()
}

/// What a node is called.
pub(super) fn name_of(at: usize) -> String {
    format!("gate-{at}")
}

impl Case {
    pub(super) fn heading(&self) -> String {
        let Network { name, megabits, delay_ms, .. } = self.network;
        let what = match (self.mode, &self.traces) {
            (_, Some(_)) => "recorded uplinks".into(),
            (Mode::Paper, _) => format!("paper mode, {:.0} records/s an uplink", self.carries()),
            (Mode::Link, _) => format!("link mode, {megabits} Mbit/s"),
        };
        format!("{name}: {what}, {delay_ms} ms one way, records of {} bytes", self.size())
    }

    pub(super) fn size(&self) -> u64 {
        match self.mode {
            Mode::Paper => SMALL,
            Mode::Link => {
                let rate = if self.traces.is_some() { self.rate } else { super::TABLE_RATE };
                let records = URGENT.iter().sum::<f64>() + rate;
                (self.network.megabits * 1e6 / 8.0 * 2.0 / records).round() as u64
            }
        }
    }

    /// Records/s that an uplink carries.
    pub(super) fn carries(&self) -> f64 {
        let by_link = self.network.megabits * 1e6 / 8.0 / self.size() as f64;
        match self.mode {
            Mode::Paper => self.network.forwards.unwrap_or(by_link),
            Mode::Link => by_link,
        }
    }

    pub(super) fn run(&self, seed: u64) -> anyhow::Result<Measured> {
        let warm_up = if self.mode == Mode::Paper { 0.0 } else { WARM_UP };
        let length = Duration::from_secs_f64(warm_up + self.length);
        if let (System::Oracle, Some(services)) = (self.system, &self.traces) {
            return Ok(oracle::play(self, services, Duration::from_secs_f64(warm_up), seed));
        }
        let nodes: Vec<Scenario> =
            (0..NODES).map(|at| self.scenario(at, length)).collect::<anyhow::Result<_>>()?;
        let matching = match self.system {
            System::Fleet(matching) => Some(matching),
            System::Alone(_) | System::Oracle => None,
        };
        let options = matching.map(|matching| FleetOptions { matching, ..FleetOptions::default() });
        let outcomes = Nodes::new(&nodes, options.as_ref(), seed)?.run(length);
        Ok(measure(self, &outcomes, Duration::from_secs_f64(warm_up)))
    }

    fn scenario(&self, at: usize, length: Duration) -> anyhow::Result<Scenario> {
        let rates = if at == 0 { [URGENT[0], URGENT[1], self.rate] } else { [IDLE, IDLE, IDLE] };
        let load = |((name, latency), per_second): ((&str, u64), f64)| LoadSpec {
            name: name.into(),
            key: name.into(),
            latency: Span::millis(latency),
            size: (Amount(self.size()), Amount(self.size())),
            arrivals: Arrivals::Poisson(per_second),
            from: Span::default(),
            until: None,
        };
        let loads = [("ls", 50), ("nm", 500), ("lt", 1000)].into_iter().zip(rates);
        let node = NodeSpec {
            options: Some(Box::new(self.node(at)?)),
            scheduler: self.system.scheduler(),
            ..NodeSpec::default()
        };
        let delay = Span::millis(self.network.delay_ms);
        let speed = Speed::megabits(self.network.megabits);
        let mut link = LinkSpec::new(speed, delay, Amount(1 << 20));
        if let Some(traces) = &self.traces {
            link.uplink.service = traces[at].clone();
        }
        Ok(Scenario {
            name: self.system.name(),
            length: Span(length),
            drain: Span::default(),
            node,
            connection: ConnectionSpec::default(),
            link,
            load: loads.map(load).collect(),
            flow: Vec::new(),
            step: Vec::new(),
            phase: Vec::new(),
        })
    }

    /// A node: its own uplink, and a line without end to each other one.
    fn node(&self, at: usize) -> anyhow::Result<NodeOptions> {
        let mut specs = default_classes();
        if self.system.is_fleet() {
            let relay = ClassSpec::new("relay", Duration::from_secs(2));
            specs.push(ClassSpec { min_share: Ratio::ZERO, ..relay });
        }
        let classes = Classes::new(specs)?;
        let all = Rule { bound: MEMORY, ..Rule::catch_all(&classes, vec![OutputId(0)]) };
        let mut rules = Vec::new();
        for (name, bound) in [("ls", 50), ("nm", 500), ("lt", 1000)] {
            let bound = Duration::from_millis(bound);
            rules.push(all.clone().for_topics(&classes, name, &[name], bound)?);
        }
        let peers = if self.system.is_fleet() { NODES - 1 } else { 0 };
        if self.system.is_fleet() {
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
        // What is configured: what the paper's node could forward, or the link's rate.
        let own = self.carries() * self.size() as f64;
        let (law, cap) = match (self.mode, self.network.forwards, &self.traces) {
            // The law uses a little less than it is told.
            (Mode::Paper, Some(_), _) => (RateControllerName::Known, Some(Rate::new(own / 0.92))),
            (_, _, Some(_)) => (RateControllerName::default(), None),
            _ => (RateControllerName::default(), Some(Rate::new(own))),
        };
        let output = |name: &str, uplink| OutputOptions {
            name: name.into(),
            uplink: UplinkId(uplink),
            overhead: Size::ZERO,
            unconfirmed_max: 100_000,
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
            scheduler: self.system.scheduler(),
            memory: MEMORY,
            inbound: None,
            record_max: Size::from_mib(1),
            log: None,
            fleet: self
                .system
                .is_fleet()
                .then_some(FleetSeat { output: OutputId(0), relayed: RELAYED }),
        })
    }
}
