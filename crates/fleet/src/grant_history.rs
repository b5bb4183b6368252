//! Why grants were given: what a leader knew when it gave them, kept for people.
//!
//! It decides nothing. A new leader has none of it.

use std::collections::{BTreeMap, VecDeque};

use tidegate_types::units::Time;

use super::{Amount, Grant, NODES_MAX, NodeId, Tuple};

/// Grants of a receiver that are remembered.
const KEPT: usize = 16;

tidegate_types::named! {
    /// Why a grant is over.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EndReason {
        /// Its receiver wants nothing more, or gets it by another way.
        Unwanted = "unwanted",
        /// Its provider no longer holds it.
        GivenUp = "given-up",
        /// One of the two has said nothing for too long, or was never heard by this leader.
        Silent = "silent",
        /// It did not help.
        NoHelp = "no-help",
    }
}

impl EndReason {
    /// Place in `ALL`.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// What a process has decided since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrantTotals {
    /// Decisions.
    pub decisions: u64,
    /// Beats that were news.
    pub beats: u64,
    /// Beats that cannot be true, and count for nothing.
    pub false_claims: u64,
    /// Directives for nodes.
    pub directives: u64,
    /// Grants that were given.
    pub given: u64,
    /// Grants that are over, in the order of [`EndReason::ALL`].
    pub ended: [u64; EndReason::ALL.len()],
}

/// A grant that was given, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantDecision {
    /// As it was given, or as it was at its end.
    pub grant: Grant,
    /// What the receiver had and wanted then.
    pub receiver: Tuple,
    /// What its provider had to lend then, beside what it lent to others.
    pub spare: Amount,
    /// What the provider carried of it when it ended.
    pub carried: Amount,
    /// When it was given.
    pub since: Time,
    /// When it ended; `None` while it is in force.
    pub until: Option<Time>,
}

/// The last grants of every receiver.
#[derive(Debug, Default)]
pub(super) struct History(BTreeMap<NodeId, VecDeque<GrantDecision>>);

impl History {
    /// A grant is given.
    pub(super) fn given(&mut self, given: GrantDecision) {
        let receiver = given.grant.receiver;
        if self.0.len() >= NODES_MAX && !self.0.contains_key(&receiver) {
            // Receivers that are gone stay until there is no room: one of them makes some.
            self.0.pop_first();
        }
        let all = self.0.entry(receiver).or_default();
        if all.len() >= KEPT {
            all.pop_front();
        }
        all.push_back(given);
    }

    /// A grant is over.
    pub(super) fn ended(&mut self, now: Time, grant: &Grant, carried: Amount) {
        let all = self.0.get_mut(&grant.receiver);
        let is_it = |one: &&mut GrantDecision| one.grant.token == grant.token;
        if let Some(given) = all.and_then(|all| all.iter_mut().find(is_it)) {
            (given.grant, given.carried, given.until) = (*grant, carried, Some(now));
        }
    }

    /// Those of a receiver, the oldest first.
    pub(super) fn of(&self, receiver: NodeId) -> impl Iterator<Item = &GrantDecision> + '_ {
        self.0.get(&receiver).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::class::ClassId;

    use super::*;
    use crate::FencingToken;

    fn given(id: u64) -> GrantDecision {
        let (provider, receiver) = (NodeId(2), NodeId(1));
        let token = FencingToken { revision: 1, id };
        GrantDecision {
            grant: Grant { token, provider, receiver, class: ClassId(2), amount: Amount(50) },
            receiver: Tuple::default(),
            spare: Amount(80),
            carried: Amount::ZERO,
            since: Time::from_millis(id),
            until: None,
        }
    }

    #[test]
    fn the_last_grants_are_remembered_with_their_ends() {
        let mut history = History::default();
        (1..=20).for_each(|id| history.given(given(id)));
        let last = Grant { amount: Amount(40), ..given(20).grant };
        history.ended(Time::from_millis(30), &last, Amount(35));
        history.ended(Time::from_millis(30), &given(1).grant, Amount(1)); // forgotten long ago
        let all: Vec<&GrantDecision> = history.of(NodeId(1)).collect();
        assert_eq!((all.len(), all[0].grant.token.id), (KEPT, 5));
        let end = all.last().unwrap();
        assert_eq!(
            (end.grant.amount, end.carried, end.until),
            (Amount(40), Amount(35), Some(Time::from_millis(30)))
        );
        assert_eq!((all[0].until, history.of(NodeId(2)).count()), (None, 0));
    }
}
