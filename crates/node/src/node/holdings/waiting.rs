//! What waits is picked, comes back, is moved or changed.

use std::sync::Arc;

use tidegate_schedule::queue::{
    DeliveryKey, DeliveryState, List, MoveTarget, QueueKey, QueueSpec, RecordKey,
};
use tidegate_types::class::ClassId;
use tidegate_types::record::Record;
use tidegate_types::units::{Rate, Size, Time};

use super::Holdings;
use super::record::end_of;
use super::streams::StreamKey;
use crate::io::OutputId;

/// Bytes of a delivery that go to a connection at once.
pub(crate) struct Cut {
    pub(crate) start: Size,
    pub(crate) end: Size,
    /// Number of the delivery on its connection.
    pub(crate) number: u64,
    /// Whether an earlier attempt may have arrived.
    pub(crate) again: bool,
    /// Whether the record is whole with it.
    pub(crate) is_last: bool,
}

/// Picking.
impl Holdings {
    /// The most urgent ready records of a class for an output: the live one and the late one.
    pub(crate) fn heads(
        &mut self,
        class: ClassId,
        output: OutputId,
        now: Time,
    ) -> [Option<DeliveryKey>; 2] {
        self.queues.heads(class, output, now)
    }

    /// The same, of those that may go by a neighbour.
    pub(crate) fn heads_by(
        &mut self,
        (class, output): (ClassId, OutputId),
        peer: OutputId,
        now: Time,
    ) -> [Option<DeliveryKey>; 2] {
        let (queues, rules) = (&mut self.queues, &self.options.rules);
        queues.heads_of((class, output), now, |rule| rules.get(rule).may_go_by(peer))
    }

    /// Whether a delivery is of a neighbour's record.
    pub(crate) fn is_lent(&self, key: DeliveryKey) -> bool {
        let delivery = self.queues.get(key);
        delivery.is_some_and(|one| self.options.rules.get(one.spec.rule).relays.is_some())
    }

    /// Every delivery of a neighbour's record: each is to be given back at some time.
    pub(crate) fn lent(&self) -> Vec<DeliveryKey> {
        self.expiry.iter().map(|(_, key)| *key).filter(|key| self.is_lent(*key)).collect()
    }

    /// Bytes of neighbours' records that wait in a class of our own.
    pub(crate) fn lent_backlog(&self, class: ClassId) -> Size {
        let Some(rule) = self.options.rules.relaying(class, true) else { return Size::ZERO };
        let own = self.streams.all().filter(|(_, stream)| stream.rule == rule);
        let queues = own.flat_map(|(_, stream)| stream.queues());
        queues.map(|queue| self.queues.backlog_of(queue).bytes).sum()
    }

    /// Lets a waiting delivery go by another output than its queue's, until it comes back.
    pub(crate) fn divert(&mut self, now: Time, key: DeliveryKey, output: OutputId) {
        if self.queues.take(key) {
            self.queues.charge(now, key);
            self.queues.divert(key, output);
        }
    }

    /// A delivery that was taken off its connection's list goes on by another output, which has had it since then.
    pub(crate) fn go_on(&mut self, key: DeliveryKey, output: OutputId, picked_at: Time) {
        self.queues.divert(key, output);
        if let Some(delivery) = self.queues.get_mut(key) {
            delivery.progress.picked_at = picked_at;
        }
    }

    /// Takes the next bytes of a delivery for its connection, of whose deliveries `last_number` is the last
    /// one's number.
    pub(crate) fn take_cut(
        &mut self,
        now: Time,
        key: DeliveryKey,
        size: Size,
        last_number: &mut u64,
    ) -> Cut {
        if self.queues.take(key) {
            self.queues.charge(now, key);
        }
        let delivery = self.queues.get_mut(key).expect("a candidate is known");
        let progress = &mut delivery.progress;
        let start = progress.picked;
        if start == Size::ZERO {
            *last_number += 1;
            progress.picked_at = now;
            progress.number = *last_number;
        }
        let end = start + size;
        progress.picked = end;
        let (number, again) = (progress.number, progress.again);
        Cut { start, end, number, again, is_last: end == delivery.size }
    }

    /// Adds a delivery that is wholly picked to what its connection has sent and nobody confirmed.
    pub(crate) fn await_fate(&mut self, list: &mut List, key: DeliveryKey) {
        self.queues.await_fate(list, key);
    }

    /// Takes an unconfirmed delivery off its connection's list; false if it is not unconfirmed.
    pub(crate) fn take_unconfirmed(&mut self, list: &mut List, key: DeliveryKey) -> bool {
        self.queues.take_unconfirmed(list, key)
    }

    /// The last byte of a transmission is on the wire: here its residence ends, unless the record came
    /// back meanwhile.
    pub(crate) fn handed(&mut self, now: Time, key: DeliveryKey, number: u64) {
        let Some(delivery) = self.queues.get_mut(key) else { return };
        let is_waiting = matches!(delivery.place(), DeliveryState::Waiting(_));
        let progress = &delivery.progress;
        if !is_waiting && progress.number == number && !progress.is_handed() {
            self.tally.handed(now, delivery);
            self.coflows.handed(now, key);
        }
    }

    /// A delivery is to be sent again from its first byte. It may have arrived, where a connection was lost
    /// as where a far end refuses it: a part of that may have taken it.
    pub(crate) fn begin_again(&mut self, key: DeliveryKey, was_lost: bool) {
        let Some(delivery) = self.queues.get_mut(key) else { return };
        let progress = &mut delivery.progress;
        progress.again = true;
        progress.picked = Size::ZERO;
        progress.handed_at = Time::FAR;
        self.coflows.begin_again(key);
        if was_lost {
            let stream = self.records[delivery.record].stream;
            self.tally.again(self.streams.get(stream).rule);
        }
    }

    /// Whether a newer record has taken the place of a delivery's.
    pub(crate) fn is_outdated(&self, key: DeliveryKey) -> bool {
        let Some(delivery) = self.queues.get(key) else { return false };
        let held = &self.records[delivery.record];
        let newest = self.streams.get(held.stream).newest_of(&held.record.key);
        newest.is_some_and(|(newest, _)| *newest != delivery.record)
    }

    /// A delivery that was out of its queue is the next of it again.
    pub(crate) fn put_back(&mut self, now: Time, key: DeliveryKey) {
        let Some(delivery) = self.queues.get(key) else { return };
        let held = &self.records[delivery.record];
        let ends = end_of(&held.record, self.options.rules.get(self.streams.get(held.stream).rule));
        if let Some(at) = ends.filter(|&at| at <= now) {
            // Its time passed while it was under way; the index of expiry has let it go.
            self.expiry.insert((at, key));
        }
        self.queues.put_back(key, now);
    }
}

/// Changing.
impl Holdings {
    /// Takes a waiting delivery out of its queue; false for one that does not wait.
    pub(crate) fn take(&mut self, key: DeliveryKey) -> bool {
        self.queues.take(key)
    }

    /// A waiting delivery does not go until it is made ready.
    pub(crate) fn hold(&mut self, key: DeliveryKey) {
        self.queues.hold(key);
    }

    /// A delivery may go.
    pub(crate) fn make_ready(&mut self, key: DeliveryKey) {
        let Some(delivery) = self.queues.get(key) else { return };
        let overhead = self.options.outputs[usize::from(delivery.spec.output.0)].overhead;
        let replaced = self.replaced(key).map(|record| record.size());
        let size = replaced.unwrap_or(self.records[delivery.record].size) + overhead;
        self.queues.resize(key, size);
    }

    /// Makes a waiting delivery the next of its list, or the last.
    pub(crate) fn move_to(&mut self, key: DeliveryKey, turn: MoveTarget) {
        self.queues.move_to(key, turn);
    }

    /// Makes a waiting delivery the one that goes right after another one of its queue.
    pub(crate) fn move_after(&mut self, key: DeliveryKey, before: DeliveryKey) {
        self.queues.move_after(key, before);
    }

    /// Puts a waiting delivery in another queue, from which it goes by another output.
    pub(crate) fn move_towards(&mut self, now: Time, key: DeliveryKey, queue: QueueKey) {
        let Some(spec) = self.queues.spec(queue) else { return };
        self.reroute(key, spec.output);
        let Some(deadline) = self.queues.get(key).map(|delivery| delivery.deadline) else { return };
        self.queues.reseat(key, queue, deadline, now);
    }

    /// The queue of a record's stream for another output than its own, or the way back to its own.
    pub(crate) fn queue_towards(
        &mut self,
        record: RecordKey,
        spec: QueueSpec,
        to: OutputId,
    ) -> Option<QueueKey> {
        let stream = self.streams.get_mut(self.records.get(record)?.stream);
        let rule = self.options.rules.get(stream.rule);
        if to == spec.home {
            let place = rule.to.iter().position(|own| *own == to)?;
            return stream.queues().nth(place);
        }
        let (queues, id) = (&mut self.queues, stream.rule);
        let open =
            || queues.open(QueueSpec { output: to, ..super::queue_spec(id, rule, spec.home) });
        Some(*stream.side_queues.entry((spec.home, to)).or_insert_with(open))
    }

    /// The size of a delivery is another one on its way to another output.
    pub(super) fn reroute(&mut self, key: DeliveryKey, to: OutputId) {
        let Some(delivery) = self.queues.get(key).filter(|delivery| delivery.spec.output != to)
        else {
            return;
        };
        let overhead = |output: OutputId| self.options.outputs[usize::from(output.0)].overhead;
        let size = delivery.size - overhead(delivery.spec.output) + overhead(to);
        if delivery.ready {
            self.queues.resize(key, size);
        }
    }

    /// Lets a delivery carry something else than its record.
    pub(crate) fn replace(&mut self, key: DeliveryKey, changed: Record) {
        let Some(&super::Delivery { record, size, ready, .. }) = self.queues.get(key) else {
            return;
        };
        let Some(old) = self.content(key).map(|present| present.size()) else { return };
        let new = changed.size();
        self.forget_replaced(key, record);
        let stream = self.streams.get_mut(self.records[record].stream);
        self.account.hold(&mut stream.account, 0, new);
        self.replaced.insert(key, Arc::new(changed));
        if ready {
            self.queues.resize(key, size - old + new);
        }
    }

    /// Bytes that a delivery carries beside its record.
    pub(crate) fn replaced_size(&self, key: DeliveryKey) -> Size {
        self.replaced(key).map_or(Size::ZERO, |record| record.size())
    }

    /// What the delivery carries in place of its record is needed no more.
    #[inline]
    pub(super) fn forget_replaced(&mut self, key: DeliveryKey, record: RecordKey) {
        if self.replaced(key).is_none() {
            return;
        }
        if let Some(gone) = self.replaced.remove(key) {
            let stream = self.streams.get_mut(self.records[record].stream);
            self.account.free(&mut stream.account, 0, gone.size());
        }
    }

    /// The oldest delivery of a stream that waits.
    pub(crate) fn oldest_waiting(&self, stream: StreamKey) -> Option<DeliveryKey> {
        let queues = self.streams.get(stream).all_queues();
        let oldest = queues.filter_map(|queue| self.queues.oldest(queue));
        oldest.min_by_key(|&key| self.queues.get(key).map(|delivery| delivery.order))
    }

    /// Holds a queue to a rate of its own, or no more.
    pub(crate) fn set_rate(&mut self, now: Time, queue: QueueKey, rate: Option<Rate>) {
        self.queues.set_rate(now, queue, rate);
    }

    /// Lets queues go on whose own rate has waited long enough.
    pub(crate) fn release_due(&mut self, now: Time) {
        self.queues.release_due(now);
    }

    /// Counts the records and the sets whose deadline has passed while they wait.
    pub(crate) fn pass_deadlines(&mut self, now: Time) {
        self.queues.pass_deadlines(now, |rule| self.tally.violated(rule));
        self.coflows.pass(now);
    }
}
