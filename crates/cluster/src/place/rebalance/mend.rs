//! Nodes where a bound is missed: few units leave, if all bounds are kept then there and where they come.
//! Source: own; evicts as `repair` does.
//! Inputs: a round's table. Outputs: moves and remarks. O(units^2 x nodes) questions to the model for such a node.
//! Deviations: none.
//! Limits: `RebalanceOptions::moves_max`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::decide::{DecisionTable, Miss};
use super::{LATE, MoveReason, RebalanceRemark, StayReason};
use crate::place::repair::Work;
use crate::place::{FeasibilityOracle, TopicId, fits_alone, help};

impl DecisionTable<'_> {
    /// See the file's header.
    pub(super) fn mend(&mut self, feasible: &mut FeasibilityOracle<'_>, work: &mut Work) {
        for unit in 0..self.units.len() {
            let (name, known) = self.units[unit];
            if known.missed >= self.keeper.options.rounds && self.is_slow(known) {
                self.remarks.push(RebalanceRemark::Slow { unit: name.clone() });
            }
        }
        self.behind();
        for node in 0..self.nodes.len() {
            let worst = (0..self.units.len())
                .filter(|&unit| self.at[unit] == Some(node) && self.nodes[node].1.is_here)
                .filter_map(|unit| Some((unit, self.missed(unit)?)))
                .max_by(|(_, a), (_, b)| a.weight().total_cmp(&b.weight()));
            let Some((unit, miss)) = worst else { continue };
            let reason = self.reason(feasible, work, (unit, &miss), node);
            match self.mended(feasible, work, node) {
                Ok((after, moves)) => {
                    let left = self.left();
                    if moves.len() > left {
                        self.unfinished.insert(self.nodes[node].0.clone());
                    }
                    if left == 0 {
                        self.remarks
                            .push(RebalanceRemark::Missed { miss: reason, why: StayReason::Later });
                        continue;
                    }
                    *work = after;
                    for (topic, to) in moves.into_iter().take(left) {
                        self.step(topic.index(), to, false, reason.clone());
                    }
                }
                Err(why) => self.remarks.push(RebalanceRemark::Missed { miss: reason, why }),
            }
        }
    }

    /// Nodes that are late with what has waited.
    fn behind(&mut self) {
        for (name, node) in self.nodes.clone() {
            let is_late = self.units.iter().any(|(_, unit)| {
                let late = unit.seen.as_ref().and_then(|seen| seen.late);
                unit.node == *name && late.is_some_and(|late| late > LATE)
            });
            if node.is_behind && node.is_here && is_late {
                self.remarks.push(RebalanceRemark::Behind { node: name.clone() });
            }
        }
    }

    fn reason(
        &self,
        feasible: &mut FeasibilityOracle<'_>,
        work: &Work,
        (unit, miss): (usize, &Miss),
        node: usize,
    ) -> MoveReason {
        let mut predicted = || {
            let machine = *feasible.problem().machines.nth(node)?;
            let hosted = &work.nodes[node];
            let place = hosted.iter().position(|topic| topic.index() == unit)?;
            feasible.p90(&machine, hosted.iter().copied()).get(place).copied()
        };
        let p90 = match (miss.late, miss.p90) {
            (Some(_), Some(p90)) => Some(p90),
            _ => predicted(),
        };
        let bound = Duration::try_from_secs_f64(miss.bound).unwrap_or(Duration::MAX);
        let unit = self.units[unit].0.clone();
        MoveReason::Missed { unit, late: miss.late, p90: p90.unwrap_or(f64::INFINITY), bound }
    }

    /// The plan after a node is mended, and what moves; or why it is not.
    fn mended(
        &self,
        feasible: &mut FeasibilityOracle<'_>,
        work: &Work,
        node: usize,
    ) -> Result<(Work, Vec<(TopicId, usize)>), StayReason> {
        let mut banned: BTreeSet<TopicId> = BTreeSet::new();
        let may_host = |other: usize| other != node && self.may_host(other);
        loop {
            let mut after = work.clone();
            let may = |topic: TopicId| !banned.contains(&topic) && self.may_move(topic.index());
            let mut gone: Vec<TopicId> =
                after.evict(feasible, node, &may).into_iter().map(|(topic, _)| topic).collect();
            if gone.is_empty() || !after.keeps(feasible, node) {
                return Err(self.why_not(feasible, work, node, &banned));
            }
            let load = |topic: &TopicId| feasible.problem().topics[topic.index()].load();
            gone.sort_by(|a, b| load(b).total_cmp(&load(a)).then(a.cmp(b)));
            let mut moves = Vec::new();
            for &topic in &gone {
                let Some(to) = after.host(feasible, topic, &may_host, true) else {
                    banned.insert(topic);
                    break;
                };
                after.settle(topic, Some(node), to);
                moves.push((topic, to));
            }
            if moves.len() == gone.len() {
                return Ok((after, moves));
            }
        }
    }

    /// Why nothing that may leave mends a node.
    fn why_not(
        &self,
        feasible: &mut FeasibilityOracle<'_>,
        work: &Work,
        node: usize,
        banned: &BTreeSet<TopicId>,
    ) -> StayReason {
        let problem = *feasible.problem();
        for topic in &work.nodes[node] {
            let alone = &problem.topics[topic.index()];
            if self.missed(topic.index()).is_some() && !fits_alone(&problem, alone) {
                return StayReason::Alone { rate: help(&problem, alone, 1).rate };
            }
        }
        if !banned.is_empty() {
            return StayReason::NoRoom { cores: self.cores_most() };
        }
        let rests = |topic: &&TopicId| self.stays(topic.index()) == Some(StayReason::Rests);
        match work.nodes[node].iter().find(rests) {
            Some(_) => StayReason::Rests,
            None => StayReason::NoRoom { cores: self.cores_most() },
        }
    }
}
