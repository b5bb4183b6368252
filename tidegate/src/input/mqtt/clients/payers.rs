//! Kept sessions by who has them: a user, or an address where nobody says who he is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::worth::Worth;

/// The sessions of one payer, in the order in which they make room.
type ByWorth = BTreeSet<(Worth, Arc<str>)>;

/// The sessions of each payer.
#[derive(Debug, Default)]
pub(super) struct Payers {
    sessions: BTreeMap<Arc<str>, ByWorth>,
    /// How many each of them has.
    sizes: BTreeSet<(usize, Arc<str>)>,
}

impl Payers {
    /// A session is kept.
    pub(super) fn insert(&mut self, payer: &Arc<str>, worth: Worth, client: &Arc<str>) {
        self.resize(payer, |sessions| _ = sessions.insert((worth, client.clone())));
    }

    /// A session is kept no more.
    pub(super) fn remove(&mut self, payer: &Arc<str>, worth: Worth, client: &Arc<str>) {
        self.resize(payer, |sessions| _ = sessions.remove(&(worth, client.clone())));
    }

    fn resize(&mut self, payer: &Arc<str>, change: impl FnOnce(&mut ByWorth)) {
        let sessions = self.sessions.entry(payer.clone()).or_default();
        let before = sessions.len();
        change(sessions);
        let after = sessions.len();
        self.sizes.remove(&(before, payer.clone()));
        if after == 0 {
            self.sessions.remove(payer);
        } else {
            self.sizes.insert((after, payer.clone()));
        }
    }

    /// How many sessions a payer has.
    pub(super) fn count(&self, payer: &Arc<str>) -> usize {
        self.sessions.get(payer).map_or(0, BTreeSet::len)
    }

    /// The session of a payer that makes room first.
    pub(super) fn first_of(&self, payer: &Arc<str>) -> Option<Arc<str>> {
        self.sessions.get(payer)?.first().map(|(_, client)| client.clone())
    }

    /// The session that makes room for others: the first of whoever has most.
    pub(super) fn first_of_most(&self) -> Option<Arc<str>> {
        let (_, payer) = self.sizes.last()?;
        self.first_of(payer)
    }

    /// All sessions, those of whoever has most first, of each in the order in which they make room.
    pub(super) fn by_most(&self) -> impl Iterator<Item = &Arc<str>> {
        let payers = self.sizes.iter().rev().filter_map(|(_, payer)| self.sessions.get(payer));
        payers.flatten().map(|(_, client)| client)
    }

    /// Asserts that both indices agree.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let sizes = self.sessions.iter().map(|(payer, all)| (all.len(), payer.clone()));
        assert_eq!(sizes.collect::<BTreeSet<_>>(), self.sizes);
    }
}
