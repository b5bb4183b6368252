//! Loads that drift: a plan is repaired each time, beside a plan made anew each time.

use tidegate_cluster::place::{FeasibilityOracle, Machines, Plan, repair};

use super::topics::{DRIFTING, KINDS, MACHINE};
use super::{ffd, problem};
use crate::report::{Findings, figure};
use crate::sim::random::Random;

const TOPICS: usize = 300;
const EPOCHS: usize = 20;
/// The part of the topics whose rate changes in an epoch, and by how much.
const CHANGED: f64 = 0.1;
const FACTOR: std::ops::Range<f64> = 0.6..1.5;
/// Moves that an epoch may cost.
const MOVES_MAX: usize = 60;

pub(super) fn run(seed: u64) -> Findings {
    let kind = KINDS.into_iter().find(|kind| kind.name == DRIFTING).expect("it is a kind");
    let mut random = Random::new(seed, 77);
    let mut topics = kind.draw(TOPICS, &mut random);
    let first = topics.clone();
    let machines = Machines::Any(MACHINE);
    let mut plan = ffd(&mut FeasibilityOracle::new(problem(&topics, &machines, kind.together_max)));
    let mut anew = plan.clone();
    let (mut moves, mut moves_anew, mut nodes, mut nodes_anew, mut broken) = (0, 0, 0, 0, 0);
    for _ in 0..EPOCHS {
        for (topic, first) in topics.iter_mut().zip(&first) {
            if random.happens(CHANGED) {
                let factor = FACTOR.start + (FACTOR.end - FACTOR.start) * random.share();
                // Around what it was at first: a drift without end would change the problem.
                topic.rate = first.rate * factor;
            }
        }
        let mut feasible = FeasibilityOracle::new(problem(&topics, &machines, kind.together_max));
        plan.unplaced.clear();
        let found = repair(&mut feasible, &plan, MOVES_MAX, |_| true);
        moves += found.moves.iter().filter(|change| change.from.is_some()).count();
        nodes += found.plan.used();
        broken += found.broken.len();
        plan = found.plan;
        let next = ffd(&mut feasible);
        moves_anew += relabelled(&anew, &next);
        nodes_anew += next.used();
        anew = next;
    }
    let each = |sum: usize| sum as f64 / EPOCHS as f64;
    let lines = vec![
        String::new(),
        format!(
            "{TOPICS} topics ({DRIFTING}), {EPOCHS} epochs, a tenth of the rates changed in each by 0.6 to 1.5"
        ),
        format!("{:<16}{:>8}{:>8}{:>18}", "", "moves", "nodes", "nodes that miss"),
        format!("{:<16}{:>8.1}{:>8.1}{:>18}", "repair", each(moves), each(nodes), broken),
        format!("{:<16}{:>8.1}{:>8.1}{:>18}", "ffd anew", each(moves_anew), each(nodes_anew), 0),
    ];
    let figures = vec![
        figure("place_drift_moves_of_anew", each(moves) / each(moves_anew).max(1e-9), "1"),
        figure("place_drift_nodes_of_anew", each(nodes) / each(nodes_anew).max(1e-9), "1"),
        figure("place_drift_broken", broken as f64, "nodes"),
    ];
    (lines, figures).into()
}

/// Topics that change their node, nodes being named so that as few as possible do: each new node takes the name
/// of the old one with which it shares the most, the largest shares first.
fn relabelled(old: &Plan, new: &Plan) -> usize {
    let topics = old.nodes.iter().chain(&new.nodes).flatten().map(|topic| topic.index() + 1).max();
    let of = old.node_of(topics.unwrap_or_default());
    let mut shares: Vec<(usize, usize, usize)> = Vec::new();
    for (node, hosted) in new.nodes.iter().enumerate() {
        let mut counts = std::collections::BTreeMap::new();
        for topic in hosted {
            if let Some(before) = of[topic.index()] {
                *counts.entry(before).or_insert(0) += 1;
            }
        }
        shares.extend(counts.into_iter().map(|(before, count)| (count, node, before)));
    }
    shares.sort_by(|a, b| b.cmp(a));
    let (mut taken_new, mut taken_old) =
        (vec![false; new.nodes.len()], vec![false; old.nodes.len()]);
    let mut kept = 0;
    for (count, node, before) in shares {
        if !taken_new[node] && !taken_old[before] {
            (taken_new[node], taken_old[before]) = (true, true);
            kept += count;
        }
    }
    new.nodes.iter().map(Vec::len).sum::<usize>() - kept
}

#[cfg(test)]
mod tests {
    use tidegate_cluster::place::TopicId;

    use super::*;

    #[test]
    fn the_same_nodes_under_other_names_are_no_moves() {
        let plan = |nodes: &[&[u32]]| Plan {
            nodes: nodes.iter().map(|node| node.iter().map(|&id| TopicId(id)).collect()).collect(),
            unplaced: vec![],
        };
        let old = plan(&[&[0, 1, 2], &[3, 4]]);
        assert_eq!(relabelled(&old, &plan(&[&[4, 3], &[2, 1, 0]])), 0);
        assert_eq!(relabelled(&old, &plan(&[&[0, 1], &[2, 3, 4]])), 1);
    }
}
