//! Placement: which topics share a node, so that every topic keeps its bound on the fewest nodes.
//!
//! A latency model says what the 90th percentile of each topic is when these topics share a machine; a set is
//! feasible where all keep their bounds (`feasible`). The heuristics differ in how they search for sets. All
//! are pure: time budgets are counted in questions to the model, randomness has a seed.

mod bound;
mod feasible;
mod first_fit;
mod hybrid;
mod improve;
mod largest_set;
mod method;
pub mod model;
mod pairs;
mod physics;
pub mod rebalance;
mod repair;
mod residual;
mod search;
mod split;

use std::time::Duration;

pub use self::bound::{LowerBound, lower_bound};
pub use self::feasible::FeasibilityOracle;
pub use self::first_fit::first_fit;
pub use self::hybrid::hybrid;
pub use self::improve::improve;
pub use self::largest_set::largest_set;
pub use self::method::PlacementMethod;
pub use self::pairs::pairs;
pub use self::physics::Physics;
pub use self::repair::{PlanRepair, TopicMove, repair};
pub use self::split::{PARTS_MAX, SplitAdvice, fits_alone, help, replica, split};

/// A topic of the problem, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u32);

impl TopicId {
    /// Its place.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What placement knows of a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct Topic {
    /// CPU time of one record on the machine where it was measured, its mean (p of the paper).
    pub work: Duration,
    /// Coefficient of variation of that time.
    pub work_cv: f64,
    /// Records/s of all its publishers (r of the paper).
    pub rate: f64,
    /// Who gets each record.
    pub subscribers: u32,
    /// Bound on the 90th percentile from publishing to delivery (tau of the paper, here one for each topic).
    pub bound: Duration,
    /// Its records are worked on one after the other, whatever their keys.
    pub is_serial: bool,
}

impl Topic {
    /// One that only is there, or of which nothing is known yet.
    pub const IDLE: Topic = Topic {
        work: Duration::ZERO,
        work_cv: 0.0,
        rate: 0.0,
        subscribers: 0,
        bound: Duration::MAX,
        is_serial: false,
    };

    /// Processors that it keeps busy (d of the paper).
    pub fn load(&self) -> f64 {
        self.work.as_secs_f64() * self.rate
    }
}

/// What placement knows of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Processors that the broker really gets.
    pub cores: f64,
    /// How much faster it works than the machine where the topics were measured.
    pub speed: f64,
    /// How much longer each record takes for every other topic on the machine, as a part of its work.
    pub contention: f64,
    /// What the model's answer is multiplied by there: measured over predicted.
    pub bias: f64,
}

/// The machines that there are: nodes are opened in this order.
#[derive(Clone, Debug, PartialEq)]
pub enum Machines {
    /// As many of this kind as are needed.
    Any(Machine),
    /// These and no others.
    Listed(Vec<Machine>),
}

impl Machines {
    /// The machine of the node that is opened after so many others; `None` where there is none left.
    pub fn nth(&self, place: usize) -> Option<&Machine> {
        match self {
            Machines::Any(machine) => Some(machine),
            Machines::Listed(all) => all.get(place),
        }
    }

    /// A machine that is in nothing worse than any of these; `None` where there is none.
    pub fn best(&self) -> Option<Machine> {
        match self {
            Machines::Any(machine) => Some(*machine),
            Machines::Listed(all) => all.iter().copied().reduce(|one, other| Machine {
                cores: one.cores.max(other.cores),
                speed: one.speed.max(other.speed),
                contention: one.contention.min(other.contention),
                bias: one.bias.min(other.bias),
            }),
        }
    }
}

/// Predicts latencies.
pub trait LatencyModel {
    /// The 90th percentile of each of these topics when exactly they share the machine, in their order, in
    /// seconds; infinite where the machine cannot keep up. Should not fall when a topic is added (Property 1 of
    /// the paper): a plan may else refuse a machine that another topic would have made feasible.
    fn p90(&self, machine: &Machine, topics: &[&Topic], answer: &mut Vec<f64>);

    /// Sum of `load` beyond which no set of so many topics or more is feasible, so that most full nodes need not
    /// be asked about.
    fn load_max(&self, machine: &Machine, together: usize) -> f64;
}

/// What is to be placed, and where.
#[derive(Clone, Copy)]
pub struct PlacementProblem<'a> {
    /// The topics, by their places.
    pub topics: &'a [Topic],
    /// The machines.
    pub machines: &'a Machines,
    /// The model.
    pub model: &'a dyn LatencyModel,
    /// Topics of one node at most (k of the paper).
    pub together_max: usize,
    /// Part of each bound that a plan may use: the rest is for the model's mistakes.
    pub margin: f64,
}

/// Topics by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The topics of each node, in the order in which they came; the place is that of its machine. No node is
    /// empty but where others stand behind it.
    pub nodes: Vec<Vec<TopicId>>,
    /// Topics that no node can host: alone they miss their bound, or the machines are all in use.
    pub unplaced: Vec<TopicId>,
}

impl Plan {
    /// Nodes that host anything.
    pub fn used(&self) -> usize {
        self.nodes.iter().filter(|topics| !topics.is_empty()).count()
    }

    /// The node of each topic; `None` where it has none.
    pub fn node_of(&self, topics: usize) -> Vec<Option<usize>> {
        let mut of = vec![None; topics];
        for (node, hosted) in self.nodes.iter().enumerate() {
            hosted.iter().for_each(|topic| of[topic.index()] = Some(node));
        }
        of
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    pub(crate) const MACHINE: Machine =
        Machine { cores: 4.0, speed: 1.0, contention: 0.03, bias: 1.0 };

    /// Topics to be placed with the physics of the pool, so many together.
    pub(crate) fn problem<'a>(
        topics: &'a [Topic],
        machines: &'a Machines,
        together_max: usize,
    ) -> PlacementProblem<'a> {
        PlacementProblem { topics, machines, model: &Physics, together_max, margin: 0.0 }
    }

    /// A topic of so many milliseconds of work and records/s, to be delivered within a second.
    pub(crate) fn topic(work_ms: u64, rate: f64) -> Topic {
        Topic {
            work: Duration::from_millis(work_ms),
            work_cv: 0.15,
            rate,
            subscribers: 1,
            bound: Duration::from_secs(1),
            is_serial: false,
        }
    }

    /// Topics of 10 to 40 ms that keep up to 1.7 processors busy, with bounds from 150 ms to 1 s.
    pub(crate) fn topics(count: usize, seed: u64) -> Vec<Topic> {
        let mut random = tidegate_types::random::SplitMix(seed);
        let mut one = || {
            let work = 10 * (1 + random.below(4) as u64);
            let load = 0.1 + 1.6 * random.share();
            let bound = [150, 300, 1000][random.below(3)];
            let bound = Duration::from_millis(bound);
            Topic { bound, ..topic(work, load * 1000.0 / work as f64) }
        };
        (0..count).map(|_| one()).collect()
    }
}
