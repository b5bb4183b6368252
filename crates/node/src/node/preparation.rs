//! What happens to a delivery before it may go: its script looks at it, or an endpoint works on it.
//!
//! The record stays as it was accepted, for its other destinations and for the log.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use slotmap::SparseSecondaryMap;
use tidegate_schedule::queue::{Delivery, DeliveryKey, DeliveryState, QueueKey};
use tidegate_types::limits::{TRANSFORMING_MAX, WITHHELD_MAX};
use tidegate_types::record::{Record, WorkId};
use tidegate_types::units::Time;

use super::base::Base;
use super::holdings::Holdings;
use crate::io::{Content, Otherwise, Output};
use crate::options::NodeOptions;

/// Weight of the newest record in a queue's average latency: that of TCP's smoothed round trip (RFC 6298).
const NEWEST: f64 = 0.125;

/// What scripts and endpoints have to do with waiting deliveries.
#[derive(Debug, Default)]
pub(super) struct Preparation {
    /// Deliveries that their script has not seen yet, in the order of arrival.
    unseen: VecDeque<DeliveryKey>,
    /// Deliveries that their script looks at later.
    deferred: SparseSecondaryMap<DeliveryKey, ()>,
    /// Deliveries that endpoints work on.
    transforming: BTreeMap<WorkId, DeliveryKey>,
    last_work: u64,
    /// What becomes of deliveries whose verdicts cannot be done, where they do not go as they are.
    guarded: SparseSecondaryMap<DeliveryKey, Otherwise>,
    /// Deliveries that wait for other scripts, out of their queues, in the order of arrival.
    withheld: VecDeque<DeliveryKey>,
    /// Average latency in seconds of the queues that scripts look at.
    latencies: SparseSecondaryMap<QueueKey, f64>,
}

impl Preparation {
    /// A delivery's script is to look at it.
    pub(super) fn show(&mut self, key: DeliveryKey) {
        self.unseen.push_back(key);
    }

    /// The next delivery that its script has not seen. It may go as soon as the answer is there; what other
    /// deliveries can send meanwhile goes first, so that a slow script delays only its own.
    pub(super) fn next_script(&mut self, base: &mut Base) -> Option<Output> {
        while let Some(key) = self.unseen.pop_front() {
            let Some(&Delivery { record, queue, ready, .. }) = base.holdings.delivery(key) else {
                continue;
            };
            self.deferred.remove(key);
            if !ready && !base.holdings.waits_for_log(record) {
                base.holdings.make_ready(key);
            }
            return Some(Output::RunScript { queue: queue.into(), delivery: key.into() });
        }
        None
    }

    /// A waiting delivery does not go before its script has looked at it.
    pub(super) fn defer(&mut self, holdings: &mut Holdings, key: DeliveryKey) {
        self.deferred.insert(key, ());
        holdings.hold(key);
    }

    /// Whether its script is yet to look at a delivery.
    pub(super) fn is_deferred(&self, key: DeliveryKey) -> bool {
        self.deferred.contains_key(key)
    }

    /// The script of a deferred delivery has looked at it: it may go as soon as the log has it where it must.
    pub(super) fn ready(&mut self, holdings: &mut Holdings, key: DeliveryKey) {
        let Some(&Delivery { record, .. }) = holdings.delivery(key) else { return };
        if self.deferred.remove(key).is_some() && !holdings.waits_for_log(record) {
            holdings.make_ready(key);
        }
    }

    /// What is to be done with a delivery where an edit that follows cannot be done.
    pub(super) fn guard(&mut self, key: DeliveryKey, otherwise: Otherwise) {
        self.guarded.insert(key, otherwise);
    }

    /// What is to be done with a delivery of which an edit could not be done.
    pub(super) fn otherwise(&self, key: DeliveryKey) -> Otherwise {
        self.guarded.get(key).copied().unwrap_or_default()
    }

    /// Keeps a waiting delivery for other scripts; false where too many are kept already.
    pub(super) fn withhold(&mut self, holdings: &mut Holdings, key: DeliveryKey) -> bool {
        if self.withheld.len() >= WITHHELD_MAX {
            return false;
        }
        holdings.take(key);
        self.withheld.push_back(key);
        true
    }

    /// Scripts have changed: they look at what was withheld, in its order. Answers with it, the last one
    /// first: each is to come back as the first of its queue.
    pub(super) fn release_withheld(&mut self, holdings: &Holdings) -> Vec<DeliveryKey> {
        let withheld = std::mem::take(&mut self.withheld);
        self.unseen.extend(&withheld);
        let is_out = |key: &DeliveryKey| is_out(holdings, *key);
        withheld.into_iter().rev().filter(is_out).collect()
    }

    /// Has an endpoint transform a waiting delivery. It is out of its queue meanwhile, or stands in it and
    /// holds it up. `None` where too many are under transformation, or it is not ready.
    pub(super) fn transform(
        &mut self,
        holdings: &mut Holdings,
        key: DeliveryKey,
        endpoint: u16,
        ordered: bool,
    ) -> Option<Output> {
        let is_ready = holdings.delivery(key).is_some_and(|delivery| delivery.ready);
        if !is_ready || self.transforming.len() >= TRANSFORMING_MAX {
            return None;
        }
        if ordered {
            holdings.hold(key);
        } else {
            holdings.take(key);
        }
        self.last_work += 1;
        let work = WorkId(self.last_work);
        self.transforming.insert(work, key);
        Some(Output::Transform { work, id: key.into(), endpoint })
    }

    /// The delivery of a work that is done; and whether it is out of its queue.
    pub(super) fn transformed(
        &mut self,
        holdings: &Holdings,
        work: WorkId,
    ) -> Option<(DeliveryKey, bool)> {
        let key = self.transforming.remove(&work)?;
        Some((key, is_out(holdings, key)))
    }

    /// A delivery was confirmed: its queue's average goes on, where a script looks at it.
    pub(super) fn note_latency(&mut self, now: Time, options: &NodeOptions, delivery: &Delivery) {
        if options.rules.get(delivery.spec.rule).script.is_none() {
            return;
        }
        let latency = now.since(delivery.arrived).as_secs_f64();
        match self.latencies.get_mut(delivery.queue) {
            Some(average) => *average += NEWEST * (latency - *average),
            None => _ = self.latencies.insert(delivery.queue, latency),
        }
    }

    /// The average latency of a queue.
    pub(super) fn latency(&self, queue: QueueKey) -> Option<Duration> {
        self.latencies.get(queue).map(|&seconds| Duration::from_secs_f64(seconds))
    }
}

/// Whether a delivery is neither in its queue nor sent.
fn is_out(holdings: &Holdings, key: DeliveryKey) -> bool {
    holdings.delivery(key).is_some_and(|delivery| delivery.place() == DeliveryState::Taken)
}

/// A record with what a script changes of it.
pub(super) fn changed(record: &Record, content: Content) -> Record {
    let mut changed = record.clone();
    if let Some(key) = content.key {
        changed.key = key;
    }
    if let Some(properties) = content.properties {
        changed.properties = properties;
    }
    if let Some(payload) = content.payload {
        changed.payload = payload;
    }
    changed
}
