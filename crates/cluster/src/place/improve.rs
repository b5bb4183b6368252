//! Improves on first fit: several orders, then a search that takes a few nodes apart and fits their topics in again.
//! Source: own. Orders as in bin packing with several resources; the search is `search.rs`; both end when the lower
//! bound is reached.
//! Inputs: topics, machines, model, k, a seed, questions at most. Outputs: topics by node.
//! Deviations: none.
//! Limits: the number of questions.

use super::bound::{LowerBound, lower_bound};
use super::first_fit::{Packing, first_fit};
use super::search::Search;
use super::{FeasibilityOracle, Machines, Plan, TopicId};

/// Of the questions, the part for orders.
const ORDERS_PART: u64 = 4;

/// The best plan found; never more nodes than first fit decreasing needs.
pub fn improve(feasible: &mut FeasibilityOracle<'_>, seed: u64, questions_max: u64) -> Plan {
    let start = feasible.questions();
    let order = feasible.by_latency_alone();
    let mut best = first_fit(feasible, &order);
    let bound = lower_bound(feasible);
    for order in orders(feasible, &bound) {
        if feasible.questions() - start >= questions_max / ORDERS_PART
            || best.used() <= bound.nodes && best.unplaced.is_empty()
        {
            break;
        }
        let plan = first_fit(feasible, &order);
        if is_better(feasible, &plan, &best) {
            best = plan;
        }
    }
    best.nodes = Search::new(feasible, &bound, &best, seed).run(start + questions_max);
    if matches!(feasible.problem().machines, Machines::Any(_)) {
        best.nodes.retain(|node| !node.is_empty());
        return best;
    }
    // Machines that the search has emptied may host what found none before.
    let mut packing = Packing::default();
    best.nodes.into_iter().for_each(|node| packing.open(feasible, node));
    best.unplaced.into_iter().for_each(|topic| packing.place(feasible, topic));
    packing.plan
}

/// Orders that fill nodes in other ways: by load, by how much of its bound a topic needs, by bound.
fn orders(feasible: &FeasibilityOracle<'_>, lower: &LowerBound) -> Vec<Vec<TopicId>> {
    let topics = feasible.problem().topics;
    let bound = |topic: TopicId| topics[topic.index()].bound.as_secs_f64();
    let load = |topic: TopicId| topics[topic.index()].load();
    let work = |topic: TopicId| topics[topic.index()].work.as_secs_f64();
    let by = |key: &dyn Fn(TopicId) -> f64| {
        let mut order = feasible.all();
        order.sort_by(|a, b| key(*b).total_cmp(&key(*a)).then(a.cmp(b)));
        order
    };
    let together = |topic: TopicId| lower.together[topic.index()] as f64;
    vec![
        by(&|topic| lower.weights[topic.index()]),
        by(&|topic| load(topic) - 1e6 * together(topic)),
        by(&load),
        by(&|topic| load(topic) / bound(topic)),
        by(&|topic| work(topic) / bound(topic)),
        by(&|topic| load(topic) - 1e6 * bound(topic)),
        by(&|topic| load(topic) + 1e6 * bound(topic)),
    ]
}

/// Fewer unplaced topics, then fewer nodes, then fuller ones.
fn is_better(feasible: &FeasibilityOracle<'_>, plan: &Plan, than: &Plan) -> bool {
    let topics = feasible.problem().topics;
    let fullness = |plan: &Plan| -> f64 {
        let load = |node: &Vec<TopicId>| -> f64 {
            node.iter().map(|topic| topics[topic.index()].load()).sum()
        };
        plan.nodes.iter().map(|node| load(node).powi(2)).sum()
    };
    let rank = |plan: &Plan| (plan.unplaced.len(), plan.used());
    match rank(plan).cmp(&rank(than)) {
        std::cmp::Ordering::Less => true,
        std::cmp::Ordering::Greater => false,
        std::cmp::Ordering::Equal => fullness(plan) > fullness(than) + 1e-12,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Machines;
    use super::super::samples::{MACHINE, problem, topics};
    use super::*;

    #[test]
    fn it_never_needs_more_nodes_than_first_fit_and_often_fewer() {
        let mut saved = 0;
        for seed in 0..8 {
            let (topics, machines) = (topics(60, seed), Machines::Any(MACHINE));
            let problem = problem(&topics, &machines, 6);
            let mut feasible = FeasibilityOracle::new(problem);
            let order = feasible.by_latency_alone();
            let plain = first_fit(&mut feasible, &order);
            let plan = improve(&mut feasible, seed, 30_000);
            assert!(plan.used() <= plain.used());
            saved += plain.used() - plan.used();
            let mut placed: Vec<TopicId> =
                plan.nodes.iter().flatten().chain(&plan.unplaced).copied().collect();
            placed.sort_unstable();
            assert_eq!(placed, feasible.all());
            for node in &plan.nodes {
                assert!(node.is_empty() || feasible.fits(&MACHINE, node.iter().copied()));
            }
            assert_eq!(
                plan,
                improve(&mut FeasibilityOracle::new(problem), seed, 30_000),
                "repeatable"
            );
        }
        assert!(saved >= 2, "{saved} nodes saved in 8 plans");
    }
}
