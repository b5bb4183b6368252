//! On whose account records are: the owners of connections, and what each of them may have.
//!
//! An owner is known while he has a connection, a stream in use or bytes in the log. What he has of these is
//! counted where they are: streams by the holdings, bytes by durability.

use std::collections::BTreeMap;

use slotmap::SlotMap;
use tidegate_types::record::{Owner, Quota};

use super::holdings::OwnerKey;

/// Owners of whom nothing is left are forgotten when there are twice as many as after the last time.
const OWNERS_MIN: usize = 64;

#[derive(Debug)]
struct State {
    owner: Owner,
    quota: Quota,
    /// His connections.
    sources: u32,
}

/// All owners.
#[derive(Debug, Default)]
pub(super) struct Owners {
    known: BTreeMap<Owner, OwnerKey>,
    states: SlotMap<OwnerKey, State>,
    /// So many are looked through for those that can be forgotten.
    full: usize,
}

impl Owners {
    /// A connection of an owner begins; what he may have is what was said last.
    pub(super) fn join(&mut self, owner: Owner, quota: Quota) -> OwnerKey {
        let key = *self
            .known
            .entry(owner.clone())
            .or_insert_with(|| self.states.insert(State { owner, quota, sources: 0 }));
        let state = &mut self.states[key];
        state.quota = quota;
        state.sources += 1;
        key
    }

    /// A connection of his has ended.
    pub(super) fn leave(&mut self, key: Option<OwnerKey>) {
        if let Some(state) = key.and_then(|key| self.states.get_mut(key)) {
            state.sources -= 1;
        }
    }

    /// Who this is.
    pub(super) fn get(&self, key: OwnerKey) -> Option<&Owner> {
        self.states.get(key).map(|state| &state.owner)
    }

    /// What an owner may have.
    pub(super) fn quota(&self, key: OwnerKey) -> Quota {
        self.states.get(key).map_or(Quota::default(), |state| state.quota)
    }

    /// Forgets those of whom nothing is left, if there are many.
    pub(super) fn tidy(&mut self, is_used: impl Fn(OwnerKey) -> bool) {
        if self.states.len() < self.full.max(OWNERS_MIN) {
            return;
        }
        self.states.retain(|key, state| state.sources > 0 || is_used(key));
        let states = &self.states;
        self.known.retain(|_, key| states.contains_key(*key));
        self.full = 2 * self.states.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_forgotten_when_nothing_of_his_is_left() {
        let mut owners = Owners::default();
        let user = |number: usize| Owner::User(format!("user {number}").into());
        let stays = owners.join(user(0), Quota::default());
        let holds = owners.join(user(1), Quota::default());
        owners.leave(Some(holds));
        for number in 2..10 * OWNERS_MIN {
            owners.tidy(|key| key == holds);
            let gone = owners.join(user(number), Quota::default());
            owners.leave(Some(gone));
        }
        assert!(owners.states.len() <= OWNERS_MIN, "{}", owners.states.len());
        assert_eq!(owners.known.len(), owners.states.len());
        assert_eq!(
            [stays, holds].map(|key| owners.get(key).cloned()),
            [0, 1].map(|n| Some(user(n)))
        );
        let quota = Quota { streams: Some(2), log: None };
        assert_eq!(owners.join(user(0), quota), stays);
        assert_eq!(owners.quota(stays), quota, "what was said last holds");
    }
}
