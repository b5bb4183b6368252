//! A record that the log has may leave memory: it is read back when there is room ahead.

use tidegate_log::Destinations;
use tidegate_schedule::queue::{Place, RecordKey};
use tidegate_types::class::ClassId;
use tidegate_types::units::Size;

use super::Node;
use super::durable::{Leg, Logged, all_of};
use super::streams::StreamKey;

impl Node {
    /// Takes the oldest waiting record of a stream out of memory, for the log has it; false if that
    /// cannot be: it is not on disk yet, or a part of it is under way.
    pub(super) fn leave_oldest(&mut self, key: StreamKey) -> bool {
        let Some(oldest) = self.oldest_waiting(key) else { return false };
        let Some(delivery) = self.queues.get(oldest) else { return false };
        let record = delivery.record;
        let Some(owed) = &self.held[record].owed else { return false };
        let Some(logged) = owed.logged else { return false };
        let store = self.store.as_ref();
        let is_on_disk = store.is_some_and(|store| !store.unappended.contains_key(&logged.number));
        let waits = |leg: &Leg| {
            let known = self.queues.get(leg.delivery);
            known.is_some_and(|delivery| matches!(delivery.place(), Place::Waiting(_)))
        };
        if !is_on_disk || !owed.legs.iter().all(waits) {
            return false;
        }
        self.leave(record, logged);
        true
    }

    /// Takes a record out of memory that the log has.
    pub(super) fn leave(&mut self, record: RecordKey, logged: Logged) {
        let deliveries = self.legs_of(record);
        let may_be_there = self.may_be_there(record);
        deliveries.into_iter().for_each(|key| self.forget_replaced(key, record));
        let held = self.held.remove(record).expect("a record is left once");
        let owed = held.owed.expect("what is logged is owed");
        for leg in &owed.legs {
            self.queues.forget(leg.delivery);
            if let Some(at) = held.record.expires {
                self.expiry.remove(&(at, leg.delivery));
            }
        }
        self.held_bytes -= held.size;
        self.note_ahead(owed.ahead, held.size);
        let deliveries = owed.legs.len() as u64;
        let class = self.options.rules.get(self.streams.get(held.stream).rule).class;
        let Logged { stream: id, seq, segment, .. } = logged;
        let left = self.backlog.put_back(id, held.stream, class, segment);
        left.chunks.entry(segment).or_default().add(seq, all_of(&owed.legs), held.size);
        left.mark(seq, may_be_there);
        let to = left.stream;
        self.backlog.deliveries += deliveries;
        self.count_left(held.stream, to, held.size, deliveries);
    }

    /// Where an attempt to send a record may have arrived.
    fn may_be_there(&self, record: RecordKey) -> Destinations {
        let owed = self.held.get(record).and_then(|held| held.owed.as_ref());
        let legs = owed.into_iter().flat_map(|owed| &owed.legs);
        let is_marked =
            |leg: &&Leg| self.queues.get(leg.delivery).is_some_and(|one| one.progress.again);
        legs.filter(is_marked).fold(Destinations::NONE, |all, leg| all | leg.destinations)
    }

    /// A record that was read back left memory.
    pub(super) fn note_ahead(&mut self, class: Option<ClassId>, size: Size) {
        if let Some(ahead) = class.and_then(|class| self.backlog.ahead.get_mut(&class)) {
            *ahead -= size;
        }
    }
}
