//! The paper's evaluation of one node: its workload on its links, each scheduler in turn.
//! Source: papers/janus.txt, §II-C (Fig. 2), §VII (Tables III to V, Fig. 6).
//!
//! The paper's loads have no sizes. Here all records of a case have one, chosen so that what comes is a
//! given multiple of what the link carries; beside that a node whose processor is the limit.

pub mod coflows;
pub mod report;
pub mod tables;

use std::time::Duration;

use tidegate_schedule::SchedulerName;
use tidegate_types::units::Time;

use crate::link;
use crate::sim::quantity::{Amount, Span, Speed};
use crate::sim::scenario::{Arrivals, ConnectionSpec, LinkSpec, LoadSpec, NodeSpec, Scenario};
use crate::sim::world::{Outcome, World};

/// How long a run lasts. Reading of Table IV: the paper's native latency is half of the overload's share
/// of it.
const LENGTH: Span = Span::seconds(30);
/// From here on the link must be in use, seconds.
const FOUND: u64 = 3;
/// Records/s of `ls` and `nm` on a busy node (§VII-A).
const URGENT: [f64; 2] = [30.0, 300.0];
/// Records/s that the paper's node was able to forward on `WiFi`, fitted to its Table IV.
const PROCESSOR: f64 = 2752.0;
/// Bytes of a record where the processor is the limit.
const SMALL: u64 = 65;

/// A link of Table III.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    pub name: &'static str,
    megabits: f64,
    /// One way, milliseconds.
    delay: u64,
}

pub const NETWORKS: [Network; 3] = [
    Network { name: "WiFi", megabits: 200.0, delay: 5 },
    Network { name: "4G", megabits: 18.0, delay: 50 },
    Network { name: "3G", megabits: 0.78, delay: 100 },
];

/// What limits the node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// The link, which is offered so many times what it carries.
    Link(f64),
    /// The link, with records of so many bytes.
    Size(u64),
    /// The processor, which forwards so many records a second.
    Processor(f64),
}

/// One cell of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Case {
    pub network: Network,
    /// Records/s of `lt`.
    pub bulk: f64,
    pub limit: Limit,
    /// What comes from then on counts, seconds.
    pub warm_up: u64,
}

impl Case {
    /// Bytes of each record.
    pub fn size(&self) -> u64 {
        let records: f64 = URGENT.iter().sum::<f64>() + self.bulk;
        match self.limit {
            Limit::Link(demand) => {
                (self.network.megabits * 1e6 / 8.0 * demand / records).round() as u64
            }
            Limit::Size(bytes) => bytes,
            Limit::Processor(_) => SMALL,
        }
    }

    /// Whether more comes than can leave.
    pub fn is_overload(&self) -> bool {
        let records = URGENT.iter().sum::<f64>() + self.bulk;
        match self.limit {
            Limit::Link(demand) => demand > 1.0,
            Limit::Size(bytes) => records * bytes as f64 * 8e-6 > self.network.megabits,
            Limit::Processor(most) => records > most,
        }
    }

    /// As a row begins.
    pub fn label(&self) -> String {
        let limit = match self.limit {
            Limit::Link(demand) => format!("{demand}"),
            Limit::Size(_) => String::new(),
            Limit::Processor(_) => "cpu".into(),
        };
        let Case { network, bulk, .. } = self;
        format!("{:<5}{bulk:>5}{limit:>5}{:>6}", network.name, self.size())
    }

    fn length(&self) -> Span {
        Span(LENGTH.0 + Duration::from_secs(self.warm_up))
    }

    fn scenario(&self, scheduler: SchedulerName) -> Scenario {
        let load = |(name, latency, per_second): (&str, u64, f64)| LoadSpec {
            name: name.into(),
            key: name.into(),
            latency: Span::millis(latency),
            size: (Amount(self.size()), Amount(self.size())),
            arrivals: Arrivals::Poisson(per_second),
            from: Span::default(),
            until: None,
        };
        let loads = [("ls", 50, URGENT[0]), ("nm", 500, URGENT[1]), ("lt", 1000, self.bulk)];
        let cost = match self.limit {
            Limit::Link(_) | Limit::Size(_) => 0.0,
            Limit::Processor(most) => 1.0 / most,
        };
        let base = Scenario {
            name: self.label(),
            length: self.length(),
            drain: Span::default(),
            node: NodeSpec { cost: Span(Duration::from_secs_f64(cost)), ..NodeSpec::default() },
            connection: ConnectionSpec::default(),
            link: LinkSpec::new(
                Speed::megabits(self.network.megabits),
                Span::millis(self.network.delay),
                Amount(1 << 20),
            ),
            load: loads.map(load).to_vec(),
            flow: Vec::new(),
            step: Vec::new(),
            phase: Vec::new(),
        };
        base.with_scheduler(scheduler)
    }

    pub fn run(&self, scheduler: SchedulerName, seed: u64) -> anyhow::Result<Measured> {
        self.play(&self.scenario(scheduler), seed)
    }

    /// One run over an uplink of another kind.
    pub fn run_over(
        &self,
        uplink: &link::Options,
        scheduler: SchedulerName,
        seed: u64,
    ) -> anyhow::Result<Measured> {
        let mut scenario = self.scenario(scheduler);
        scenario.link.uplink = uplink.clone();
        self.play(&scenario, seed)
    }

    fn play(&self, scenario: &Scenario, seed: u64) -> anyhow::Result<Measured> {
        let outcome = World::new(scenario, seed)?.run();
        Ok(self.measure(scenario, &outcome))
    }

    fn measure(&self, scenario: &Scenario, outcome: &Outcome) -> Measured {
        let (from, end) = (Time::ZERO + Span::seconds(FOUND).0, Time::ZERO + scenario.length.0);
        let warm = Time::ZERO + Duration::from_secs(self.warm_up);
        let (lost, mut broken) = crate::sim::report::audit(scenario, outcome);
        let classes = [0, 1, 2].map(|place| {
            let judged = outcome.judged(place);
            broken.extend(judged.broken(&scenario.load[place].name));
            let after: Duration = judged.after.iter().sum();
            let account = &outcome.ledger.accounts[place];
            let came = account.received.iter().filter(|one| warm <= one.arrived + one.took);
            let mut took: Vec<f64> = came.map(|one| one.took.as_secs_f64()).collect();
            took.sort_by(f64::total_cmp);
            let stage = &outcome.status.rules[place].stages.residence;
            let waiting = &outcome.status.classes[place];
            let violated = outcome.status.rules[place].counts.violated;
            ClassMeasured {
                records: took.len() as f64 / end.since(warm).as_secs_f64(),
                mean: took.iter().sum::<f64>() / took.len().max(1) as f64,
                p99: took.get(took.len() * 99 / 100).copied().unwrap_or_default(),
                sent: stage.count(),
                late: violated.saturating_sub(waiting.late_records),
                violated,
                windows: (judged.asked, judged.after.len() as u64),
                answer: after.as_secs_f64() / judged.after.len() as f64,
            }
        });
        let bytes: u64 =
            outcome.ledger.accounts.iter().map(|account| account.bytes(from, end)).sum();
        let found = Duration::from_secs(FOUND);
        let room = scenario.link.uplink.service.room(found, scenario.length.0);
        Measured { classes, share: bytes as f64 / room, lost, broken }
    }
}

/// What a class got.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassMeasured {
    /// Records/s that came.
    pub records: f64,
    /// Seconds from arrival at the node to the far end, of those that came.
    pub mean: f64,
    pub p99: f64,
    /// Records handed to the wire.
    pub sent: u64,
    /// Of these, after their bound; with those that were dropped after it.
    pub late: u64,
    /// Records whose bound passed: the same, and those that wait past it.
    pub violated: u64,
    /// Windows that the query at the far end could answer, and did.
    pub windows: (u64, u64),
    /// Mean seconds from the end of a window to its answer.
    pub answer: f64,
}

/// What a run showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    pub classes: [ClassMeasured; 3],
    /// Bytes that came from the third second on, over what the link carries.
    pub share: f64,
    pub lost: i128,
    pub broken: Vec<String>,
}

/// All cells: the links with each demand, and the processor.
pub fn evaluation() -> Vec<Case> {
    let mut cases = Vec::new();
    for network in NETWORKS {
        for bulk in [1000.0, 3000.0, 5000.0] {
            for demand in [0.5, 1.0, 2.0, 3.0] {
                cases.push(Case { network, bulk, limit: Limit::Link(demand), warm_up: 0 });
            }
        }
    }
    let limit = Limit::Processor(PROCESSOR);
    let processor = |bulk| Case { network: NETWORKS[0], bulk, limit, warm_up: 0 };
    cases.extend([1000.0, 3000.0, 5000.0].map(processor));
    cases
}

/// Fig. 2: a node that gets twice what it can forward at most, as its `lt` grows.
pub fn mismatch() -> Vec<Case> {
    let limit = Limit::Processor(PROCESSOR);
    let processor = |bulk| Case { network: NETWORKS[0], bulk, limit, warm_up: 0 };
    (1..=5).map(|thousand| processor(f64::from(thousand) * 1000.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(case: Case, scheduler: SchedulerName) -> Measured {
        case.run(scheduler, 1).unwrap()
    }

    const MODEM: Network = NETWORKS[2];

    #[test]
    fn sizes_make_the_demand() {
        let case = Case { network: MODEM, bulk: 1000.0, limit: Limit::Link(2.0), warm_up: 0 };
        assert_eq!(case.size(), 147); // 195 kB/s over 1,330 records/s
        assert!(case.is_overload());
        assert!(!Case { limit: Limit::Link(1.0), ..case }.is_overload());
        assert_eq!(evaluation().len(), 39);
    }

    #[test]
    fn under_overload_no_alarm_is_late_and_the_link_is_full() {
        let case = Case { network: MODEM, bulk: 1000.0, limit: Limit::Link(2.0), warm_up: 0 };
        let ours = short(case, SchedulerName::Tidegate);
        assert_eq!((ours.classes[0].violated, ours.lost, &*ours.broken), (0, 0, &[][..]));
        assert!(ours.share >= 0.97, "{}", ours.share);
        let native = short(case, SchedulerName::Native);
        assert!(native.classes[0].mean > 5.0, "{:?}", native.classes[0]);
    }

    #[test]
    fn a_processor_forwards_so_many_records() {
        let case = mismatch()[4];
        let ours = short(case, SchedulerName::Tidegate);
        let all: f64 = ours.classes.iter().map(|class| class.records).sum();
        assert!((all / PROCESSOR - 1.0).abs() < 0.02, "{all}");
        assert_eq!(ours.classes[0].violated, 0);
    }
}
