//! First fit decreasing: each topic, the slowest alone first, goes to the first node that can host it.
//! Source: papers/topic-placement.txt, §V-C, Alg. 1 (FFD_k).
//! Inputs: topics, machines, model, k. Outputs: topics by node. O(n log n + n |B|) questions at most; nodes whose
//! processors are taken, or whose topics bear no other one, are not asked about, which changes nothing.
//! Deviations: a topic that no node can host is named, where the paper has none (Property 1a); machines may be
//! unequal, and are opened in the order given (docs/algorithms-place.md#first-fit).
//! Limits: none.

use super::residual::Residual;
use super::{FeasibilityOracle, Plan, TopicId};

/// Places topics in the given order (the paper's is [`FeasibilityOracle::by_latency_alone`]).
pub fn first_fit(feasible: &mut FeasibilityOracle<'_>, order: &[TopicId]) -> Plan {
    let mut packing = Packing::default();
    for &topic in order {
        packing.place(feasible, topic);
    }
    packing.plan
}

/// Nodes that are being filled.
#[derive(Clone, Debug, Default)]
pub(super) struct Packing {
    pub(super) plan: Plan,
    residual: Residual,
}

impl Packing {
    /// Puts a topic on the first node that can host it, on a new one otherwise.
    pub(super) fn place(&mut self, feasible: &mut FeasibilityOracle<'_>, topic: TopicId) {
        let load = feasible.problem().topics[topic.index()].load();
        let together = feasible.together(topic);
        let mut from = 0;
        while let Some(node) = self.residual.first(from, load) {
            if self.plan.nodes[node].len() < together && self.add(feasible, node, topic) {
                return;
            }
            from = node + 1;
        }
        let mut node = self.plan.nodes.len();
        // A smaller machine may be unable to host what a later one can.
        while feasible.problem().machines.nth(node).is_some() {
            self.plan.nodes.push(Vec::new());
            if self.add(feasible, node, topic) {
                return;
            }
            if matches!(feasible.problem().machines, super::Machines::Any(_)) {
                self.plan.nodes.pop();
                break;
            }
            self.note(feasible, node);
            node += 1;
        }
        self.plan.unplaced.push(topic);
    }

    /// Adds a topic to a node, if it can host it.
    pub(super) fn add(
        &mut self,
        feasible: &mut FeasibilityOracle<'_>,
        node: usize,
        topic: TopicId,
    ) -> bool {
        let Some(&machine) = feasible.problem().machines.nth(node) else { return false };
        let hosted = &self.plan.nodes[node];
        if !feasible.fits(&machine, hosted.iter().copied().chain([topic])) {
            return false;
        }
        self.plan.nodes[node].push(topic);
        self.note(feasible, node);
        true
    }

    /// Opens a node for topics that are known to fit it.
    pub(super) fn open(&mut self, feasible: &mut FeasibilityOracle<'_>, topics: Vec<TopicId>) {
        self.plan.nodes.push(topics);
        self.note(feasible, self.plan.nodes.len() - 1);
    }

    fn note(&mut self, feasible: &mut FeasibilityOracle<'_>, node: usize) {
        let super::PlacementProblem { topics, machines, model, together_max, .. } =
            *feasible.problem();
        // One more than its most sensitive topic bears is one too many.
        let borne = self.plan.nodes[node].iter().map(|topic| feasible.together(*topic)).min();
        let Some(machine) = machines.nth(node) else { return };
        let hosted = &self.plan.nodes[node];
        let load: f64 = hosted.iter().map(|topic| topics[topic.index()].load()).sum();
        // What `fits` finds too much must never look as if there were room, nor the other way round.
        let left = model.load_max(machine, hosted.len() + 1) - load + 1e-9;
        let has_room = hosted.len() < borne.unwrap_or(together_max);
        self.residual.set(node, if has_room { left } else { -1.0 });
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{MACHINE, problem, topic, topics};
    use super::super::{Machine, Machines};
    use super::*;

    /// Algorithm 1, line by line.
    fn as_printed(feasible: &mut FeasibilityOracle<'_>, order: &[TopicId]) -> Vec<Vec<TopicId>> {
        let mut nodes: Vec<Vec<TopicId>> = Vec::new();
        for &topic in order {
            let machine = *feasible.problem().machines.nth(0).unwrap();
            let host = (0..nodes.len())
                .find(|&node| feasible.fits(&machine, nodes[node].iter().copied().chain([topic])));
            match host {
                Some(node) => nodes[node].push(topic),
                None => nodes.push(vec![topic]),
            }
        }
        nodes
    }

    #[test]
    fn it_is_the_papers_algorithm() {
        for seed in 0..20 {
            let topics = topics(60, seed);
            let machines = Machines::Any(MACHINE);
            let problem = problem(&topics, &machines, 6);
            let mut feasible = FeasibilityOracle::new(problem);
            let order = feasible.by_latency_alone();
            let plan = first_fit(&mut feasible, &order);
            let order: Vec<TopicId> =
                order.into_iter().filter(|topic| !plan.unplaced.contains(topic)).collect();
            assert_eq!(plan.nodes, as_printed(&mut feasible, &order), "seed {seed}");
        }
    }

    #[test]
    fn unequal_machines_are_opened_in_their_order() {
        let small = Machine { cores: 1.0, ..MACHINE };
        let machines = Machines::Listed(vec![small, MACHINE]);
        let topics = [topic(10, 150.0), topic(10, 50.0), topic(40, 200.0)];
        let problem = problem(&topics, &machines, 6);
        let mut feasible = FeasibilityOracle::new(problem);
        let plan = first_fit(&mut feasible, &[TopicId(0), TopicId(1), TopicId(2)]);
        assert_eq!(plan.nodes, [vec![TopicId(1)], vec![TopicId(0)]]);
        assert_eq!(plan.unplaced, [TopicId(2)], "8 processors");
    }
}
