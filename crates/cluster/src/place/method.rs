//! The ways to place topics, by name.
//! Source: papers/topic-placement.txt, §V-C, for the names; own, for `improve` and `repair`.
//! Inputs: a method, topics, machines, model, questions at most. Outputs: a plan, or that the method gave up.
//! Deviations: none.
//! Limits: the number of questions.

use super::{FeasibilityOracle, Plan, first_fit, hybrid, improve, largest_set, pairs};

/// How a plan is made anew; `repair` mends one instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementMethod {
    /// First fit decreasing (Alg. 1).
    FirstFit,
    /// The largest feasible set, again and again (Alg. 2).
    LargestSet,
    /// Largest sets of so many (k'), filled up by first fit (Alg. 3).
    Hybrid(usize),
    /// Two topics a node at most, by matching (Theorem 1).
    Pairs,
    /// Several orders and a search; ours.
    Improve,
}

impl PlacementMethod {
    /// Makes a plan; `None` where that takes more than so many questions. The seed is that of `improve`, which ends
    /// with the questions and always has a plan.
    pub fn plan(
        self,
        feasible: &mut FeasibilityOracle<'_>,
        seed: u64,
        questions_max: u64,
    ) -> Option<Plan> {
        let most = feasible.questions().saturating_add(questions_max);
        match self {
            PlacementMethod::FirstFit => {
                let order = feasible.by_latency_alone();
                Some(first_fit(feasible, &order))
            }
            PlacementMethod::LargestSet => largest_set(feasible, most),
            PlacementMethod::Hybrid(at_once) => hybrid(feasible, at_once, most),
            PlacementMethod::Pairs => Some(pairs(feasible)),
            PlacementMethod::Improve => Some(improve(feasible, seed, questions_max)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{MACHINE, problem, topics};
    use super::super::{FeasibilityOracle, Machines};
    use super::*;

    #[test]
    fn every_method_places_every_topic_and_the_slow_ones_give_up() {
        let (topics, machines) = (topics(14, 3), Machines::Any(MACHINE));
        let problem = problem(&topics, &machines, 4);
        let all = [
            PlacementMethod::FirstFit,
            PlacementMethod::LargestSet,
            PlacementMethod::Hybrid(2),
            PlacementMethod::Pairs,
            PlacementMethod::Improve,
        ];
        for method in all {
            let mut feasible = FeasibilityOracle::new(problem);
            let plan = method.plan(&mut feasible, 1, 100_000).unwrap();
            let placed = plan.nodes.iter().map(Vec::len).sum::<usize>() + plan.unplaced.len();
            assert_eq!(placed, 14, "{method:?}");
            for node in plan.nodes.iter().filter(|node| !node.is_empty()) {
                assert!(feasible.fits(&MACHINE, node.iter().copied()), "{method:?}");
            }
        }
        assert_eq!(
            PlacementMethod::LargestSet.plan(&mut FeasibilityOracle::new(problem), 1, 3),
            None
        );
    }
}
