//! What scripts and the console do to waiting records: the verdicts of BumbleBee's Table I.
//!
//! An edit names a delivery. One that left meanwhile, that is under way or in another queue is not touched,
//! so a stale handle is harmless.

use tidegate_schedule::queue::{Delivery, DeliveryKey, QueueKey, QueueSpec, RecordKey, Turn};
use tidegate_types::record::{DeliveryId, DropReason, Fate, Offered, Record, SourceId};
use tidegate_types::units::{Size, Time};

use super::Node;
use super::admit::{queue_spec, size_of};
use super::ingest::Keep;
use crate::io::{Content, Destination, Edit, Event, Output, OutputId, QueueId, Trigger};

/// The connection of what scripts insert: none that is ever open, so nobody is answered.
const NOBODY: SourceId = SourceId(u32::MAX);

impl Node {
    /// Applies edits in order.
    pub(super) fn edit(&mut self, now: Time, queue: QueueId, operations: Vec<Edit>) {
        for operation in operations {
            let id = operation.delivery();
            if self.is_waiting(queue, id) {
                self.edit_one(now, id.into(), operation);
            }
        }
    }

    fn edit_one(&mut self, now: Time, key: DeliveryKey, operation: Edit) {
        match operation {
            Edit::Drop(_) => self.finish(now, key, Fate::Dropped(DropReason::Script)),
            Edit::MoveFront(_) => _ = self.queues.move_to(key, Turn::Next),
            Edit::MoveBack(_) => _ = self.queues.move_to(key, Turn::Last),
            Edit::Redirect(_, Destination::Output(output)) => self.send_elsewhere(now, key, output),
            Edit::Redirect(_, Destination::Session(_)) => {
                self.report(Event::Unsupported("a redirection to a local subscriber"));
            }
            Edit::Replace(_, content) => {
                if !self.replace(key, content) {
                    self.fail_guarded(now, key);
                }
            }
            Edit::Guard(_, otherwise) => _ = self.adapted.guarded.insert(key, otherwise),
            Edit::Fail(_, otherwise) => self.fail(now, key, otherwise),
            Edit::Insert(_, content) => self.insert_after(now, key, content),
            Edit::Transform { endpoint, ordered, .. } => {
                if !self.transform(key, endpoint, ordered) {
                    self.fail_guarded(now, key);
                }
            }
        }
    }

    /// Sends a waiting record by another output, in the class and with the deadline that it has.
    fn send_elsewhere(&mut self, now: Time, key: DeliveryKey, to: OutputId) {
        let Some(&Delivery { record, spec, deadline, .. }) = self.queues.get(key) else { return };
        if usize::from(to.0) >= self.outputs.len() {
            return self
                .report(Event::Unsupported("a redirection to an output that does not exist"));
        }
        if to == spec.output {
            return;
        }
        let rule = self.options.rules.get(self.streams.get(self.held[record].stream).rule);
        if to != spec.home && rule.to.contains(&to) {
            // It goes there anyway, and must not go twice.
            return self.finish(now, key, Fate::Dropped(DropReason::Script));
        }
        let Some(queue) = self.queue_towards(record, spec, to) else { return };
        self.reroute(key, to);
        self.queues.reseat(key, queue, deadline, now);
        if let Some(delivery) = self.queues.get(key) {
            let uplink = usize::from(self.options.outputs[usize::from(to.0)].uplink.0);
            let (size, class) = (delivery.size, spec.class.index());
            self.uplinks[uplink].meters[class].0.count(now, size);
        }
    }

    /// The queue of a record's stream for another output than its own, or the way back to its own.
    fn queue_towards(
        &mut self,
        record: RecordKey,
        spec: QueueSpec,
        to: OutputId,
    ) -> Option<QueueKey> {
        let stream_key = self.held.get(record)?.stream;
        let stream = self.streams.get_mut(stream_key);
        if to == spec.home {
            let place = self.options.rules.get(stream.rule).to.iter().position(|own| *own == to)?;
            return stream.queues().nth(place);
        }
        let rule_id = stream.rule;
        let rule = self.options.rules.get(rule_id);
        let queues = &mut self.queues;
        let open = || queues.open(QueueSpec { output: to, ..queue_spec(rule_id, rule, spec.home) });
        Some(*stream.side_queues.entry((spec.home, to)).or_insert_with(open))
    }

    /// Accepts a record of a script's making and puts it behind the one that it was made from. Where it does
    /// not fit, there is none.
    fn insert_after(&mut self, now: Time, before: DeliveryKey, content: Content) {
        let Some(&Delivery { record, spec, .. }) = self.queues.get(before) else { return };
        let Some(like) = self.record(before.into()).cloned() else { return };
        let stream = self.held[record].stream;
        let Record { key, properties, body, expires, source_unix_ns, .. } =
            self.changed(&like, content);
        let offered = Offered {
            source: NOBODY,
            token: None,
            key,
            properties,
            body,
            read_at: now,
            source_unix_ns,
            ttl: expires.map(|at| at.since(now)),
            foreign: None,
            packet: None,
        };
        let size = size_of(&offered);
        let rule = self.streams.get(stream).rule;
        // What came back to a queue of earlier rules may have a destination that there is no more.
        let is_wanted = self.options.rules.get(rule).to.contains(&spec.home);
        let is_whole = offered.body.is_ready();
        if self.is_oversize(rule, size) || self.is_stopping || !is_wanted || !is_whole {
            return;
        }
        let Ok(Keep::InMemory) = self.room_for(&offered, stream, size, Size::ZERO) else { return };
        let home = Some(spec.home);
        if let Some(new) = self.accept(now, offered, stream, size, Keep::InMemory, home) {
            self.send_elsewhere(now, new, spec.output);
            self.queues.move_after(new, before);
        }
    }

    /// The next record that its script has not seen. It may go as soon as the answer is there; what other
    /// records can send meanwhile goes first, so that a slow script delays only its own.
    pub(super) fn next_script(&mut self) -> Option<Output> {
        while let Some(key) = self.adapted.unseen.pop_front() {
            let Some(&Delivery { record, queue, ready, .. }) = self.queues.get(key) else {
                continue;
            };
            if !ready && self.held[record].record.body.is_ready() && !self.waits_for_log(record) {
                self.make_ready(key);
            }
            let trigger = Trigger::Arrival(key.into());
            return Some(Output::RunScript { queue: queue.into(), trigger });
        }
        None
    }

    /// All queues, for whoever edits them.
    pub fn queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.queues.queues().map(QueueId::from)
    }

    /// What waits in a queue: late records first, each list from its front. Nothing for a stale handle.
    pub fn waiting(&self, queue: QueueId) -> impl Iterator<Item = DeliveryId> + '_ {
        self.queues.waiting(queue.into()).map(DeliveryId::from)
    }
}
