//! Takes a few nodes apart and fits their topics in again, as long as that makes full nodes fuller and empty ones
//! emptier.
//! Source: own; the ruin and recreate of Schrimpf et al. (2000) with the objective of Falkenauer (1996): of two plans
//! with as many nodes, the one with fuller and emptier nodes is better, for an almost empty node is almost gone.
//! Full is what the weights of the lower bound call full.
//! Inputs: a plan, weights, a seed, questions at most. Outputs: a plan with no more nodes. Only the nodes taken apart
//! are asked about.
//! Deviations: none.
//! Limits: the number of questions.

use tidegate_types::random::SplitMix;

use super::bound::LowerBound;
use super::{FeasibilityOracle, Plan, TopicId};

/// Nodes that are taken apart at once, at most.
const RUINED_MAX: usize = 5;
/// Of this many nodes drawn, the emptiest is taken apart.
const DRAWN: usize = 4;
/// What an exchange may make the plan worse at first, in squared parts of a node; it falls to nothing.
const WORSE_MAX: f64 = 0.02;
/// Rounds without any gain, for each node, after which the search ends.
const PATIENCE: usize = 4000;

/// A search over plans.
pub(super) struct Search<'s, 'a> {
    feasible: &'s mut FeasibilityOracle<'a>,
    bound: &'s LowerBound,
    random: SplitMix,
    nodes: Vec<Vec<TopicId>>,
    /// What each node's topics weigh.
    full: Vec<f64>,
    /// Nodes that host anything.
    used: Vec<usize>,
    free: Vec<(f64, TopicId)>,
    trial: Vec<Vec<TopicId>>,
}

impl<'s, 'a> Search<'s, 'a> {
    pub(super) fn new(
        feasible: &'s mut FeasibilityOracle<'a>,
        bound: &'s LowerBound,
        plan: &Plan,
        seed: u64,
    ) -> Self {
        let nodes = plan.nodes.clone();
        let full = nodes.iter().map(|node| weight(bound, node)).collect();
        let used = (0..nodes.len()).filter(|&node| !nodes[node].is_empty()).collect();
        let (free, trial) = (Vec::new(), Vec::new());
        Search { feasible, bound, random: SplitMix(seed), nodes, full, used, free, trial }
    }

    /// The nodes of the best plan found, until so many questions were asked in all.
    pub(super) fn run(&mut self, questions_max: u64) -> Vec<Vec<TopicId>> {
        let start = self.feasible.questions();
        let budget = questions_max.saturating_sub(start).max(1) as f64;
        let mut best = (self.used.len(), self.nodes.clone());
        let mut idle = 0;
        while self.feasible.questions() < questions_max
            && self.used.len() > self.bound.nodes.max(1)
            && idle < PATIENCE * self.used.len()
        {
            let spent = (self.feasible.questions() - start) as f64 / budget;
            idle = if self.exchange(WORSE_MAX * (1.0 - spent)) { 0 } else { idle + 1 };
            if self.used.len() < best.0 {
                best = (self.used.len(), self.nodes.clone());
            }
        }
        best.1
    }

    /// Takes some nodes apart and fits their topics in again; whether that was any better.
    fn exchange(&mut self, worse: f64) -> bool {
        let ruined = self.drawn();
        self.free.clear();
        let mut before = 0.0;
        for &node in &ruined {
            before += self.full[node] * self.full[node];
            for &topic in &self.nodes[node] {
                self.free.push((self.bound.weights[topic.index()], topic));
            }
        }
        // Heavy ones first, but not always in the same order.
        let shake = 0.6 * self.random.share();
        for (weight, _) in &mut self.free {
            *weight *= 1.0 + shake * (self.random.share() - 0.5);
        }
        self.free.sort_by(|a, b| b.0.total_cmp(&a.0));
        if !self.refill(&ruined) {
            return false;
        }
        let after: f64 = self.trial.iter().map(|node| weight(self.bound, node).powi(2)).sum();
        if after < before - worse * self.random.share() {
            return false;
        }
        for (&node, topics) in ruined.iter().zip(&mut self.trial) {
            std::mem::swap(&mut self.nodes[node], topics);
            self.full[node] = weight(self.bound, &self.nodes[node]);
        }
        let nodes = &self.nodes;
        self.used.retain(|&node| !nodes[node].is_empty());
        after > before + 1e-9
    }

    /// An emptyish node and one to four others.
    fn drawn(&mut self) -> Vec<usize> {
        let one = |random: &mut SplitMix| self.used[random.below(self.used.len())];
        let mut ruined = vec![one(&mut self.random)];
        for _ in 1..DRAWN {
            let other = one(&mut self.random);
            if self.full[other] < self.full[ruined[0]] {
                ruined[0] = other;
            }
        }
        for _ in 0..1 + self.random.below(RUINED_MAX - 1) {
            let other = one(&mut self.random);
            if !ruined.contains(&other) {
                ruined.push(other);
            }
        }
        ruined
    }

    /// First fit of the free topics into these nodes, in the trial; whether all found a place.
    fn refill(&mut self, ruined: &[usize]) -> bool {
        self.trial.resize_with(ruined.len(), Vec::new);
        self.trial.iter_mut().for_each(Vec::clear);
        // The emptiest one is filled last.
        let order = ruined.len();
        for &(_, topic) in &self.free {
            let mut is_placed = false;
            for place in (1..order).chain([0]) {
                let Some(&machine) = self.feasible.problem().machines.nth(ruined[place]) else {
                    continue;
                };
                let node = &mut self.trial[place];
                let bears = self.bound.together[topic.index()];
                if node.len() + 1 > bears
                    || node.iter().any(|other| self.bound.together[other.index()] <= node.len())
                {
                    continue;
                }
                if self.feasible.fits(&machine, node.iter().copied().chain([topic])) {
                    node.push(topic);
                    is_placed = true;
                    break;
                }
            }
            if !is_placed {
                return false;
            }
        }
        true
    }
}

fn weight(bound: &LowerBound, node: &[TopicId]) -> f64 {
    node.iter().map(|topic| bound.weights[topic.index()]).sum()
}
