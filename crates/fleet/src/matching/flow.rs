//! Serves every class as well as can be, the most urgent first, by the shortest ways in sum.
//! Source: own; the optimum of papers/janus.txt, §IV-B.2, Eq. 15-21, as a min-cost flow (Assumption 1
//! divides traffic, so it is no integer program).
//! Inputs: wanted bytes/s[node][class], spare bytes/s[node], candidate peers and their distance. Outputs:
//! redirections in bytes/s. O(ways log nodes) an augmenting path at worst; a dozen nodes as a rule.
//! Deviations: distance is least for what is served, and does not decide whom to serve; redirections
//! are not counted as a cost, for that problem is NP-hard (docs/algorithms-fleet.md#flow).
//! Limits: NODES_MAX, CANDIDATES_MAX, CLASSES_MAX.
//!
//! Successive shortest paths: each search is Dijkstra's, with potentials that make all lengths
//! positive, and ends at the first provider with something left. A search that finds none leaves what it
//! reached *dead*: nothing will ever lead out of it. So all searches that fail cost O(ways) together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Matching;
use super::baselines::pmrfs::by_urgency;
use super::graph::{AugmentingPath, Graph, NONE};
use crate::{Amount, MatchingProblem, Redirection};

/// How the fleet asks for it.
pub(crate) const ENTRY: Matching = |problem, _| flow(problem);

fn flow(problem: &MatchingProblem<'_>) -> Vec<Redirection> {
    let mut state = FlowSearch::new(problem);
    let mut served = vec![Amount::ZERO; problem.wanted().len()];
    for request in by_urgency(problem) {
        let receiver = problem.node_of(request);
        let mut wanted = problem.wanted()[request];
        while !wanted.is_zero() {
            let Some(provider) = state.find(receiver) else { break };
            let amount = state.push(receiver, provider, wanted);
            wanted -= amount;
            served[request] += amount;
        }
    }
    state.redirections(served)
}

struct FlowSearch<'p> {
    problem: &'p MatchingProblem<'p>,
    graph: Graph<'p>,
    /// What each provider has left.
    free: Vec<Amount>,
    /// What goes by each way.
    carried: Vec<Amount>,
    /// Length less potential is never negative on a way that can carry more.
    potential: Vec<i64>,
    /// Receivers and providers from which nothing is left to be found.
    dead: Vec<bool>,
    /// The least length found in this search, and the way by which it came.
    length: Vec<i64>,
    came_by: Vec<u32>,
    /// What this search has reached, in order; its heap.
    reached: Vec<u32>,
    heap: BinaryHeap<Reverse<(i64, u32)>>,
    path: AugmentingPath,
}

/// A node that this search has not reached.
const FAR: i64 = i64::MAX;

impl<'p> FlowSearch<'p> {
    fn new(problem: &'p MatchingProblem<'p>) -> Self {
        let nodes = problem.nodes();
        FlowSearch {
            problem,
            graph: Graph::new(problem),
            free: problem.spare().to_vec(),
            carried: vec![Amount::ZERO; problem.candidates().ways()],
            potential: vec![0; nodes],
            dead: vec![false; nodes],
            length: vec![FAR; nodes],
            came_by: vec![NONE; nodes],
            reached: Vec::new(),
            heap: BinaryHeap::new(),
            path: AugmentingPath::default(),
        }
    }

    /// The provider with something left at the end of the shortest path from a receiver.
    fn find(&mut self, receiver: usize) -> Option<usize> {
        if self.dead[receiver] {
            return None;
        }
        self.reach(receiver, 0, NONE);
        // The nearest end: all ends together are one more node, whose potential stays 0.
        let mut nearest: Option<(i64, usize)> = None;
        while let Some(Reverse((length, at))) = self.heap.pop() {
            let at = at as usize;
            if nearest.is_some_and(|(best, _)| length >= best) {
                break;
            }
            if length > self.length[at] {
                continue;
            }
            if self.is_provider(at) {
                let end = length + self.potential[at];
                let is_nearer = nearest.is_none_or(|(best, _)| end < best);
                if !self.free[at].is_zero() && is_nearer {
                    nearest = Some((end, at));
                }
                self.walk_back(at, length);
            } else {
                self.walk_on(at, length);
            }
        }
        self.heap.clear();
        let found = nearest.map(|(_, provider)| provider);
        let best = nearest.map(|(best, _)| best);
        for &node in &self.reached {
            let node = node as usize;
            match best {
                Some(best) => self.potential[node] += (self.length[node] - best).min(0),
                None => self.dead[node] = true,
            }
            self.length[node] = FAR;
        }
        self.reached.clear();
        found
    }

    fn is_provider(&self, node: usize) -> bool {
        !self.problem.spare()[node].is_zero()
    }

    fn reach(&mut self, node: usize, length: i64, by: u32) {
        if self.length[node] == FAR {
            self.reached.push(node as u32);
        }
        if length < self.length[node] {
            self.length[node] = length;
            self.came_by[node] = by;
            self.heap.push(Reverse((length, node as u32)));
        }
    }

    /// From a receiver to its providers.
    fn walk_on(&mut self, receiver: usize, length: i64) {
        for way in self.problem.candidates().of(receiver) {
            let provider = self.graph.provider(way);
            if self.graph.is_open(way) && !self.dead[provider] {
                let step = i64::from(self.graph.distance(way)) + self.potential[receiver]
                    - self.potential[provider];
                self.reach(provider, length + step, way as u32);
            }
        }
    }

    /// From a provider to those whose records it would give up.
    fn walk_back(&mut self, provider: usize, length: i64) {
        for place in 0..self.graph.incoming(provider).len() {
            let way = self.graph.incoming(provider)[place];
            if !self.carried[way as usize].is_zero() {
                let receiver = self.graph.receiver(way as usize);
                let step = self.potential[provider]
                    - self.potential[receiver]
                    - i64::from(self.graph.distance(way as usize));
                self.reach(receiver, length + step, way);
            }
        }
    }

    /// Moves as much as can be along the path that was found, `wanted` at most.
    fn push(&mut self, receiver: usize, provider: usize, wanted: Amount) -> Amount {
        self.path.trace(receiver, provider, &self.came_by, &self.graph);
        let amount = self.path.bottleneck(&self.carried).min(self.free[provider]).min(wanted);
        self.free[provider] -= amount;
        for &(more, less) in self.path.steps() {
            self.carried[more] += amount;
            if let Some(less) = less {
                self.carried[less] -= amount;
            }
        }
        amount
    }

    /// Which class goes by which way: the most urgent by the shortest.
    fn redirections(&self, mut served: Vec<Amount>) -> Vec<Redirection> {
        let classes = self.problem.classes();
        let mut redirections = Vec::new();
        let mut ways = Vec::new();
        for receiver in 0..self.problem.nodes() {
            let row = receiver * classes;
            ways.clear();
            let used = |way: &usize| !self.carried[*way].is_zero();
            ways.extend(self.problem.candidates().of(receiver).filter(used));
            ways.sort_unstable_by_key(|&way| (self.graph.distance(way), way));
            let mut class = 0;
            for &way in &ways {
                let mut left = self.carried[way];
                while !left.is_zero() {
                    let served = &mut served[row + class];
                    let amount = left.min(*served);
                    if amount.is_zero() {
                        class += 1;
                        continue;
                    }
                    *served -= amount;
                    left -= amount;
                    redirections.push(Redirection {
                        receiver: receiver as u32,
                        class: class as u8,
                        provider: self.graph.provider(way) as u32,
                        amount,
                    });
                }
            }
        }
        redirections
    }
}
