//! The first phase of picking: what will soon be picked is made ready.

use bytes::Bytes;

use super::Node;
use crate::io::{Output, PrepareError, PrepareTask};
use crate::limits::PREPARING_MAX;
use crate::queue::DeliveryKey;
use crate::record::{Body, DropReason, Fate, Record, WorkId};
use crate::units::{Size, Time};

impl Node {
    /// Asks for the heads that are not ready, a bounded number at once.
    pub(super) fn prepare(&mut self) {
        let unready = self.queues.take_unready();
        self.prepare_next.extend(unready);
        while self.preparing.len() < PREPARING_MAX {
            let Some(key) = self.prepare_next.pop_front() else { return };
            let Some(delivery) = self.queues.get(key) else { continue };
            if delivery.ready || self.preparing.values().any(|&busy| busy == key) {
                continue;
            }
            let task = match self.held[delivery.record].record.body {
                Body::Resident(_) => continue,
                Body::Stored { position, .. } => PrepareTask::Load(position),
                Body::Frame { frame, .. } => PrepareTask::Encode { frame, rung: 0 },
                Body::Pending { .. } => PrepareTask::Operate,
            };
            self.last_work += 1;
            let work = WorkId(self.last_work);
            self.preparing.insert(work, key);
            self.outbox.push_back(Output::Prepare { work, id: key.into(), task });
        }
    }

    /// Work is done: the record can go, or it never will.
    pub(super) fn prepared(
        &mut self,
        now: Time,
        work: WorkId,
        result: Result<Bytes, PrepareError>,
    ) {
        let Some(key) = self.preparing.remove(&work) else { return };
        let Some(delivery) = self.queues.get(key) else { return };
        let (record_key, queue_size) = (delivery.record, delivery.size);
        let Ok(payload) = result else {
            self.finish(now, key, Fate::Dropped(DropReason::Unprepared));
            return;
        };
        let held = &mut self.held[record_key];
        let old = held.record.body.size();
        let new = Size(payload.len() as u64);
        let mut record = Record::clone(&held.record);
        record.body = Body::Resident(payload);
        held.record = record.into();
        held.size = held.size + new - old;
        self.held_bytes = self.held_bytes + new - old;
        let stream = self.streams.get_mut(held.stream);
        stream.bytes = stream.bytes + new - old;
        self.queues.resize(key, queue_size + new - old);
    }

    /// Deliveries that wait for a preparation, for tests and the status page.
    pub fn preparing(&self) -> impl Iterator<Item = DeliveryKey> + '_ {
        self.preparing.values().copied()
    }
}
