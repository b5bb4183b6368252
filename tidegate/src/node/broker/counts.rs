//! What the broker counts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_broker::Drops;
use tidegate_types::account::Figures;

/// Counters of a broker; only upward.
#[derive(Debug, Default)]
pub struct BrokerCounts {
    published: AtomicU64,
    delivered: AtomicU64,
    unretained: AtomicU64,
    drops: Mutex<Drops>,
}

impl BrokerCounts {
    /// Messages that had at least one subscriber.
    pub(super) fn published(&self, count: usize) {
        self.published.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Messages that were handed to connections.
    pub(super) fn delivered(&self, count: usize) {
        self.delivered.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// A message that should have been retained, and for which there was no room.
    pub(super) fn unretained(&self) {
        self.unretained.fetch_add(1, Ordering::Relaxed);
    }

    /// Messages that subscribers do not get.
    pub(super) fn dropped(&self, drops: Drops) {
        if drops.is_empty() {
            return;
        }
        let mut all = self.drops.lock().unwrap_or_else(PoisonError::into_inner);
        for (why, count) in drops {
            *all.entry(why).or_default() += count;
        }
    }

    /// The counts so far; what is not counted stands at 0.
    pub(super) fn read(&self) -> BrokerStatus {
        BrokerStatus {
            published: self.published.load(Ordering::Relaxed),
            delivered: self.delivered.load(Ordering::Relaxed),
            unretained: self.unretained.load(Ordering::Relaxed),
            drops: self.drops.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            ..BrokerStatus::default()
        }
    }
}

/// What waits for one subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriberStatus {
    /// Its subscriptions.
    pub subscriptions: usize,
    /// Messages in its outbox.
    pub waiting: usize,
    /// Messages that are sent and not acknowledged.
    pub in_flight: usize,
}

/// A broker at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerStatus {
    /// Messages that were published and had at least one subscriber.
    pub published: u64,
    /// Messages that were handed to subscribers' connections; one for each subscriber.
    pub delivered: u64,
    /// Messages that should have been retained, and for which there was no room.
    pub unretained: u64,
    /// Messages that subscribers did not get, by class and reason.
    pub drops: Drops,
    /// Sessions that have subscribed.
    pub sessions: usize,
    /// Their subscriptions.
    pub subscriptions: usize,
    /// What waits for each of them, by client id.
    pub subscribers: BTreeMap<Arc<str>, SubscriberStatus>,
    /// Messages that wait in outboxes.
    pub waiting: usize,
    /// Messages that are sent and not acknowledged.
    pub in_flight: usize,
    /// Retained messages.
    pub retained: usize,
    /// Bytes that they take.
    pub retained_bytes: usize,
    /// What clients make the node hold.
    pub account: Figures,
}
