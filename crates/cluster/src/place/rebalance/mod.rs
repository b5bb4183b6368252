//! Keeps placed units where their bounds hold, while loads change and nodes come, drain and die: what members tell of
//! their loads goes in, few moves with their reasons come out.
//! Source: own; the loop that papers/topic-placement.txt leaves out (§VII). Users of brokers ask for few, light moves that never bounce.
//! Inputs: a round's answers of all members, a latency model. Outputs: moves, and what is wrong that no move mends.
//! O(units x nodes) questions to the model.
//! Deviations: none.
//! Limits: [`RebalanceOptions::moves_max`] moves a round; a unit that moved rests; a bias is within [`BIAS`].
//!
//! The model's answer is multiplied by what was measured over it at each node (`bias`), so that subscribers'
//! measurements feed it. A bound that is missed for some rounds in a row is mended whatever the model says.

mod bias;
mod decide;
mod learn;
mod measured;
mod mend;
mod observe;
mod reasons;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidegate_types::units::Time;

pub use self::bias::BIAS;
use self::bias::Bias;
use self::measured::Seen;
pub use self::reasons::{MoveReason, RebalanceRemark, StayReason};
use super::{LatencyModel, Machine, Topic};
use crate::handover::UnitOwner;
use crate::handover::loads::MemberLoads;

/// Part of a unit's records that may be later than its bound: of a 90th percentile, a tenth.
const LATE: f64 = 0.1;
/// A unit that is moved again within so many rests rests twice as long after it.
const SOON: u32 = 10;
/// At most so many times as long.
const REST_TIMES_MAX: u32 = 64;

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct RebalanceOptions {
    /// Moves of one round at most.
    pub moves_max: usize,
    /// How long a unit that moved stays where it is.
    pub rest: Duration,
    /// Rounds in a row in which a bound must be missed.
    pub rounds: u32,
    /// Units of one node at most.
    pub together_max: usize,
    /// Part of each bound that is kept free where a unit comes.
    pub margin: f64,
    /// Contention and bias of nodes, and processors that a node really gets at most.
    pub usual: Machine,
    /// After how long a node that does not answer loses its units; `None` is never.
    pub seize_after: Option<Duration>,
    /// Whether units go to the nodes that have the least to do, though no bound is missed.
    pub spreads: bool,
    /// Whether only nodes that drain are looked at.
    pub only_drains: bool,
    /// Whether what drains goes where its bound is missed, if there is no better place.
    pub forces: bool,
}

impl Default for RebalanceOptions {
    /// Two moves a round, a minute of rest, two rounds, 32 together, a margin of 0.1, the usual machine; nothing else.
    fn default() -> Self {
        RebalanceOptions {
            moves_max: 2,
            rest: Duration::from_secs(60),
            rounds: 2,
            together_max: 32,
            margin: 0.1,
            usual: Machine { cores: f64::INFINITY, speed: 1.0, contention: 0.03, bias: 1.0 },
            seize_after: None,
            spreads: false,
            only_drains: false,
            forces: false,
        }
    }
}

/// A move that should be made.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedMove {
    /// Which unit.
    pub unit: Arc<str>,
    /// Its owner.
    pub from: Arc<str>,
    /// Its owner to be.
    pub to: Arc<str>,
    /// Whether the owner is gone, and the other one takes it.
    pub seizes: bool,
    /// Why.
    pub reason: MoveReason,
}

/// A node in a round.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeView {
    /// Its name.
    pub name: Arc<str>,
    /// Whether it answers.
    pub is_here: bool,
    /// Whether it is to own nothing.
    pub is_draining: bool,
    /// Processors that operators get.
    pub cores: f64,
    /// Processors that its units keep busy.
    pub load: f64,
    /// Measured over predicted.
    pub bias: f64,
}

/// A unit in a round.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitView {
    /// Its name.
    pub name: Arc<str>,
    /// Its owner.
    pub node: Arc<str>,
    /// Its load; `None` while nothing is known of it.
    pub topic: Option<Topic>,
    /// What was measured since the last round, where enough was: 90th percentile in seconds.
    pub p90: Option<f64>,
    /// Part of the records that were later than their bounds.
    pub late: Option<f64>,
    /// 90th percentile that the model says, in seconds.
    pub predicted: f64,
}

/// What a round found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RebalanceRound {
    /// Moves, in the order in which they should be made.
    pub steps: Vec<PlannedMove>,
    /// What is wrong and stays so for now.
    pub remarks: Vec<RebalanceRemark>,
    /// All nodes.
    pub nodes: Vec<NodeView>,
    /// All units.
    pub units: Vec<UnitView>,
}

#[derive(Clone, Debug, Default)]
struct ManagedNode {
    loads: Option<MemberLoads>,
    is_here: bool,
    silent_since: Option<Time>,
    bias: Bias,
    /// A unit came or went since the last round: what was measured is of both.
    is_unsettled: bool,
    /// It works off what has waited: that was late before it was done, and says nothing of what comes.
    is_behind: bool,
}

#[derive(Clone, Debug)]
struct Unit {
    owner: UnitOwner,
    node: Arc<str>,
    is_open: bool,
    /// Its load, smoothed.
    topic: Option<Topic>,
    /// Of the last round.
    seen: Option<Seen>,
    /// Rounds in a row in which its bound was missed.
    missed: u32,
    moved_at: Option<Time>,
    /// How long it rests after its last move.
    rest: Duration,
}

/// See the file's header.
#[derive(Clone, Debug)]
pub struct Rebalancer {
    options: RebalanceOptions,
    nodes: BTreeMap<Arc<str>, ManagedNode>,
    units: BTreeMap<Arc<str>, Unit>,
    /// Nodes of which not all could be moved in the last round that should be.
    unfinished: BTreeSet<Arc<str>>,
}

impl Rebalancer {
    /// Knows nothing yet.
    pub fn new(options: RebalanceOptions) -> Rebalancer {
        let (nodes, units) = (BTreeMap::new(), BTreeMap::new());
        Rebalancer { options, nodes, units, unfinished: BTreeSet::new() }
    }

    /// Takes the answers of all members, by their names, `None` where one does not answer; says what should be done.
    pub fn round(
        &mut self,
        now: Time,
        answers: Vec<(Arc<str>, Option<MemberLoads>)>,
        model: &dyn LatencyModel,
    ) -> RebalanceRound {
        self.observe(now, answers);
        self.learn(model);
        let predicted = self.judge(model);
        let mut round = self.decide(now, model);
        round.nodes = self.nodes.iter().map(|(name, node)| self.node_view(name, node)).collect();
        let view = |(name, unit): (&Arc<str>, &Unit)| UnitView {
            name: name.clone(),
            node: unit.node.clone(),
            topic: unit.topic.clone(),
            p90: unit.seen.as_ref().and_then(|seen| seen.p90),
            late: unit.seen.as_ref().and_then(|seen| seen.late),
            predicted: predicted.get(name).copied().unwrap_or(0.0),
        };
        round.units = self.units.iter().map(view).collect();
        round
    }

    /// A move that a round asked for was made.
    pub fn moved(&mut self, now: Time, step: &PlannedMove) {
        let RebalanceOptions { rest, .. } = self.options;
        if let Some(unit) = self.units.get_mut(&step.unit) {
            let is_soon = unit.moved_at.is_some_and(|before| now.since(before) < unit.rest * SOON);
            let doubled = (unit.rest * 2).min(rest * REST_TIMES_MAX);
            unit.rest = if is_soon { doubled } else { rest };
            unit.moved_at = Some(now);
            unit.node = step.to.clone();
            unit.missed = 0;
        }
        let is_unfinished = self.unfinished.contains(&step.from);
        for name in [&step.from, &step.to] {
            if let Some(node) = self.nodes.get_mut(name) {
                node.is_unsettled = true;
            }
            let stays = is_unfinished && *name == step.from;
            for unit in self.units.values_mut().filter(|unit| unit.node == *name && !stays) {
                unit.missed = 0;
            }
        }
    }

    /// Whether a unit has moved a short while ago.
    fn rests(&self, now: Time, unit: &Unit) -> bool {
        unit.moved_at.is_some_and(|at| now.since(at) < unit.rest)
    }

    fn machine(&self, node: &ManagedNode) -> Machine {
        let RebalanceOptions { usual, .. } = self.options;
        let own = node.loads.as_ref().map_or(1, |loads| loads.threads.min(loads.processors));
        let cores = f64::from(own.max(1)).min(usual.cores);
        Machine { cores, bias: usual.bias * node.bias.factor(), ..usual }
    }

    fn node_view(&self, name: &Arc<str>, node: &ManagedNode) -> NodeView {
        let topics = self.topics_of(name);
        NodeView {
            name: name.clone(),
            is_here: node.is_here,
            is_draining: node.loads.as_ref().is_some_and(|loads| loads.is_draining),
            cores: self.machine(node).cores,
            load: topics.iter().map(|(_, topic)| topic.load()).sum(),
            bias: node.bias.factor(),
        }
    }

    /// Units that a node owns and whose load is known.
    fn topics_of(&self, node: &str) -> Vec<(&Arc<str>, &Topic)> {
        let own = self.units.iter().filter(|(_, unit)| *unit.node == *node);
        own.filter_map(|(name, unit)| Some((name, unit.topic.as_ref()?))).collect()
    }

    /// Counts in how many rounds in a row each unit's bound was missed, by measuring or by what the model says of it;
    /// returns what it says, in seconds.
    fn judge(&mut self, model: &dyn LatencyModel) -> BTreeMap<Arc<str>, f64> {
        let mut all = BTreeMap::new();
        let mut answer = Vec::new();
        for (name, node) in &self.nodes {
            let topics = self.topics_of(name);
            let loads: Vec<&Topic> = topics.iter().map(|(_, topic)| *topic).collect();
            answer.clear();
            model.p90(&self.machine(node), &loads, &mut answer);
            all.extend(topics.iter().map(|(name, _)| Arc::clone(name)).zip(answer.iter().copied()));
        }
        for (name, unit) in &mut self.units {
            let node = self.nodes.get(&unit.node);
            let (Some(node), Some(topic)) = (node.filter(|node| node.is_here), &unit.topic) else {
                continue;
            };
            if node.is_unsettled && !self.unfinished.contains(&unit.node) {
                unit.missed = 0;
                continue;
            }
            let bound = topic.bound.as_secs_f64();
            let seen = unit.seen.as_ref();
            let p90 = seen.and_then(|seen| seen.p90);
            let late = seen.and_then(|seen| seen.late).filter(|_| !node.is_behind);
            let is_late = late.is_some_and(|late| late > LATE);
            // What is measured to be far from its bound is so, whatever the model says.
            let is_foreseen = all.get(name).is_some_and(|p90| *p90 > bound)
                && p90.is_none_or(|p90| p90 > bound / 2.0);
            if is_late || is_foreseen {
                unit.missed = unit.missed.saturating_add(1);
            } else if p90.is_some() || topic.rate < 1e-9 {
                unit.missed = 0;
            }
        }
        self.nodes.values_mut().for_each(|node| node.is_unsettled = false);
        all
    }
}
