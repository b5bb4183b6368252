//! The first phase of picking: what will soon be picked is made ready.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_schedule::queue::{DeliveryKey, RecordKey};
use tidegate_types::limits::PREPARING_MAX;
use tidegate_types::record::{Body, DropReason, Fate, WorkId};
use tidegate_types::units::{Size, Time};

use super::Node;
use crate::io::{Output, PrepareError, PrepareTask};

impl Node {
    /// Asks for the heads that are not ready, a bounded number at once.
    pub(super) fn prepare(&mut self) {
        self.queues.take_unready(&mut self.prepare_next);
        while self.preparing.len() < PREPARING_MAX {
            let Some(key) = self.prepare_next.pop_front() else { return };
            let Some(delivery) = self.queues.get(key) else { continue };
            let held = &self.held[delivery.record];
            let task = match held.record.body {
                // It waits for the log, and goes on when that has it.
                Body::Resident(_) if self.waits_for_log(delivery.record) => continue,
                Body::Resident(_) => {
                    // Another delivery of the record had it prepared.
                    self.make_ready(key);
                    continue;
                }
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
        if let Some(key) = self.adapted.transforming.remove(&work) {
            return self.transformed(now, key, result);
        }
        let Some(key) = self.preparing.remove(&work) else { return };
        let Some(delivery) = self.queues.get(key) else { return };
        let record_key = delivery.record;
        match (result, self.held[record_key].record.body.is_ready()) {
            (Err(_), false) => {
                self.finish(now, key, Fate::Dropped(DropReason::Unprepared));
                return;
            }
            (Ok(payload), false) => self.fill(record_key, payload),
            // Another delivery of the record had it prepared: one record has one payload.
            (_, true) => {}
        }
        self.make_ready(key);
    }

    /// Gives a record its payload.
    fn fill(&mut self, key: RecordKey, payload: Bytes) {
        let held = &mut self.held[key];
        let old = held.size;
        held.size = old - held.record.body.size() + Size(payload.len() as u64);
        Arc::make_mut(&mut held.record).body = Body::Resident(payload);
        let (new, stream_key) = (held.size, held.stream);
        self.held_bytes = self.held_bytes + new - old;
        let stream = self.streams.get_mut(stream_key);
        stream.bytes = stream.bytes + new - old;
        if new < old {
            self.made_room(stream_key, true);
        }
        // A durable record could not go to the log before.
        let owed = self.held[key].owed.as_mut().filter(|owed| owed.logged.is_none());
        if let Some(reply) = owed.map(|owed| owed.reply.take()) {
            self.acknowledge(key, reply);
        }
    }

    pub(super) fn make_ready(&mut self, key: DeliveryKey) {
        let Some(delivery) = self.queues.get(key) else { return };
        let overhead = self.options.outputs[usize::from(delivery.spec.output.0)].overhead;
        let replaced = self.adapted.replaced(key).map(|record| record.size());
        let size = replaced.unwrap_or(self.held[delivery.record].size) + overhead;
        self.queues.resize(key, size);
    }

    /// Deliveries that wait for a preparation, for tests and the status page.
    pub fn preparing(&self) -> impl Iterator<Item = DeliveryKey> + '_ {
        self.preparing.values().copied()
    }
}
