//! Repairs a plan after loads changed: few topics move, and where that is easy a node is emptied.
//! Source: own. The smallest topic that mends a node leaves it, as in bin packing with migrations; users of
//! brokers ask for few, light moves.
//! Inputs: topics as they are now, machines, model, the plan so far, moves at most, which topics may move. Outputs:
//! the plan from now on, the moves, nodes that still miss a bound. O(moves x nodes) questions.
//! Deviations: none.
//! Limits: the number of moves.

use super::{FeasibilityOracle, Plan, TopicId};

/// A topic that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicMove {
    /// Which one.
    pub topic: TopicId,
    /// The node that it leaves; `None` for a new topic.
    pub from: Option<usize>,
    /// The node that hosts it from now on.
    pub to: usize,
}

/// A plan mended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanRepair {
    /// The plan from now on.
    pub plan: Plan,
    /// What moves, in the order in which it should.
    pub moves: Vec<TopicMove>,
    /// Nodes where a topic still misses its bound, for want of moves or machines.
    pub broken: Vec<usize>,
}

/// Mends `plan`. Topics of the problem that no node hosts are placed first come, first served and are no moves of
/// the limit; topics that are gone must have left the plan. `may_move` says which topics have dwelt long enough.
pub fn repair(
    feasible: &mut FeasibilityOracle<'_>,
    plan: &Plan,
    moves_max: usize,
    may_move: impl Fn(TopicId) -> bool,
) -> PlanRepair {
    let mut work = Work { nodes: plan.nodes.clone(), moves: Vec::new(), left: moves_max };
    let mut homeless: Vec<(TopicId, Option<usize>)> = work.new_topics(feasible);
    for node in 0..work.nodes.len() {
        homeless.extend(work.evict(feasible, node, &may_move));
    }
    let load = |feasible: &FeasibilityOracle<'_>, topic: TopicId| {
        feasible.problem().topics[topic.index()].load()
    };
    homeless
        .sort_by(|(a, _), (b, _)| load(feasible, *b).total_cmp(&load(feasible, *a)).then(a.cmp(b)));
    let mut unplaced = Vec::new();
    for (topic, from) in homeless {
        match work.host(feasible, topic, &|_| true, true) {
            Some(to) => work.settle(topic, from, to),
            // Better late than nowhere.
            None => match from {
                Some(node) => work.nodes[node].push(topic),
                None => unplaced.push(topic),
            },
        }
    }
    work.drain_one(feasible, &may_move);
    let mut broken = Vec::new();
    for node in 0..work.nodes.len() {
        if !work.keeps(feasible, node) {
            broken.push(node);
        }
    }
    PlanRepair { plan: Plan { nodes: work.nodes, unplaced }, moves: work.moves, broken }
}

/// A plan while it is mended.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) nodes: Vec<Vec<TopicId>>,
    pub(super) moves: Vec<TopicMove>,
    /// Moves that may still be made.
    pub(super) left: usize,
}

impl Work {
    fn new_topics(&self, feasible: &FeasibilityOracle<'_>) -> Vec<(TopicId, Option<usize>)> {
        let mut is_hosted = vec![false; feasible.problem().topics.len()];
        self.nodes.iter().flatten().for_each(|topic| is_hosted[topic.index()] = true);
        let new = feasible.all().into_iter().filter(|topic| !is_hosted[topic.index()]);
        new.map(|topic| (topic, None)).collect()
    }

    /// Whether all topics of a node keep their bounds.
    pub(super) fn keeps(&self, feasible: &mut FeasibilityOracle<'_>, node: usize) -> bool {
        let Some(&machine) = feasible.problem().machines.nth(node) else { return false };
        self.nodes[node].is_empty() || feasible.fits(&machine, self.nodes[node].iter().copied())
    }

    /// Takes topics off a node until it keeps its bounds: the smallest that mends it alone; where none does, the
    /// largest first.
    pub(super) fn evict(
        &mut self,
        feasible: &mut FeasibilityOracle<'_>,
        node: usize,
        may_move: &impl Fn(TopicId) -> bool,
    ) -> Vec<(TopicId, Option<usize>)> {
        let mut evicted = Vec::new();
        let Some(&machine) = feasible.problem().machines.nth(node) else { return evicted };
        while self.left > 0 && !self.keeps(feasible, node) {
            let topics = feasible.problem().topics;
            let load = |topic: &TopicId| topics[topic.index()].load();
            let mut movable: Vec<TopicId> =
                self.nodes[node].iter().copied().filter(|topic| may_move(*topic)).collect();
            movable.sort_by(|a, b| load(a).total_cmp(&load(b)).then(a.cmp(b)));
            let hosted = self.nodes[node].clone();
            let mends = |topic: &&TopicId| {
                feasible.fits(&machine, hosted.iter().copied().filter(|other| other != *topic))
            };
            let Some(&gone) = movable.iter().find(mends).or(movable.last()) else { break };
            self.nodes[node].retain(|topic| *topic != gone);
            self.left -= 1;
            evicted.push((gone, Some(node)));
        }
        evicted
    }

    /// The fullest node that can host a topic, of those that may; a new one if there is none and it may be opened.
    pub(super) fn host(
        &mut self,
        feasible: &mut FeasibilityOracle<'_>,
        topic: TopicId,
        may_host: &dyn Fn(usize) -> bool,
        may_open: bool,
    ) -> Option<usize> {
        let topics = feasible.problem().topics;
        let load = |node: &[TopicId]| -> f64 {
            node.iter().map(|topic| topics[topic.index()].load()).sum()
        };
        let mut ranked: Vec<(f64, usize)> = Vec::new();
        for (node, hosted) in self.nodes.iter().enumerate() {
            let Some(machine) = feasible.problem().machines.nth(node) else { continue };
            if may_host(node) && !hosted.is_empty() {
                let room = feasible.problem().model.load_max(machine, 1) - load(hosted);
                ranked.push((room - topics[topic.index()].load(), node));
            }
        }
        ranked.retain(|(room, _)| *room >= -1e-9);
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for (_, node) in ranked {
            let Some(&machine) = feasible.problem().machines.nth(node) else { continue };
            if feasible.fits(&machine, self.nodes[node].iter().copied().chain([topic])) {
                return Some(node);
            }
        }
        if !may_open {
            return None;
        }
        // A node that is empty, or one more.
        let empty = (0..self.nodes.len()).filter(|&node| self.nodes[node].is_empty());
        for node in empty.chain([self.nodes.len()]).collect::<Vec<_>>() {
            let machine = feasible.problem().machines.nth(node).filter(|_| may_host(node)).copied();
            if machine.is_some_and(|machine| feasible.fits(&machine, [topic])) {
                if node == self.nodes.len() {
                    self.nodes.push(Vec::new());
                }
                return Some(node);
            }
        }
        None
    }

    /// A topic has come to a node.
    pub(super) fn settle(&mut self, topic: TopicId, from: Option<usize>, to: usize) {
        self.nodes[to].push(topic);
        if from != Some(to) {
            self.moves.push(TopicMove { topic, from, to });
        }
    }

    /// Empties the lightest node, if all of its topics fit on others and may move.
    fn drain_one(
        &mut self,
        feasible: &mut FeasibilityOracle<'_>,
        may_move: &impl Fn(TopicId) -> bool,
    ) {
        let topics = feasible.problem().topics;
        let load = |node: &Vec<TopicId>| -> f64 {
            node.iter().map(|topic| topics[topic.index()].load()).sum()
        };
        let used = self.nodes.iter().enumerate().filter(|(_, node)| !node.is_empty());
        let lightest = used.min_by(|(_, a), (_, b)| load(a).total_cmp(&load(b)));
        let Some((node, hosted)) = lightest.map(|(node, hosted)| (node, hosted.clone())) else {
            return;
        };
        if hosted.len() > self.left || !hosted.iter().all(|topic| may_move(*topic)) {
            return;
        }
        let before = (self.nodes.clone(), self.moves.len());
        for &topic in &hosted {
            let Some(to) = self.host(feasible, topic, &|other| other != node, false) else {
                (self.nodes, _) = before;
                self.moves.truncate(before.1);
                return;
            };
            self.settle(topic, Some(node), to);
        }
        self.nodes[node].clear();
        self.left -= hosted.len();
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{MACHINE, problem, topic, topics};
    use super::super::{Machines, first_fit};
    use super::*;

    #[test]
    fn the_smallest_topic_that_mends_a_node_moves() {
        // Two nodes; the first one's large topic grows beyond what it can host.
        let machines = Machines::Any(MACHINE);
        let all = [topic(10, 300.0), topic(10, 30.0), topic(10, 60.0), topic(10, 200.0)];
        let plan = Plan {
            nodes: vec![vec![TopicId(0), TopicId(1), TopicId(2)], vec![TopicId(3)]],
            unplaced: vec![],
        };
        let mut feasible = FeasibilityOracle::new(problem(&all, &machines, 8));
        let found = repair(&mut feasible, &plan, 10, |_| true);
        assert_eq!(found.moves, [TopicMove { topic: TopicId(1), from: Some(0), to: 1 }]);
        assert!(found.broken.is_empty());
    }

    #[test]
    fn a_limit_and_a_dwell_time_are_kept_and_what_is_broken_is_named() {
        let machines = Machines::Any(MACHINE);
        let all = [topic(10, 300.0), topic(10, 200.0)];
        let plan = Plan { nodes: vec![vec![TopicId(0), TopicId(1)]], unplaced: vec![] };
        let mut feasible = FeasibilityOracle::new(problem(&all, &machines, 8));
        assert_eq!(repair(&mut feasible, &plan, 0, |_| true).broken, [0]);
        assert_eq!(repair(&mut feasible, &plan, 5, |_| false).broken, [0]);
        let found = repair(&mut feasible, &plan, 5, |topic| topic == TopicId(0));
        assert_eq!(found.moves, [TopicMove { topic: TopicId(0), from: Some(0), to: 1 }]);
    }

    #[test]
    fn drifting_loads_cost_few_moves_and_every_plan_is_feasible() {
        let machines = Machines::Any(MACHINE);
        let mut all = topics(120, 7);
        let mut random = tidegate_types::random::SplitMix(7);
        let mut feasible = FeasibilityOracle::new(problem(&all, &machines, 8));
        let order = feasible.by_latency_alone();
        let mut plan = first_fit(&mut feasible, &order);
        for _ in 0..10 {
            for topic in &mut all {
                if random.below(10) == 0 {
                    topic.rate *= 0.6 + 0.9 * random.share();
                }
            }
            plan.unplaced.clear();
            let mut feasible = FeasibilityOracle::new(problem(&all, &machines, 8));
            let found = repair(&mut feasible, &plan, 40, |_| true);
            let hosted: usize = found.plan.nodes.iter().map(Vec::len).sum();
            assert_eq!(hosted + found.plan.unplaced.len(), 120);
            for node in 0..found.plan.nodes.len() {
                let topics = found.plan.nodes[node].clone();
                let is_alone = topics.len() == 1;
                let keeps = topics.is_empty() || feasible.fits(&MACHINE, topics);
                assert!(keeps || is_alone || found.broken.contains(&node));
            }
            assert!(found.moves.len() <= 40 + found.plan.unplaced.len() + 20, "few moves");
            plan = found.plan;
        }
    }
}
