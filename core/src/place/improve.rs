//! Improves on first fit: several orders, then a search that takes a few nodes apart and fits their topics in again.
//! Source: own. Orders as in bin packing with several resources; the search is the ruin and recreate of Schrimpf et
//! al. (2000) with the objective of Falkenauer (1996): of two plans with as many nodes, the one with fuller and
//! emptier nodes is better, for an almost empty node is almost gone.
//! Inputs: topics, machines, model, k, a seed, questions at most. Outputs: topics by node.
//! Deviations: none.
//! Limits: the number of questions.

use super::first_fit::{Packing, first_fit};
use super::{Feasible, Plan, TopicId};
use crate::random::SplitMix;

/// Of the questions, the part for orders.
const ORDERS_PART: u64 = 4;
/// Nodes that are taken apart at once, at most.
const RUINED_MAX: usize = 6;

/// The best plan found; never more nodes than first fit decreasing needs.
pub fn improve(feasible: &mut Feasible<'_>, seed: u64, questions_max: u64) -> Plan {
    let mut random = SplitMix(seed);
    let start = feasible.questions();
    let order = feasible.by_latency_alone();
    let mut best = first_fit(feasible, &order);
    for order in orders(feasible) {
        if feasible.questions() - start >= questions_max / ORDERS_PART {
            break;
        }
        let plan = first_fit(feasible, &order);
        if is_better(feasible, &plan, &best) {
            best = plan;
        }
    }
    while feasible.questions() - start < questions_max && best.used() > 1 {
        let plan = ruin_and_recreate(feasible, &best, &mut random);
        if !is_better(feasible, &best, &plan) {
            best = plan;
        }
    }
    best
}

/// Orders that fill nodes in other ways: by load, by how much of its bound a topic needs, by bound.
fn orders(feasible: &Feasible<'_>) -> Vec<Vec<TopicId>> {
    let topics = feasible.problem().topics;
    let bound = |topic: TopicId| topics[topic.index()].bound.as_secs_f64();
    let load = |topic: TopicId| topics[topic.index()].load();
    let work = |topic: TopicId| topics[topic.index()].work.as_secs_f64();
    let by = |key: &dyn Fn(TopicId) -> f64| {
        let mut order = feasible.all();
        order.sort_by(|a, b| key(*b).total_cmp(&key(*a)).then(a.cmp(b)));
        order
    };
    vec![
        by(&load),
        by(&|topic| load(topic) / bound(topic)),
        by(&|topic| work(topic) / bound(topic)),
        by(&|topic| load(topic) - 1e6 * bound(topic)),
        by(&|topic| load(topic) + 1e6 * bound(topic)),
    ]
}

/// Fewer unplaced topics, then fewer nodes, then fuller ones.
fn is_better(feasible: &Feasible<'_>, plan: &Plan, than: &Plan) -> bool {
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

/// Takes the lightest node and some others apart and places their topics again, the largest first.
fn ruin_and_recreate(feasible: &mut Feasible<'_>, plan: &Plan, random: &mut SplitMix) -> Plan {
    let topics = feasible.problem().topics;
    let load = |topic: TopicId| topics[topic.index()].load();
    let total = |node: &[TopicId]| -> f64 { node.iter().map(|topic| load(*topic)).sum() };
    let nodes = plan.nodes.len();
    let lightest =
        (0..nodes).min_by(|&a, &b| total(&plan.nodes[a]).total_cmp(&total(&plan.nodes[b])));
    let mut ruined: Vec<usize> = lightest.into_iter().collect();
    for _ in 0..1 + random.below(RUINED_MAX) {
        ruined.push(random.below(nodes));
    }
    let mut packing = Packing::default();
    let mut free: Vec<TopicId> = plan.unplaced.clone();
    for (node, hosted) in plan.nodes.iter().enumerate() {
        if ruined.contains(&node) {
            free.extend(hosted);
        } else {
            packing.open(feasible, hosted.clone());
        }
    }
    // Large ones first, but not always in the same order.
    let shaken: Vec<f64> =
        free.iter().map(|&topic| load(topic) * (0.7 + 0.6 * random.share())).collect();
    let mut order: Vec<usize> = (0..free.len()).collect();
    order.sort_by(|&a, &b| shaken[b].total_cmp(&shaken[a]));
    for place in order {
        packing.place(feasible, free[place]);
    }
    packing.plan
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
            let mut feasible = Feasible::new(problem);
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
            assert_eq!(plan, improve(&mut Feasible::new(problem), seed, 30_000), "repeatable");
        }
        assert!(saved >= 2, "{saved} nodes saved in 8 plans");
    }
}
