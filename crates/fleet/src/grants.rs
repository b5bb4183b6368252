//! Every grant of a fleet, found by receiver and by provider.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_types::class::ClassId;
use tidegate_types::units::Time;

use super::{Amount, Grant, NodeId};

/// A grant in the ledger.
#[derive(Clone, Copy, Debug)]
pub(super) struct LedgerEntry {
    pub(super) grant: Grant,
    pub(super) carried: Amount,
    pub(super) since: Time,
    /// The directives that told of it first.
    pub(super) round: u64,
    /// The last decision that wanted it.
    pub(super) wanted: u64,
}

/// Receiver, provider and class: there is one grant of a kind.
pub(super) type GrantKey = (NodeId, NodeId, ClassId);

pub(super) fn key(grant: &Grant) -> GrantKey {
    (grant.receiver, grant.provider, grant.class)
}

/// All classes of a pair.
const FIRST: ClassId = ClassId(0);
const LAST: ClassId = ClassId(u8::MAX);

/// The grants.
#[derive(Debug, Default)]
pub(super) struct Grants {
    entries: BTreeMap<GrantKey, LedgerEntry>,
    /// Provider, receiver and class.
    lent: BTreeSet<GrantKey>,
}

impl Grants {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &LedgerEntry> + '_ {
        self.entries.values()
    }

    pub(super) fn get_mut(&mut self, key: GrantKey) -> Option<&mut LedgerEntry> {
        self.entries.get_mut(&key)
    }

    /// The grants of a receiver and a provider.
    pub(super) fn between(
        &self,
        receiver: NodeId,
        provider: NodeId,
    ) -> impl Iterator<Item = &LedgerEntry> + '_ {
        let range = (receiver, provider, FIRST)..=(receiver, provider, LAST);
        self.entries.range(range).map(|(_, entry)| entry)
    }

    /// What a provider lends.
    pub(super) fn lent_by(&self, provider: NodeId) -> impl Iterator<Item = &LedgerEntry> + '_ {
        let range = (provider, NodeId(0), FIRST)..=(provider, NodeId(u64::MAX), LAST);
        self.lent.range(range).map(|(provider, receiver, class)| {
            self.entries.get(&(*receiver, *provider, *class)).expect("both know the same")
        })
    }

    /// What a receiver has borrowed.
    pub(super) fn borrowed_by(&self, receiver: NodeId) -> impl Iterator<Item = &LedgerEntry> + '_ {
        let range = (receiver, NodeId(0), FIRST)..=(receiver, NodeId(u64::MAX), LAST);
        self.entries.range(range).map(|(_, entry)| entry)
    }

    /// Adds a grant, or replaces the one of its kind.
    pub(super) fn insert(&mut self, entry: LedgerEntry) {
        let (receiver, provider, class) = key(&entry.grant);
        self.entries.insert((receiver, provider, class), entry);
        self.lent.insert((provider, receiver, class));
    }

    pub(super) fn remove(&mut self, key: GrantKey) -> Option<LedgerEntry> {
        let (receiver, provider, class) = key;
        self.lent.remove(&(provider, receiver, class));
        self.entries.remove(&key)
    }
}
