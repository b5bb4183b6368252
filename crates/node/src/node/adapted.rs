//! Deliveries that carry something else than their record: a script's replacement, or what an endpoint made
//! of it. The record stays as it was accepted, for its other destinations and for the log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use slotmap::SparseSecondaryMap;
use tidegate_schedule::queue::{Delivery, DeliveryKey, Place, RecordKey};
use tidegate_types::limits::{TRANSFORMING_MAX, WITHHELD_MAX};
use tidegate_types::record::{Body, DropReason, Fate, Record, WorkId};
use tidegate_types::units::{Size, Time};

use super::facts::Latencies;
use super::{Held, Node};
use crate::adapt::Otherwise;
use crate::io::{Content, Output, PrepareError, PrepareTask};

/// What scripts make of waiting records.
#[derive(Debug, Default)]
pub(super) struct Adapted {
    /// What deliveries carry in place of their records.
    replaced: SparseSecondaryMap<DeliveryKey, Arc<Record>>,
    /// Deliveries that endpoints work on.
    pub(super) transforming: BTreeMap<WorkId, DeliveryKey>,
    /// Of the queues that scripts look at.
    pub(super) latencies: Latencies,
    /// Deliveries that their script has not seen yet, in the order of arrival.
    pub(super) unseen: VecDeque<DeliveryKey>,
    /// What becomes of deliveries whose verdicts cannot be done, where they do not go as they are.
    pub(super) guarded: SparseSecondaryMap<DeliveryKey, Otherwise>,
    /// Deliveries that wait for other scripts, out of their queues, in the order of arrival.
    withheld: VecDeque<DeliveryKey>,
}

impl Adapted {
    /// What a delivery carries in place of its record, if a script said so.
    pub(super) fn replaced(&self, key: DeliveryKey) -> Option<&Arc<Record>> {
        // For most nodes there is nothing, and this is asked for every record.
        if self.replaced.is_empty() { None } else { self.replaced.get(key) }
    }
}

impl Node {
    /// A record with what a script changes of it.
    pub(super) fn changed(&self, record: &Record, content: Content) -> Record {
        let mut changed = record.clone();
        if let Some(key) = content.key {
            changed.key = key;
        }
        if let Some(properties) = content.properties {
            changed.properties = properties;
        }
        if let Some(payload) = content.payload {
            changed.body = Body::Resident(payload);
        }
        changed
    }

    /// Lets a waiting delivery carry something else under its record's identity; false where that is too
    /// large, there is no memory for it, or the record's payload is not here yet.
    pub(super) fn replace(&mut self, key: DeliveryKey, content: Content) -> bool {
        let Some(&Delivery { record, spec, size, ready, .. }) = self.queues.get(key) else {
            return false;
        };
        let Some(present) = self.record(key.into()) else { return false };
        if !present.body.is_ready() {
            return false;
        }
        let changed = self.changed(present, content);
        let new = changed.size();
        let stream = self.held[record].stream;
        let freed = self.adapted.replaced(key).map_or(Size::ZERO, |old| old.size());
        if self.is_oversize(spec.rule, new) || self.lacks(stream, new, freed).is_some() {
            return false;
        }
        let old = present.size();
        self.forget_replaced(key, record);
        self.held_bytes += new;
        self.streams.get_mut(stream).bytes += new;
        self.adapted.replaced.insert(key, Arc::new(changed));
        if ready {
            self.queues.resize(key, size - old + new);
        }
        true
    }

    /// What the delivery carries in place of its record is needed no more.
    pub(super) fn forget_replaced(&mut self, key: DeliveryKey, record: RecordKey) {
        if self.adapted.replaced(key).is_none() {
            return;
        }
        let Some(gone) = self.adapted.replaced.remove(key) else { return };
        let size = gone.size();
        self.held_bytes -= size;
        if let Some(Held { stream, .. }) = self.held.get(record) {
            self.streams.get_mut(*stream).bytes -= size;
        }
    }

    /// Has an endpoint transform a waiting delivery. It is out of its queue meanwhile, or stands in it and
    /// holds it up. Where too many are under transformation it stays as it is: false.
    pub(super) fn transform(&mut self, key: DeliveryKey, endpoint: u16, ordered: bool) -> bool {
        let is_ready = self.queues.get(key).is_some_and(|delivery| delivery.ready);
        if !is_ready || self.adapted.transforming.len() >= TRANSFORMING_MAX {
            return false;
        }
        if ordered {
            self.queues.hold(key);
        } else {
            self.queues.take(key);
        }
        self.last_work += 1;
        let work = WorkId(self.last_work);
        self.adapted.transforming.insert(work, key);
        let task = PrepareTask::Transform { endpoint };
        self.outbox.push_back(Output::Prepare { work, id: key.into(), task });
        true
    }

    /// What was decided of a delivery cannot be done.
    pub(super) fn fail_guarded(&mut self, now: Time, key: DeliveryKey) {
        let otherwise = self.adapted.guarded.get(key).copied().unwrap_or_default();
        self.fail(now, key, otherwise);
    }

    /// A waiting delivery's script has failed.
    pub(super) fn fail(&mut self, now: Time, key: DeliveryKey, otherwise: Otherwise) {
        match otherwise {
            Otherwise::Pass => {}
            Otherwise::Hold if self.adapted.withheld.len() < WITHHELD_MAX => {
                self.queues.take(key);
                self.adapted.withheld.push_back(key);
            }
            Otherwise::Drop | Otherwise::Hold => {
                self.finish(now, key, Fate::Dropped(DropReason::Script));
            }
        }
    }

    /// Scripts have changed: they look at what was withheld, in its order.
    pub(super) fn reconsider(&mut self, now: Time) {
        let withheld = std::mem::take(&mut self.adapted.withheld);
        // Each comes back as the first of its queue.
        for &key in withheld.iter().rev() {
            if self.queues.get(key).is_some_and(|delivery| delivery.place() == Place::Taken) {
                self.come_back(now, key);
                self.queues.hold(key);
            }
        }
        self.adapted.unseen.extend(withheld);
    }

    /// An endpoint has answered, or will not: then the original goes, unless its script must not fail.
    pub(super) fn transformed(
        &mut self,
        now: Time,
        key: DeliveryKey,
        result: Result<Bytes, PrepareError>,
    ) {
        if self.queues.get(key).is_some_and(|delivery| delivery.place() == Place::Taken) {
            self.come_back(now, key);
        }
        let content = |payload| Content { payload: Some(payload), ..Content::default() };
        let is_done = result.is_ok_and(|payload| self.replace(key, content(payload)));
        self.make_ready(key);
        if !is_done {
            self.fail_guarded(now, key);
        }
    }
}
