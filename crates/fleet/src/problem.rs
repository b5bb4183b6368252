//! What a matching is asked: who wants what of others, who has what to lend, who could lend to whom.

use tidegate_types::limits::CLASSES_MAX;

use super::{Amount, Candidates};

/// A part of a provider's spare bandwidth for a class of a receiver: Φ(q, p) / Δt of JANUS Eq. 15.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// Place of the node whose records go another way.
    pub receiver: u32,
    /// Which of them.
    pub class: u8,
    /// Place of the node that carries them.
    pub provider: u32,
    /// How much.
    pub amount: Amount,
}

/// A fleet at one time. A node stands at its place in [`Candidates`].
#[derive(Clone, Debug)]
pub struct MatchingProblem<'a> {
    candidates: &'a Candidates,
    classes: usize,
    /// What each class of each node wants of others, a row of classes a node: shortage of the node, what
    /// it holds already included.
    wanted: Vec<Amount>,
    /// What each node can lend, what it lends already included.
    spare: Vec<Amount>,
    /// When each request was first made, as any number that rises; what `fcfs` goes by.
    asked: Vec<u64>,
    /// What is granted already, and may stay.
    held: Vec<Redirection>,
}

impl<'a> MatchingProblem<'a> {
    /// A problem in which nothing is granted yet, and requests were made in the order of the nodes.
    ///
    /// A node that wants something lends nothing: records are redirected once, to where they are sent.
    ///
    /// # Panics
    /// On rows of a wrong length, or classes that no node has.
    pub fn new(candidates: &'a Candidates, wanted: Vec<Amount>, mut spare: Vec<Amount>) -> Self {
        let nodes = candidates.nodes();
        assert_eq!(spare.len(), nodes, "one spare amount a node");
        let classes = wanted.len().checked_div(nodes).unwrap_or(1);
        assert!(classes <= CLASSES_MAX && wanted.len() == nodes * classes, "one row a node");
        for (spare, row) in spare.iter_mut().zip(wanted.chunks(classes.max(1))) {
            if row.iter().any(|amount| !amount.is_zero()) {
                *spare = Amount::ZERO;
            }
        }
        let asked = (0..wanted.len() as u64).collect();
        MatchingProblem { candidates, classes, wanted, spare, asked, held: Vec::new() }
    }

    /// The same with the order in which requests were first made.
    ///
    /// # Panics
    /// Where `asked` has not one entry a request.
    #[must_use]
    pub fn asked(mut self, asked: Vec<u64>) -> Self {
        assert_eq!(asked.len(), self.wanted.len(), "one entry a request");
        self.asked = asked;
        self
    }

    /// The same with what is granted already: it is part of `wanted` and `spare`, and may exceed them.
    #[must_use]
    pub fn holding(mut self, held: Vec<Redirection>) -> Self {
        self.held = held;
        self
    }

    /// Who could lend to whom.
    pub fn candidates(&self) -> &'a Candidates {
        self.candidates
    }

    /// How many nodes.
    pub fn nodes(&self) -> usize {
        self.spare.len()
    }

    /// How many classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// What every request wants; request = node x classes + class.
    pub fn wanted(&self) -> &[Amount] {
        &self.wanted
    }

    /// What each node can lend.
    pub fn spare(&self) -> &[Amount] {
        &self.spare
    }

    /// When each request was first made.
    pub fn asked_at(&self, request: usize) -> u64 {
        self.asked[request]
    }

    /// What is granted already.
    pub fn held(&self) -> &[Redirection] {
        &self.held
    }

    /// The node of a request.
    pub fn node_of(&self, request: usize) -> usize {
        request / self.classes
    }

    /// The class of a request.
    pub fn class_of(&self, request: usize) -> usize {
        request % self.classes
    }

    /// The requests of all nodes that want something.
    pub fn requests(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.wanted.len()).filter(|&request| !self.wanted[request].is_zero())
    }

    /// The request that a redirection serves.
    pub fn request_of(&self, redirection: &Redirection) -> usize {
        redirection.receiver as usize * self.classes + usize::from(redirection.class)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Peer;
    use super::*;

    #[test]
    fn a_short_node_lends_nothing() {
        let mut candidates = Candidates::default();
        candidates.push(&[Peer { place: 1, distance: 1 }]);
        candidates.push(&[Peer { place: 0, distance: 1 }]);
        let wanted = [0, 3, 0, 0].map(Amount).to_vec();
        let problem = MatchingProblem::new(&candidates, wanted, [7, 7].map(Amount).to_vec());
        assert_eq!(problem.spare(), [Amount(0), Amount(7)]);
        assert_eq!(problem.requests().collect::<Vec<_>>(), [1]);
        assert_eq!((problem.node_of(1), problem.class_of(1)), (0, 1));
    }
}
