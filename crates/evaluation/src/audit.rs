//! What a matching is worth, and whether it keeps to what it was given.

use tidegate_fleet::{MatchingProblem, Redirection};
use tidegate_types::amount::Amount;

/// What a class got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassAudit {
    /// What its requests want together.
    pub wanted: Amount,
    /// What they got.
    pub served: Amount,
    /// Requests that lack something although a candidate peer carries something less urgent.
    pub inversions: usize,
}

/// A matching, measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatchingAudit {
    /// Most urgent first.
    pub classes: Vec<ClassAudit>,
    /// Triples of receiver, class and provider.
    pub redirections: usize,
    /// Requests that got something.
    pub requests: usize,
    /// Sum of amount times distance.
    pub distance: u128,
    /// What it was not allowed to do; empty.
    pub broken: Vec<String>,
}

impl MatchingAudit {
    /// Measures what a matching answered to a problem.
    pub fn new(problem: &MatchingProblem<'_>, redirections: &[Redirection]) -> Self {
        let mut audit = MatchingAudit { redirections: redirections.len(), ..Self::default() };
        let mut served = vec![Amount::ZERO; problem.wanted().len()];
        let mut lent = vec![Amount::ZERO; problem.nodes()];
        // The least urgent class that each provider carries.
        let mut lowest = vec![None; problem.nodes()];
        for redirection in redirections {
            let provider = redirection.provider as usize;
            match problem.candidates().way(redirection.receiver as usize, provider) {
                Some(way) => {
                    let distance = u128::from(problem.candidates().peer(way).distance);
                    audit.distance += distance * u128::from(redirection.amount.0);
                }
                None => audit.broken.push(format!("{redirection:?} is no candidate")),
            }
            served[problem.request_of(redirection)] += redirection.amount;
            lent[provider] += redirection.amount;
            lowest[provider] = lowest[provider].max(Some(usize::from(redirection.class)));
        }
        for (node, (lent, spare)) in lent.iter().zip(problem.spare()).enumerate() {
            if lent > spare {
                audit.broken.push(format!("node {node} lends {} of {}", lent.0, spare.0));
            }
        }
        audit.classes = vec![ClassAudit::default(); problem.classes()];
        for request in problem.requests() {
            let (wanted, got) = (problem.wanted()[request], served[request]);
            let class = problem.class_of(request);
            let peers = problem.candidates().peers(problem.node_of(request));
            let is_lower = |place: u32| lowest[place as usize].is_some_and(|low| low > class);
            let is_inverted = got < wanted && peers.iter().any(|peer| is_lower(peer.place));
            let audited = &mut audit.classes[class];
            audited.wanted += wanted;
            audited.served += got;
            audited.inversions += usize::from(is_inverted);
            audit.requests += usize::from(!got.is_zero());
        }
        for (request, (got, wanted)) in served.iter().zip(problem.wanted()).enumerate() {
            if got > wanted {
                let node = problem.node_of(request);
                audit.broken.push(format!("node {node} gets {} of {}", got.0, wanted.0));
            }
        }
        audit
    }

    /// What all classes got.
    pub fn served(&self) -> Amount {
        self.classes.iter().map(|class| class.served).sum()
    }

    /// Requests that are inverted, of all classes.
    pub fn inversions(&self) -> usize {
        self.classes.iter().map(|class| class.inversions).sum()
    }
}
