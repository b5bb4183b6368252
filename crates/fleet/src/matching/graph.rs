//! The ways between receivers and providers, walked from either end: what `augment` and `flow` share.
//! Source: own.
//! Inputs: a problem. Outputs: the ways to each provider; what goes by each way. O(ways).
//! Deviations: none.
//! Limits: NODES_MAX, CANDIDATES_MAX.

use crate::{Amount, Candidates, MatchingProblem};

/// No way: a search has not been there.
pub(super) const NONE: u32 = u32::MAX;

/// Ways from receivers to providers, by their number in the problem's candidates.
pub(super) struct Graph<'a> {
    candidates: &'a Candidates,
    /// The receiver at the beginning of each way.
    receivers: Vec<u32>,
    /// Where the row of each provider begins in `incoming`, and the end of the last.
    starts: Vec<u32>,
    /// The ways that end at each provider.
    incoming: Vec<u32>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(problem: &MatchingProblem<'a>) -> Self {
        let (candidates, nodes) = (problem.candidates(), problem.nodes());
        let wants = |node: usize| {
            let row = node * problem.classes();
            problem.wanted()[row..row + problem.classes()].iter().any(|amount| !amount.is_zero())
        };
        let mut receivers = vec![NONE; candidates.ways()];
        let mut starts = vec![0; nodes + 1];
        for node in (0..nodes).filter(|&node| wants(node)) {
            for way in candidates.of(node) {
                let provider = candidates.peer(way).place as usize;
                if !problem.spare()[provider].is_zero() {
                    receivers[way] = node as u32;
                    starts[provider + 1] += 1;
                }
            }
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut ends = starts.clone();
        let mut incoming = vec![0; starts[nodes] as usize];
        for way in (0..receivers.len()).filter(|&way| receivers[way] != NONE) {
            let end = &mut ends[candidates.peer(way).place as usize];
            incoming[*end as usize] = way as u32;
            *end += 1;
        }
        Graph { candidates, receivers, starts, incoming }
    }

    /// Whether it leads from a node that wants something to one that has something.
    pub(super) fn is_open(&self, way: usize) -> bool {
        self.receivers[way] != NONE
    }

    pub(super) fn receiver(&self, way: usize) -> usize {
        self.receivers[way] as usize
    }

    pub(super) fn provider(&self, way: usize) -> usize {
        self.candidates.peer(way).place as usize
    }

    pub(super) fn distance(&self, way: usize) -> u32 {
        self.candidates.peer(way).distance
    }

    /// The open ways of a receiver.
    pub(super) fn outgoing(&self, receiver: usize) -> impl Iterator<Item = usize> + '_ {
        self.candidates.of(receiver).filter(|&way| self.is_open(way))
    }

    /// The ways that end at a provider.
    pub(super) fn incoming(&self, provider: usize) -> &[u32] {
        &self.incoming[self.starts[provider] as usize..self.starts[provider + 1] as usize]
    }
}

/// A path by which a receiver gets more: from the provider with something left back to the receiver.
#[derive(Default)]
pub(super) struct AugmentingPath {
    /// The way that gets more at each step, and that of the same receiver that gets less; the last step
    /// has none of these, for there is the receiver that asks.
    steps: Vec<(usize, Option<usize>)>,
}

impl AugmentingPath {
    /// Follows the ways by which a search came: to a provider forwards, to a receiver against them.
    pub(super) fn trace(&mut self, from: usize, to: usize, came_by: &[u32], graph: &Graph<'_>) {
        self.steps.clear();
        let mut provider = to;
        loop {
            let more = came_by[provider] as usize;
            let receiver = graph.receiver(more);
            if receiver == from {
                self.steps.push((more, None));
                return;
            }
            let less = came_by[receiver] as usize;
            self.steps.push((more, Some(less)));
            provider = graph.provider(less);
        }
    }

    /// How much can be moved along it, given what goes by each way.
    pub(super) fn bottleneck(&self, carried: &[Amount]) -> Amount {
        let less = self.steps.iter().filter_map(|(_, less)| *less);
        less.map(|way| carried[way]).min().unwrap_or(Amount(u64::MAX))
    }

    pub(super) fn steps(&self) -> &[(usize, Option<usize>)] {
        &self.steps
    }
}
