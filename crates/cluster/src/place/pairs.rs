//! Pairs: two topics a node at most, with the fewest nodes that there can be.
//! Source: papers/topic-placement.txt, §V-B, Theorem 1 (2-TCP by maximum matching).
//! Inputs: topics, machines, model. Outputs: topics by node. O(n^2) questions, O(n^3) for the matching.
//! Deviations: where machines are unequal, all pairs are asked about on the next one that is free
//! (docs/algorithms-place.md#pairs).
//! Limits: none.

use petgraph::algo::maximum_matching;
use petgraph::graph::UnGraph;

use super::{FeasibilityOracle, Plan, TopicId};

/// Places the topics in pairs, and alone where they fit no other.
pub fn pairs(feasible: &mut FeasibilityOracle<'_>) -> Plan {
    let order = feasible.by_latency_alone();
    let (nodes, alone) = matched(feasible, &order, 0);
    let mut plan = Plan { nodes, unplaced: Vec::new() };
    for topic in alone {
        let machine = feasible.problem().machines.nth(plan.nodes.len()).copied();
        match machine.filter(|machine| feasible.fits(machine, [topic])) {
            Some(_) => plan.nodes.push(vec![topic]),
            None => plan.unplaced.push(topic),
        }
    }
    plan
}

/// As many pairs of these topics as there can be, for nodes from `node` on; and the topics that are left.
pub(super) fn matched(
    feasible: &mut FeasibilityOracle<'_>,
    topics: &[TopicId],
    node: usize,
) -> (Vec<Vec<TopicId>>, Vec<TopicId>) {
    let Some(&machine) = feasible.problem().machines.nth(node) else {
        return (Vec::new(), topics.to_vec());
    };
    let mut graph: UnGraph<TopicId, ()> = UnGraph::default();
    let places: Vec<_> = topics.iter().map(|&topic| graph.add_node(topic)).collect();
    for (at, &one) in topics.iter().enumerate() {
        for (other_at, &other) in topics.iter().enumerate().skip(at + 1) {
            if feasible.fits(&machine, [one, other]) {
                graph.add_edge(places[at], places[other_at], ());
            }
        }
    }
    let matching = maximum_matching(&graph);
    let mut pairs: Vec<Vec<TopicId>> =
        matching.edges().map(|(one, other)| vec![graph[one], graph[other]]).collect();
    // The same plan on every machine.
    pairs.iter_mut().for_each(|pair| pair.sort_unstable());
    pairs.sort_unstable();
    while feasible.problem().machines.nth((node + pairs.len()).saturating_sub(1)).is_none() {
        pairs.pop();
    }
    let is_left = |topic: &TopicId| !pairs.iter().any(|pair| pair.contains(topic));
    let left = topics.iter().copied().filter(is_left).collect();
    (pairs, left)
}

#[cfg(test)]
mod tests {
    use super::super::Machines;
    use super::super::samples::{MACHINE, problem, topics};
    use super::*;

    /// The most pairs that can be made of these, by trying all.
    fn most(feasible: &mut FeasibilityOracle<'_>, topics: &[TopicId]) -> usize {
        let Some((&first, rest)) = topics.split_first() else { return 0 };
        let mut best = most(feasible, rest);
        for place in 0..rest.len() {
            if feasible.fits(&MACHINE, [first, rest[place]]) {
                let others: Vec<TopicId> =
                    rest.iter().copied().filter(|topic| *topic != rest[place]).collect();
                best = best.max(1 + most(feasible, &others));
            }
        }
        best
    }

    #[test]
    fn no_plan_has_more_pairs() {
        for seed in 0..20 {
            let (topics, machines) = (topics(9, seed), Machines::Any(MACHINE));
            let problem = problem(&topics, &machines, 2);
            let mut feasible = FeasibilityOracle::new(problem);
            let plan = pairs(&mut feasible);
            let all = feasible.all();
            let wanted = most(&mut feasible, &all);
            assert_eq!(plan.nodes.iter().filter(|node| node.len() == 2).count(), wanted);
            assert_eq!(plan.used() + plan.unplaced.len(), 9 - wanted);
        }
    }
}
