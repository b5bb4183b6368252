//! Largest feasible set: takes any feasible set of k topics as long as there is one, then of k - 1, and so on; pairs
//! by matching.
//! Source: papers/topic-placement.txt, §V-C, Alg. 2 (LFS_k).
//! Inputs: topics, machines, model, k, questions at most. Outputs: topics by node. O(n^k) questions at worst.
//! Deviations: which of several feasible sets is taken is the paper's to leave open: here the first one by latency
//! alone, so that slow topics are placed first; sets that a smaller infeasible one is part of are not asked about
//! (Eq. 6); the search ends after a number of questions (docs/algorithms-place.md#largest-set).
//! Limits: the number of questions.

use super::pairs::matched;
use super::{FeasibilityOracle, Plan, TopicId};

/// Places the topics; `None` where that takes more than so many questions.
pub fn largest_set(feasible: &mut FeasibilityOracle<'_>, questions_max: u64) -> Option<Plan> {
    let order = feasible.by_latency_alone();
    let together_max = feasible.problem().together_max;
    place(feasible, order, together_max, questions_max)
}

/// The same for some topics, in sets of at most `size`.
pub(super) fn place(
    feasible: &mut FeasibilityOracle<'_>,
    mut left: Vec<TopicId>,
    mut size: usize,
    questions_max: u64,
) -> Option<Plan> {
    let mut plan = Plan::default();
    while size > 2 {
        // What comes before the last set found is known to be infeasible on the same kind of machine.
        let mut from = 0;
        while let Some((set, first)) =
            first_set(feasible, &left, size, from, plan.nodes.len(), questions_max)?
        {
            left.retain(|topic| !set.contains(topic));
            plan.nodes.push(set);
            let is_any = matches!(feasible.problem().machines, super::Machines::Any(_));
            from = if is_any { first } else { 0 };
        }
        size -= 1;
    }
    if size == 2 {
        let (pairs, alone) = matched(feasible, &left, plan.nodes.len());
        plan.nodes.extend(pairs);
        left = alone;
    }
    for topic in left {
        let machine = feasible.problem().machines.nth(plan.nodes.len()).copied();
        match machine.filter(|machine| feasible.fits(machine, [topic])) {
            Some(_) => plan.nodes.push(vec![topic]),
            None => plan.unplaced.push(topic),
        }
    }
    Some(plan)
}

/// The first feasible set of so many of these topics whose first member stands at `from` or later, and where that
/// is; `None` where the questions do not suffice.
#[expect(clippy::option_option, reason = "the outer one is the budget, the inner one the answer")]
pub(super) fn first_set(
    feasible: &mut FeasibilityOracle<'_>,
    topics: &[TopicId],
    size: usize,
    from: usize,
    node: usize,
    questions_max: u64,
) -> Option<Option<(Vec<TopicId>, usize)>> {
    let Some(&machine) = feasible.problem().machines.nth(node) else { return Some(None) };
    // Places of the members, rising: the last one moves on, and when it is at the end the one before it does.
    let mut places = vec![from];
    let mut set = Vec::new();
    while let Some(&last) = places.last() {
        let needed = size - places.len();
        if last + needed >= topics.len() {
            places.pop();
            set.truncate(places.len().saturating_sub(1));
            if let Some(previous) = places.last_mut() {
                *previous += 1;
            }
            continue;
        }
        if feasible.questions() >= questions_max {
            return None;
        }
        set.truncate(places.len() - 1);
        set.push(topics[last]);
        if !feasible.fits(&machine, set.iter().copied()) {
            *places.last_mut().expect("it has a last one") += 1;
        } else if needed == 0 {
            return Some(Some((set, places[0])));
        } else {
            places.push(last + 1);
        }
    }
    Some(None)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{MACHINE, problem, topics};
    use super::super::{Machines, first_fit};
    use super::*;

    /// Every set of so many, in order, the plain way.
    fn any_set(
        feasible: &mut FeasibilityOracle<'_>,
        topics: &[TopicId],
        size: usize,
        set: &mut Vec<TopicId>,
    ) -> bool {
        if set.len() == size {
            return feasible.fits(&MACHINE, set.iter().copied());
        }
        for place in 0..topics.len() {
            set.push(topics[place]);
            if any_set(feasible, &topics[place + 1..], size, set) {
                return true;
            }
            set.pop();
        }
        false
    }

    #[test]
    fn the_first_feasible_set_is_found_or_there_is_none() {
        for seed in 0..30 {
            let (topics, machines) = (topics(12, seed), Machines::Any(MACHINE));
            let mut feasible = FeasibilityOracle::new(problem(&topics, &machines, 6));
            let all = feasible.by_latency_alone();
            for size in 1..6 {
                let mut wanted = Vec::new();
                let is_there = any_set(&mut feasible, &all, size, &mut wanted);
                let found = first_set(&mut feasible, &all, size, 0, 0, u64::MAX).unwrap();
                assert_eq!(found.map(|(set, _)| set), is_there.then_some(wanted), "{seed} {size}");
            }
        }
    }

    #[test]
    fn every_topic_has_one_node_and_keeps_its_bound() {
        for seed in 0..10 {
            let (topics, machines) = (topics(24, seed), Machines::Any(MACHINE));
            let mut feasible = FeasibilityOracle::new(problem(&topics, &machines, 4));
            let plan = largest_set(&mut feasible, u64::MAX).unwrap();
            let mut placed: Vec<TopicId> =
                plan.nodes.iter().flatten().chain(&plan.unplaced).copied().collect();
            placed.sort_unstable();
            assert_eq!(placed, feasible.all());
            for node in &plan.nodes {
                assert!(feasible.fits(&MACHINE, node.iter().copied()), "{node:?}");
            }
            let order = feasible.by_latency_alone();
            let plain = first_fit(&mut feasible, &order);
            assert_eq!(plan.unplaced.len(), plain.unplaced.len());
        }
    }

    #[test]
    fn a_search_that_takes_too_long_is_given_up() {
        let (topics, machines) = (topics(40, 1), Machines::Any(MACHINE));
        let mut feasible = FeasibilityOracle::new(problem(&topics, &machines, 6));
        assert_eq!(largest_set(&mut feasible, 100), None);
    }
}
