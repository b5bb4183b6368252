//! On whose account records are: the owners of connections, and their shares of the table of streams and of
//! the log.

use std::collections::BTreeMap;

use slotmap::SlotMap;

use super::Node;
use super::sources::Room;
use super::streams::StreamKey;
use crate::limits::STREAMS_MAX;
use crate::log::SessionOwner;
use crate::record::{Owner, Quota, SourceId};
use crate::shares::limit;
use crate::units::Size;

/// Owners of whom nothing is left are forgotten when there are twice as many as after the last time.
const OWNERS_MIN: usize = 64;

slotmap::new_key_type! {
    /// An owner, while anything of his is here.
    pub(super) struct OwnerKey;
}

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
    full: usize,
}

impl Owners {
    fn key(&mut self, owner: Owner, quota: Quota) -> OwnerKey {
        let key = *self
            .known
            .entry(owner.clone())
            .or_insert_with(|| self.states.insert(State { owner, quota, sources: 0 }));
        self.states[key].quota = quota;
        key
    }

    fn quota(&self, key: OwnerKey) -> Quota {
        self.states.get(key).map_or(Quota::default(), |state| state.quota)
    }

    /// A connection of his has ended.
    pub(super) fn leave(&mut self, key: Option<OwnerKey>) {
        if let Some(state) = key.and_then(|key| self.states.get_mut(key)) {
            state.sources -= 1;
        }
    }

    /// Forgets those of whom nothing is left, if there are many.
    fn tidy(&mut self, is_used: impl Fn(OwnerKey) -> bool) {
        if self.states.len() < self.full.max(OWNERS_MIN) {
            return;
        }
        self.states.retain(|key, state| state.sources > 0 || is_used(key));
        let states = &self.states;
        self.known.retain(|_, key| states.contains_key(*key));
        self.full = 2 * self.states.len();
    }
}

impl Node {
    /// All that comes by a connection is on this account from now on.
    pub(super) fn charge(&mut self, source: SourceId, owner: Owner, quota: Quota) {
        if self.sources.get(source).is_none() {
            return;
        }
        let (streams, store) = (&self.streams, &self.store);
        self.owners.tidy(|key| {
            let in_log = store.as_ref().map_or(0, |store| store.parts.of(key));
            in_log > 0 || streams.shares().of(&key) > 0
        });
        let key = self.owners.key(owner, quota);
        self.owners.states[key].sources += 1;
        if let Some(state) = self.sources.get_mut(source) {
            let former = state.owner.replace(key);
            self.owners.leave(former);
        }
    }

    /// Whose the session of this connection's client is, as the log says it.
    pub(super) fn owner_of_session(&self, source: SourceId) -> SessionOwner {
        let key = self.sources.get(source).and_then(|state| state.owner);
        match key.and_then(|key| self.owners.states.get(key)).map(|state| &state.owner) {
            None => SessionOwner::Unknown,
            // The address of a client changes.
            Some(Owner::Address(_)) => SessionOwner::Anonymous,
            Some(Owner::User(user)) => SessionOwner::User(user.clone()),
        }
    }

    /// Whether one more stream may be on this account. Where nobody pays only the table is bounded.
    pub(super) fn has_stream_share(&self, owner: Option<OwnerKey>) -> bool {
        let Some(owner) = owner else { return true };
        let ceiling = self.owners.quota(owner).streams.map(u64::from);
        let limit = limit(self.streams.in_use() as u64, STREAMS_MAX as u64, ceiling);
        self.streams.shares().of(&owner) < limit
    }

    /// What an owner may have of the log.
    fn log_limit(&self, owner: OwnerKey) -> u64 {
        let Some(store) = &self.store else { return 0 };
        let ceiling = self.owners.quota(owner).log.map(|log| log.0);
        limit(store.bytes().0, store.bound_of_records().0, ceiling)
    }

    /// Whether a durable record of this size may be on the account of its stream's owner; if not, what is too
    /// little.
    pub(super) fn lacks_log_share(&self, stream: StreamKey, size: Size) -> Option<Room> {
        let owner = self.streams.get(stream).owner?;
        let own = self.store.as_ref()?.parts.of(owner);
        (own.saturating_add(size.0) > self.log_limit(owner)).then_some(Room::Share(owner))
    }

    /// Whether an owner has so much of his share that he may go on.
    pub(super) fn has_much_share(&self, owner: OwnerKey) -> bool {
        let own = self.store.as_ref().map_or(0, |store| store.parts.of(owner));
        own <= self.log_limit(owner) / 8 * 7
    }
}
