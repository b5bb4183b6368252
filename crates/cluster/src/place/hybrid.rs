//! The hybrid: any feasible set of k' topics opens a node, and first fit fills it up to k; what is left goes by
//! largest sets of k' - 1.
//! Source: papers/topic-placement.txt, §V-C, Alg. 3 (LFS_k' + FFD_k).
//! Inputs: topics, machines, model, k, k', questions at most. Outputs: topics by node. O(n^k' + n^2 / k') questions.
//! Deviations: as those of `largest_set` (docs/algorithms-place.md#hybrid).
//! Limits: the number of questions.

use super::largest_set::{first_set, place};
use super::{FeasibilityOracle, Plan, TopicId};

/// Places the topics; `None` where that takes more than so many questions. `at_once` is k', at least 1: with 1 it
/// is first fit decreasing, with k it is the largest feasible set.
pub fn hybrid(
    feasible: &mut FeasibilityOracle<'_>,
    at_once: usize,
    questions_max: u64,
) -> Option<Plan> {
    let mut left = feasible.by_latency_alone();
    let mut plan = Plan::default();
    let mut from = 0;
    while let Some((mut set, first)) =
        first_set(feasible, &left, at_once.max(1), from, plan.nodes.len(), questions_max)?
    {
        let early = left[..first].to_vec();
        left.retain(|topic| !set.contains(topic));
        fill(feasible, &mut set, &mut left, plan.nodes.len());
        plan.nodes.push(set);
        let is_any = matches!(feasible.problem().machines, super::Machines::Any(_));
        // No set begins with one that stands before the last one's first, as far as those are still left.
        let known = left.iter().take_while(|topic| early.contains(topic)).count();
        from = if is_any { known } else { 0 };
    }
    let rest = place(feasible, left, at_once.saturating_sub(1), questions_max)?;
    plan.nodes.extend(rest.nodes);
    plan.unplaced.extend(rest.unplaced);
    Some(plan)
}

/// Adds to a node all that fits it, in order.
fn fill(
    feasible: &mut FeasibilityOracle<'_>,
    set: &mut Vec<TopicId>,
    left: &mut Vec<TopicId>,
    node: usize,
) {
    let Some(&machine) = feasible.problem().machines.nth(node) else { return };
    left.retain(|&topic| {
        let fits = feasible.fits(&machine, set.iter().copied().chain([topic]));
        if fits {
            set.push(topic);
        }
        !fits
    });
}

#[cfg(test)]
mod tests {
    use super::super::samples::{MACHINE, problem, topics};
    use super::super::{Machines, first_fit, largest_set};
    use super::*;

    #[test]
    fn its_ends_are_the_other_two() {
        for seed in 0..10 {
            let (topics, machines) = (topics(20, seed), Machines::Any(MACHINE));
            let problem = problem(&topics, &machines, 4);
            let mut feasible = FeasibilityOracle::new(problem);
            let order = feasible.by_latency_alone();
            let one = hybrid(&mut feasible, 1, u64::MAX).unwrap();
            assert_eq!(one.nodes, first_fit(&mut feasible, &order).nodes, "k' = 1, seed {seed}");
            let all = hybrid(&mut feasible, 4, u64::MAX).unwrap();
            assert_eq!(all, largest_set(&mut feasible, u64::MAX).unwrap(), "k' = k, seed {seed}");
            for at_once in 2..4 {
                let plan = hybrid(&mut feasible, at_once, u64::MAX).unwrap();
                for node in &plan.nodes {
                    assert!(feasible.fits(&MACHINE, node.iter().copied()), "{node:?}");
                }
                let placed = plan.nodes.iter().map(Vec::len).sum::<usize>();
                assert_eq!(placed + plan.unplaced.len(), 20);
            }
        }
    }
}
