//! Who answers for a redirected record: its receiver, until the far end has it.
//!
//! A provider never takes a record over. It carries it, tells when the far end has confirmed it, or gives
//! it back unsent. When it falls silent the receiver takes everything back that has no answer; what of it
//! may have arrived goes again with a mark. So a record is lost only with its receiver's log, and sent
//! twice only where nobody can know whether it arrived.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tidegate_fleet::{FencingToken, NodeId};
use tidegate_types::amount::Amount;
use tidegate_types::units::Size;

use crate::credit::{Borrower, Lender};

/// The receiver's book: records under way by providers. `K` names a record.
#[derive(Debug)]
pub struct Entrusted<K> {
    ways: BTreeMap<FencingToken, (NodeId, Borrower)>,
    records: BTreeMap<K, NodeId>,
}

impl<K: Ord + Copy> Default for Entrusted<K> {
    fn default() -> Self {
        Entrusted { ways: BTreeMap::new(), records: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Entrusted<K> {
    /// A grant is there, or changed.
    pub fn begin(&mut self, token: FencingToken, provider: NodeId) {
        self.ways.entry(token).or_insert((provider, Borrower::default()));
    }

    /// A grant is over. What went by it still gets an answer.
    pub fn end(&mut self, token: FencingToken) {
        self.ways.remove(&token);
    }

    /// The provider told how much it takes in all.
    pub fn allow(&mut self, token: FencingToken, limit: Size) {
        if let Some((_, borrower)) = self.ways.get_mut(&token) {
            borrower.allow(limit);
        }
    }

    /// What may go by a grant now.
    pub fn room(&self, token: FencingToken) -> Size {
        self.ways.get(&token).map_or(Size::ZERO, |(_, borrower)| borrower.room())
    }

    /// A record goes; answers with its provider. `None` without a grant or room: it stays here.
    pub fn entrust(&mut self, token: FencingToken, key: K, size: Size) -> Option<NodeId> {
        let (provider, borrower) = self.ways.get_mut(&token)?;
        if borrower.room() == Size::ZERO {
            return None;
        }
        borrower.send(size);
        self.records.insert(key, *provider);
        Some(*provider)
    }

    /// The provider answered for a record: confirmed, or given back. Whether that was waited for; else it
    /// was taken back before, and has another fate.
    pub fn answered(&mut self, provider: NodeId, key: K) -> bool {
        let is_waited = self.records.get(&key) == Some(&provider);
        if is_waited {
            self.records.remove(&key);
        }
        is_waited
    }

    /// The provider is gone: everything that it has not answered for, which may have arrived. Its grants
    /// are over.
    pub fn take_back(&mut self, provider: NodeId) -> Vec<K> {
        self.ways.retain(|_, (other, _)| *other != provider);
        let its = self.records.iter().filter(|(_, other)| **other == provider);
        let its: Vec<K> = its.map(|(key, _)| *key).collect();
        self.records.retain(|_, other| *other != provider);
        its
    }

    /// Records without an answer.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether every record has its answer.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

/// A grant at its provider.
#[derive(Debug)]
struct Lent<K> {
    receiver: NodeId,
    lender: Lender,
    waiting: VecDeque<(K, Size)>,
}

/// The provider's book: others' records that wait here or are under way to the far end.
#[derive(Debug)]
pub struct Relayed<K> {
    lent: BTreeMap<FencingToken, Lent<K>>,
    sent: BTreeMap<(NodeId, K), ()>,
}

impl<K: Ord + Copy> Default for Relayed<K> {
    fn default() -> Self {
        Relayed { lent: BTreeMap::new(), sent: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Relayed<K> {
    /// A grant is there, or changed.
    pub fn begin(&mut self, token: FencingToken, receiver: NodeId) {
        let lent = || Lent { receiver, lender: Lender::default(), waiting: VecDeque::new() };
        self.lent.entry(token).or_insert_with(lent);
    }

    /// A grant is over: what has not left goes back to its receiver.
    pub fn end(&mut self, token: FencingToken) -> Vec<K> {
        let lent = self.lent.remove(&token);
        lent.into_iter().flat_map(|lent| lent.waiting).map(|(key, _)| key).collect()
    }

    /// A record of a receiver came. Whether it is taken; what comes without a grant or beyond its credit
    /// goes back.
    pub fn take(&mut self, token: FencingToken, key: K, size: Size) -> bool {
        let Some(lent) = self.lent.get_mut(&token) else { return false };
        let is_taken = lent.lender.take(size);
        if is_taken {
            lent.waiting.push_back((key, size));
        }
        is_taken
    }

    /// What a receiver may send by a grant in all, at this amount.
    pub fn limit(&mut self, token: FencingToken, amount: Amount, window: Duration) -> Option<Size> {
        self.lent.get_mut(&token).map(|lent| lent.lender.limit(amount, window))
    }

    /// The next record of a grant, without taking it.
    pub fn next(&self, token: FencingToken) -> Option<(K, Size)> {
        self.lent.get(&token)?.waiting.front().copied()
    }

    /// The next record of a grant goes to the far end.
    pub fn send(&mut self, token: FencingToken) -> Option<(NodeId, K)> {
        let lent = self.lent.get_mut(&token)?;
        let (key, size) = lent.waiting.pop_front()?;
        lent.lender.sent(size);
        self.sent.insert((lent.receiver, key), ());
        Some((lent.receiver, key))
    }

    /// The far end has a receiver's record: whether the receiver waits to hear of it.
    pub fn confirmed(&mut self, receiver: NodeId, key: K) -> bool {
        self.sent.remove(&(receiver, key)).is_some()
    }

    /// The receiver is gone: it will see to its records itself, so what has not left is forgotten.
    pub fn forget(&mut self, receiver: NodeId) {
        for lent in self.lent.values_mut().filter(|lent| lent.receiver == receiver) {
            lent.waiting.clear();
        }
        self.lent.retain(|_, lent| lent.receiver != receiver);
        self.sent.retain(|(other, _), ()| *other != receiver);
    }

    /// What waits here.
    pub fn waiting(&self) -> Size {
        let records = self.lent.values().flat_map(|lent| &lent.waiting);
        records.map(|(_, size)| *size).sum()
    }

    /// Grants that are known here.
    pub fn tokens(&self) -> impl Iterator<Item = FencingToken> + '_ {
        self.lent.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: FencingToken = FencingToken { revision: 1, id: 1 };
    const PROVIDER: NodeId = NodeId(1);
    const RECEIVER: NodeId = NodeId(2);
    const WINDOW: Duration = Duration::from_millis(250);

    /// A grant of 4,000 bytes/s on both sides, with its first credit: 1,000 bytes.
    fn granted() -> (Entrusted<u32>, Relayed<u32>) {
        let (mut entrusted, mut relayed) = (Entrusted::default(), Relayed::default());
        entrusted.begin(TOKEN, PROVIDER);
        relayed.begin(TOKEN, RECEIVER);
        let limit = relayed.limit(TOKEN, Amount(4000), WINDOW).unwrap();
        entrusted.allow(TOKEN, limit);
        (entrusted, relayed)
    }

    #[test]
    fn a_record_is_its_receivers_until_the_far_end_has_it() {
        let (mut entrusted, mut relayed) = granted();
        assert_eq!(entrusted.entrust(TOKEN, 7, Size(1000)), Some(PROVIDER));
        assert_eq!(entrusted.entrust(TOKEN, 8, Size(1000)), None, "no credit");
        assert!(relayed.take(TOKEN, 7, Size(1000)));
        assert_eq!((relayed.next(TOKEN), entrusted.len()), (Some((7, Size(1000))), 1));
        assert_eq!(relayed.send(TOKEN), Some((RECEIVER, 7)));
        assert!(relayed.confirmed(RECEIVER, 7) && !relayed.confirmed(RECEIVER, 7));
        assert!(entrusted.answered(PROVIDER, 7) && entrusted.is_empty());
    }

    #[test]
    fn what_a_provider_has_not_sent_comes_back_when_the_grant_ends() {
        let (mut entrusted, mut relayed) = granted();
        for key in [1, 2, 3] {
            entrusted.entrust(TOKEN, key, Size(300));
            relayed.take(TOKEN, key, Size(300));
        }
        relayed.send(TOKEN);
        assert_eq!((relayed.end(TOKEN), relayed.waiting()), (vec![2, 3], Size::ZERO));
        assert!(!relayed.take(TOKEN, 4, Size(1)), "there is no grant any more");
        // What left before is still confirmed.
        assert!(relayed.confirmed(RECEIVER, 1));
    }

    #[test]
    fn what_a_lost_provider_has_not_answered_comes_back_once() {
        let (mut entrusted, _) = granted();
        entrusted.entrust(TOKEN, 1, Size(300));
        entrusted.entrust(TOKEN, 2, Size(300));
        entrusted.answered(PROVIDER, 1);
        assert_eq!(entrusted.take_back(PROVIDER), [2]);
        assert!(!entrusted.answered(PROVIDER, 2), "it has another fate by now");
        assert_eq!((entrusted.take_back(PROVIDER).len(), entrusted.room(TOKEN)), (0, Size::ZERO));
    }

    #[test]
    fn a_lost_receiver_is_forgotten() {
        let (_, mut relayed) = granted();
        relayed.take(TOKEN, 1, Size(300));
        relayed.take(TOKEN, 2, Size(300));
        relayed.send(TOKEN);
        relayed.forget(RECEIVER);
        assert!(!relayed.confirmed(RECEIVER, 1) && relayed.tokens().next().is_none());
    }
}
