//! Which units move in a round: off nodes that are gone or drain, and off nodes where a bound is missed, each to where all
//! bounds are kept with it; and what stays, and why.
//! Source: own; `repair` for a node that misses a bound.
//! Inputs: what is known of nodes and units. Outputs: moves and remarks. O(units x nodes) questions to the model.
//! Deviations: none.
//! Limits: `RebalanceOptions::moves_max`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_types::units::Time;

use super::{
    LATE, ManagedNode, MoveReason, PlannedMove, RebalanceOptions, RebalanceRemark, RebalanceRound,
    Rebalancer, StayReason, Topic, Unit,
};
use crate::place::repair::Work;
use crate::place::{
    FeasibilityOracle, LatencyModel, Machine, Machines, PlacementProblem, TopicId, fits_alone, help,
};

/// Parts of the processors: by how much nodes must differ where units are spread, and how much lower the load of the busier one
/// of both is to be after a move.
const SPREAD_MIN: (f64, f64) = (0.15, 0.05);
/// Of results whose work was nearly always in time, late ones are late by their subscribers.
const WORK_LATE_MIN: f64 = 0.01;
/// What the model is to say of a bound that is missed, as a part of it.
const MISSED: f64 = 1.01;
/// With what part of its processors a node is looked at again until the model says so, and how often.
const FEWER: f64 = 0.95;
const FEWER_MAX: usize = 100;

/// A bound that is missed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Miss {
    /// Measured part that was late, where that is too much.
    pub(super) late: Option<f64>,
    /// Measured, seconds.
    pub(super) p90: Option<f64>,
    pub(super) bound: f64,
}

impl Miss {
    pub(super) fn weight(&self) -> f64 {
        self.late.unwrap_or(0.0)
    }
}

/// A round's table: nodes and units by their places.
pub(super) struct DecisionTable<'k> {
    now: Time,
    pub(super) keeper: &'k Rebalancer,
    pub(super) nodes: Vec<(&'k Arc<str>, &'k ManagedNode)>,
    pub(super) units: Vec<(&'k Arc<str>, &'k Unit)>,
    /// Of each unit; `None` for one whose node is no member.
    pub(super) at: Vec<Option<usize>>,
    pub(super) unfinished: BTreeSet<Arc<str>>,
    steps: Vec<PlannedMove>,
    pub(super) remarks: Vec<RebalanceRemark>,
}

impl Rebalancer {
    pub(super) fn decide(&mut self, now: Time, model: &dyn LatencyModel) -> RebalanceRound {
        let nodes: Vec<_> = self.nodes.iter().collect();
        let units: Vec<_> = self.units.iter().collect();
        let at = |(_, unit): &(_, &Unit)| nodes.iter().position(|(name, _)| **name == unit.node);
        let at = units.iter().map(at).collect();
        let (steps, remarks, unfinished) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut table =
            DecisionTable { now, keeper: &*self, nodes, units, at, unfinished, steps, remarks };
        let topics: Vec<Topic> = table.units.iter().map(|(_, unit)| table.topic(unit)).collect();
        let machines = Machines::Listed(table.machines(model));
        let RebalanceOptions { together_max, margin, .. } = self.options;
        let problem =
            PlacementProblem { topics: &topics, machines: &machines, model, together_max, margin };
        let mut feasible = FeasibilityOracle::new(problem);
        let mut work = table.work();
        table.away(&mut feasible, &mut work);
        if !self.options.only_drains {
            table.mend(&mut feasible, &mut work);
        }
        table.drain(&mut feasible, &mut work);
        if self.options.spreads && table.is_calm() {
            table.spread(&mut feasible, &mut work);
        }
        let DecisionTable { steps, remarks, unfinished, .. } = table;
        self.unfinished = unfinished;
        RebalanceRound { steps, remarks, ..RebalanceRound::default() }
    }
}

impl DecisionTable<'_> {
    fn topic(&self, unit: &Unit) -> Topic {
        unit.topic.clone().unwrap_or(Topic::IDLE)
    }

    /// Machines as they are; those where a bound is missed with as few processors as make the model say so.
    fn machines(&self, model: &dyn LatencyModel) -> Vec<Machine> {
        let mut all: Vec<Machine> =
            self.nodes.iter().map(|(_, node)| self.keeper.machine(node)).collect();
        let mut answer = Vec::new();
        for (place, machine) in all.iter_mut().enumerate() {
            let own: Vec<usize> =
                (0..self.units.len()).filter(|&unit| self.at[unit] == Some(place)).collect();
            let topics: Vec<Topic> =
                own.iter().map(|&unit| self.topic(self.units[unit].1)).collect();
            let topics: Vec<&Topic> = topics.iter().collect();
            let late = own.iter().map(|&unit| self.missed(unit).filter(|miss| miss.late.is_some()));
            let late: Vec<Option<Miss>> = late.collect();
            for _ in 0..FEWER_MAX {
                answer.clear();
                model.p90(machine, &topics, &mut answer);
                let is_unseen = |(miss, predicted): (&Option<Miss>, &f64)| {
                    miss.is_some_and(|miss| *predicted < MISSED * miss.bound)
                };
                if !late.iter().zip(&answer).any(is_unseen) {
                    break;
                }
                machine.cores *= FEWER;
            }
        }
        all
    }

    fn at_node(&self, unit: &Unit) -> Option<&ManagedNode> {
        self.keeper.nodes.get(&unit.node)
    }

    fn work(&self) -> Work {
        let mut nodes = vec![Vec::new(); self.nodes.len()];
        for (unit, at) in self.at.iter().enumerate() {
            if let Some(node) = at {
                nodes[*node].push(TopicId(unit as u32));
            }
        }
        Work { nodes, moves: Vec::new(), left: usize::MAX }
    }

    pub(super) fn left(&self) -> usize {
        self.keeper.options.moves_max.saturating_sub(self.steps.len())
    }

    fn is_calm(&self) -> bool {
        self.steps.is_empty() && self.units.iter().all(|(_, unit)| unit.missed == 0)
    }

    /// What a unit misses, for long enough.
    pub(super) fn missed(&self, unit: usize) -> Option<Miss> {
        let (_, unit) = self.units[unit];
        let topic = unit.topic.as_ref()?;
        let seen = unit.seen.as_ref();
        let is_behind = self.at_node(unit).is_some_and(|node| node.is_behind);
        let late = seen.and_then(|seen| seen.late).filter(|late| *late > LATE && !is_behind);
        let is_long = unit.missed >= self.keeper.options.rounds && !self.is_slow(unit);
        let p90 = seen.and_then(|seen| seen.p90);
        is_long.then_some(Miss { late, p90, bound: topic.bound.as_secs_f64() })
    }

    /// Whether its results are late though its work is not.
    pub(super) fn is_slow(&self, unit: &Unit) -> bool {
        unit.seen.as_ref().is_some_and(|seen| {
            seen.late.is_some_and(|late| late > LATE)
                && seen.work_late.is_some_and(|late| late < WORK_LATE_MIN)
        })
    }

    fn is_draining(&self, node: usize) -> bool {
        self.nodes[node].1.loads.as_ref().is_some_and(|loads| loads.is_draining)
    }

    /// Whether units may come to a node: it answers, does not drain, misses no bound, works off nothing, and all of its load is
    /// known.
    pub(super) fn may_host(&self, node: usize) -> bool {
        let is_well = |(unit, at): (&(&Arc<str>, &Unit), &Option<usize>)| {
            *at != Some(node) || (unit.1.missed == 0 && unit.1.topic.is_some())
        };
        self.nodes[node].1.is_here
            && !self.nodes[node].1.is_behind
            && !self.is_draining(node)
            && self.units.iter().zip(&self.at).all(is_well)
    }

    /// Whether a unit may leave its node now.
    pub(super) fn may_move(&self, unit: usize) -> bool {
        self.stays(unit).is_none()
    }

    pub(super) fn stays(&self, unit: usize) -> Option<StayReason> {
        let (_, unit) = self.units[unit];
        if !unit.is_open {
            return Some(StayReason::Closed);
        }
        if unit.topic.is_none() {
            return Some(StayReason::Unknown);
        }
        self.keeper.rests(self.now, unit).then_some(StayReason::Rests)
    }

    pub(super) fn step(&mut self, unit: usize, to: usize, seizes: bool, reason: MoveReason) {
        let (name, known) = self.units[unit];
        let from = known.node.clone();
        let to = self.nodes[to].0.clone();
        self.steps.push(PlannedMove { unit: name.clone(), from, to, seizes, reason });
    }

    /// Nodes that do not answer: their units wait, or are taken after a while.
    fn away(&mut self, feasible: &mut FeasibilityOracle<'_>, work: &mut Work) {
        for node in 0..self.nodes.len() {
            let (name, known) = self.nodes[node];
            let Some(since) = known.silent_since.filter(|_| !known.is_here) else { continue };
            let silent = self.now.since(since);
            let is_gone = self.keeper.options.seize_after.is_some_and(|after| silent >= after);
            let mut waiting = Vec::new();
            for topic in work.nodes[node].clone() {
                let unit = topic.index();
                let may_seize = is_gone && self.left() > 0;
                let to = may_seize.then(|| self.place(feasible, work, topic, node, true)).flatten();
                match to {
                    Some(to) => self.step(unit, to, true, MoveReason::Gone { silent }),
                    None => waiting.push(self.units[unit].0.clone()),
                }
            }
            let (node, units) = (name.clone(), waiting);
            self.remarks.push(RebalanceRemark::Away { node, silent, units });
        }
    }

    /// Hosts a unit elsewhere; the least busy node where none keeps all bounds and that is no reason to stay.
    fn place(
        &self,
        feasible: &mut FeasibilityOracle<'_>,
        work: &mut Work,
        topic: TopicId,
        from: usize,
        forces: bool,
    ) -> Option<usize> {
        let may_host = |node: usize| node != from && self.may_host(node);
        let mut to = work.host(feasible, topic, &may_host, true);
        if to.is_none() && forces {
            let could = |node: &usize| {
                *node != from && self.nodes[*node].1.is_here && !self.is_draining(*node)
            };
            let busy = |node: &usize| self.busy(feasible, work, *node);
            let all = (0..self.nodes.len()).filter(could);
            to = all.min_by(|a, b| busy(a).total_cmp(&busy(b)));
        }
        let to = to?;
        work.nodes[from].retain(|other| *other != topic);
        work.settle(topic, Some(from), to);
        Some(to)
    }

    /// Part of a node's processors that its units keep busy.
    fn busy(&self, feasible: &FeasibilityOracle<'_>, work: &Work, node: usize) -> f64 {
        let PlacementProblem { topics, machines, .. } = *feasible.problem();
        let load: f64 = work.nodes[node].iter().map(|topic| topics[topic.index()].load()).sum();
        machines.nth(node).map_or(f64::INFINITY, |machine| load / machine.cores)
    }

    pub(super) fn cores_most(&self) -> f64 {
        let cores = self.nodes.iter().map(|(_, node)| self.keeper.machine(node).cores);
        cores.fold(1.0, f64::max)
    }

    /// Nodes that drain: all that may leave them does, the greatest load first.
    fn drain(&mut self, feasible: &mut FeasibilityOracle<'_>, work: &mut Work) {
        for node in 0..self.nodes.len() {
            if !self.is_draining(node) || !self.nodes[node].1.is_here {
                continue;
            }
            let topics = feasible.problem().topics;
            let mut own = work.nodes[node].clone();
            own.sort_by(|a, b| topics[b.index()].load().total_cmp(&topics[a.index()].load()));
            for topic in own {
                let why = self.stays(topic.index()).or(match self.left() {
                    0 => Some(StayReason::Later),
                    _ => None,
                });
                let forces = self.keeper.options.forces;
                let why = match why {
                    Some(why) => why,
                    None => match self.place(feasible, work, topic, node, forces) {
                        Some(to) => {
                            self.step(topic.index(), to, false, MoveReason::Drains);
                            continue;
                        }
                        None if !fits_alone(feasible.problem(), &topics[topic.index()]) => {
                            let rate = help(feasible.problem(), &topics[topic.index()], 1).rate;
                            StayReason::Alone { rate }
                        }
                        None => StayReason::NoRoom { cores: self.cores_most() },
                    },
                };
                let (unit, node) =
                    (self.units[topic.index()].0.clone(), self.nodes[node].0.clone());
                self.remarks.push(RebalanceRemark::Left { unit, node, why });
            }
        }
    }

    /// Units go from the busiest node to the one that has the least to do, as long as that makes a difference.
    fn spread(&mut self, feasible: &mut FeasibilityOracle<'_>, work: &mut Work) {
        while self.left() > 0 {
            let hosts = (0..self.nodes.len()).filter(|&node| self.may_host(node));
            let all: BTreeMap<usize, f64> =
                hosts.map(|node| (node, self.busy(feasible, work, node))).collect();
            let by = |a: &(&usize, &f64), b: &(&usize, &f64)| a.1.total_cmp(b.1);
            let (Some((&from, &most)), Some((&to, &least))) =
                (all.iter().max_by(by), all.iter().min_by(by))
            else {
                return;
            };
            if most - least < SPREAD_MIN.0 {
                return;
            }
            let PlacementProblem { topics, machines, .. } = *feasible.problem();
            let (Some(&of), Some(&machine)) = (machines.nth(from), machines.nth(to)) else {
                return;
            };
            // The unit after which the busier one of both is the least busy.
            let after = |topic: TopicId| {
                let load = topics[topic.index()].load();
                (most - load / of.cores).max(least + load / machine.cores)
            };
            let mut own = work.nodes[from].clone();
            own.retain(|topic| self.may_move(topic.index()) && after(*topic) < most - SPREAD_MIN.1);
            own.retain(|topic| {
                feasible.fits(&machine, work.nodes[to].iter().copied().chain([*topic]))
            });
            let Some(topic) = own.into_iter().min_by(|a, b| after(*a).total_cmp(&after(*b))) else {
                return;
            };
            work.nodes[from].retain(|other| *other != topic);
            work.settle(topic, Some(from), to);
            self.step(topic.index(), to, false, MoveReason::Spread { from: most, to: least });
        }
    }
}
