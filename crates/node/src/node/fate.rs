//! The end of deliveries: each gets its fate once, and what nothing needs any more is freed.

use tidegate_schedule::queue::{DeliveryKey, Place, RecordKey};
use tidegate_types::record::{DropReason, Fate, RefuseReason};
use tidegate_types::units::{Size, Time};

use super::Node;
use super::relay::ends_of;

impl Node {
    /// Drops what expired and lets in what waited for room; what waited may have expired meanwhile.
    pub(super) fn settle(&mut self, now: Time) {
        loop {
            self.expire(now);
            self.readmit(now);
            if self.expiry.first().is_none_or(|&(at, _)| at > now) {
                break;
            }
        }
    }

    /// Drops what expired.
    fn expire(&mut self, now: Time) {
        while let Some(&(at, key)) = self.expiry.first() {
            if at > now {
                break;
            }
            self.expiry.pop_first();
            self.time_is_over(now, key);
        }
    }

    /// Drops a record whose sender is gone, unless some of it is under way.
    pub(super) fn give_up(&mut self, now: Time, key: DeliveryKey) {
        let Some(delivery) = self.queues.get(key) else { return };
        let is_unsent = delivery.progress.picked == Size::ZERO;
        if is_unsent && delivery.place() != Place::Unconfirmed {
            self.finish(now, key, Fate::Dropped(DropReason::Withdrawn));
        }
    }

    /// Gives a delivery its fate, once, and frees what nothing needs any more.
    pub(super) fn finish(&mut self, now: Time, key: DeliveryKey, fate: Fate) {
        let Some(delivery) = self.queues.forget(key) else { return };
        let record_key = delivery.record;
        let by = self.redirect.carrier(delivery.spec.output);
        let by = by.filter(|_| fate == Fate::Confirmed);
        self.log_fate(now, record_key, key, (fate, by));
        self.forget_replaced(key, record_key);
        if fate == Fate::Confirmed {
            self.note_latency(now, &delivery);
        }
        let held = &mut self.held[record_key];
        if delivery.can_expire {
            let rule = self.options.rules.get(delivery.spec.rule);
            for at in ends_of(&held.record, rule) {
                self.expiry.remove(&(at, key));
            }
        }
        held.left -= 1;
        self.streams.get_mut(held.stream).held -= 1;
        self.tally.finished(now, &delivery, fate);
        if let Fate::Dropped(reason) = fate {
            held.dropped.get_or_insert(reason);
        }
        if held.left == 0 {
            self.release(record_key);
        }
    }

    /// Forgets a record of which every delivery has its fate.
    fn release(&mut self, key: RecordKey) {
        let held = self.held.remove(key).expect("a record is released once");
        self.held_bytes -= held.size;
        let stream = self.streams.get_mut(held.stream);
        stream.bytes -= held.size;
        if let Some(newest) = &mut stream.newest
            && newest.get(&held.record.key).is_some_and(|(newest, _)| *newest == key)
        {
            newest.remove(&held.record.key);
        }
        self.made_room(held.stream, held.dropped != Some(DropReason::Full));
        self.streams.note_idle(held.stream);
        if let Some(owed) = held.owed {
            let result = held.dropped.map_or(Ok(()), |reason| Err(RefuseReason::Dropped(reason)));
            self.answer(owed.reply, result);
            self.note_ahead(owed.ahead, held.size);
        }
        self.check_drained();
    }
}
