//! Whether an offer is taken: the rule that covers it, the bounds, and what happens where it does not fit.

use std::time::Duration;

use super::Node;
use super::sources::Room;
use super::streams::StreamKey;
use crate::io::{Output, OutputId};
use crate::queue::{Place, QueueKey, QueueSpec};
use crate::record::{AcceptMode, DropReason, Fate, Offered, RefuseReason, SourceId};
use crate::rules::{FullPolicy, Rule, RuleId};
use crate::units::{Size, Time};

/// What became of an offer.
#[derive(Debug)]
pub(super) enum Admission {
    /// Accepted, dropped or refused.
    Done,
    /// It must wait.
    Wait(Box<Misfit>),
}

/// A record that must wait.
#[derive(Debug)]
pub(super) struct Misfit {
    pub(super) offered: Offered,
    pub(super) stream: StreamKey,
    /// What it finds too little of.
    pub(super) room: Room,
    /// How long it may wait.
    pub(super) patience: Duration,
}

/// A record's size as bounds count it: key, properties and payload.
fn size_of(offered: &Offered) -> Size {
    Size(offered.key.len() as u64) + offered.properties.size() + offered.body.size()
}

/// What the queue of a rule's stream for one of its outputs is.
pub(super) fn queue_spec(id: RuleId, rule: &Rule, output: OutputId) -> QueueSpec {
    let Rule { class, discipline, strict_order, .. } = *rule;
    QueueSpec { rule: id, class, output, discipline, strict_order }
}

impl Node {
    /// Accepts, drops or refuses one offer of an open connection, or says that it must wait for room.
    pub(super) fn admit(&mut self, now: Time, offered: Offered) -> Admission {
        let size = size_of(&offered);
        let rule =
            std::str::from_utf8(&offered.key).ok().and_then(|key| self.options.rules.find(key));
        let found = match rule {
            _ if self.is_stopping => Err(RefuseReason::Stopping),
            None => Err(RefuseReason::NoRule),
            Some(rule) if self.is_oversize(rule, size) => Err(RefuseReason::Oversize),
            Some(rule) => self.stream_of(offered.source, rule).ok_or(RefuseReason::TooManyStreams),
        };
        let stream = match found {
            Ok(stream) => stream,
            Err(reason) => {
                self.refuse(&offered, rule, reason);
                return Admission::Done;
            }
        };
        if let Some(patience) = self.inbound.wait(now) {
            let room = Room::Inbound;
            return Admission::Wait(Box::new(Misfit { offered, stream, room, patience }));
        }
        let freed = self.superseded_size(stream, &offered.key);
        match self.lacks(stream, size, freed) {
            None => {
                self.accept(now, offered, stream, size);
                Admission::Done
            }
            Some(room) => self.apply_full_policy(now, offered, stream, room),
        }
    }

    /// Whether it would not fit even if nothing else were there.
    fn is_oversize(&self, rule: RuleId, size: Size) -> bool {
        let rule = self.options.rules.get(rule);
        let bounds = [self.options.record_max, rule.bound, self.options.memory_for(rule.class)];
        bounds.into_iter().any(|bound| size > bound)
    }

    /// What a record of this size finds too little of, once `freed` bytes of its stream are gone.
    fn lacks(&self, key: StreamKey, size: Size, freed: Size) -> Option<Room> {
        let stream = self.streams.get(key);
        let rule = self.options.rules.get(stream.rule);
        if stream.bytes + size > rule.bound + freed {
            Some(Room::Stream(key))
        } else if self.held_bytes + size > self.options.memory_for(rule.class) + freed {
            Some(Room::Memory(rule.class))
        } else {
            None
        }
    }

    fn apply_full_policy(
        &mut self,
        now: Time,
        offered: Offered,
        stream: StreamKey,
        room: Room,
    ) -> Admission {
        let rule = self.streams.get(stream).rule;
        match self.options.rules.get(rule).full {
            FullPolicy::Block(patience) if self.streams.get(stream).full_for.is_none() => {
                return Admission::Wait(Box::new(Misfit { offered, stream, room, patience }));
            }
            FullPolicy::DropOldest => self.replace_oldest(now, offered, stream),
            FullPolicy::DropNewest => self.accept_and_drop(now, offered, stream),
            FullPolicy::Reject | FullPolicy::Block(_) => {
                self.refuse(&offered, Some(rule), RefuseReason::Full);
            }
        }
        self.now_full(stream, room);
        Admission::Done
    }

    /// Drops the stream's oldest waiting records until the new one fits. Where that cannot help, for
    /// other streams fill the memory or too much is under way, none is dropped and it is refused.
    fn replace_oldest(&mut self, now: Time, offered: Offered, stream: StreamKey) {
        let size = size_of(&offered);
        let droppable = self.waiting_bytes(stream).min(self.streams.get(stream).bytes);
        if self.lacks(stream, size, droppable).is_none() {
            while self.lacks(stream, size, Size::ZERO).is_some() && self.drop_oldest(now, stream) {}
        }
        if self.lacks(stream, size, Size::ZERO).is_none() {
            self.accept(now, offered, stream, size);
        } else {
            let rule = self.streams.get(stream).rule;
            self.refuse(&offered, Some(rule), RefuseReason::Full);
        }
    }

    /// Bytes that dropping all that waits of a stream would free at most.
    fn waiting_bytes(&self, stream: StreamKey) -> Size {
        let queues = self.streams.get(stream).queues();
        queues.map(|queue| self.queues.backlog_of(queue).bytes).max().unwrap_or_default()
    }

    fn drop_oldest(&mut self, now: Time, stream: StreamKey) -> bool {
        let queues = self.streams.get(stream).queues();
        let oldest = queues
            .filter_map(|queue| self.queues.oldest(queue))
            .min_by_key(|&key| self.queues.get(key).map(|delivery| delivery.order));
        if let Some(oldest) = oldest {
            self.finish(now, oldest, Fate::Dropped(DropReason::Full));
        }
        oldest.is_some()
    }

    /// The newest of a full stream: accepted, and dropped in the same breath.
    fn accept_and_drop(&mut self, now: Time, offered: Offered, key: StreamKey) {
        self.inbound.spend(now, size_of(&offered));
        let stream = self.streams.get_mut(key);
        stream.seq += 1;
        let rule_id = stream.rule;
        let rule = self.options.rules.get(rule_id);
        self.tally.accepted_and_dropped(rule_id, rule.to.len(), DropReason::Full);
        if let Some(token) = offered.token {
            let result = match rule.accept {
                AcceptMode::Memory | AcceptMode::Durable => Ok(()),
                AcceptMode::Confirmed => Err(RefuseReason::Dropped(DropReason::Full)),
            };
            self.outbox.push_back(Output::Accept { source: offered.source, token, result });
        }
    }

    /// Bytes that the record free of which this key's next one takes the place (`newest-only`).
    fn superseded_size(&self, key: StreamKey, record_key: &[u8]) -> Size {
        let Some((old, deliveries)) = self.streams.get(key).newest_of(record_key) else {
            return Size::ZERO;
        };
        let waits = |&&delivery: &&_| {
            let known = self.queues.get(delivery);
            known.is_some_and(|delivery| matches!(delivery.place(), Place::Waiting(_)))
        };
        let held = &self.held[*old];
        let is_free = deliveries.iter().filter(waits).count() == held.left as usize;
        if is_free { held.size } else { Size::ZERO }
    }

    /// The stream that this connection feeds under this rule; `None` when the table is full.
    fn stream_of(&mut self, source: SourceId, rule: RuleId) -> Option<StreamKey> {
        let state = self.sources.get_mut(source)?;
        if let Some(stream) = state.stream(rule) {
            return Some(stream);
        }
        let name = state.name.clone();
        let stream = match self.streams.attach(rule, &name) {
            Some(stream) => stream,
            None => {
                for queue in self.streams.make_place()? {
                    self.queues.close(queue);
                }
                let queues = self.open_queues(rule);
                self.streams.create(rule, name, &queues)
            }
        };
        self.sources.get_mut(source)?.streams.push((rule, stream));
        Some(stream)
    }

    fn open_queues(&mut self, id: RuleId) -> Vec<QueueKey> {
        let rule = self.options.rules.get(id);
        rule.to.iter().map(|&output| self.queues.open(queue_spec(id, rule, output))).collect()
    }

    /// Drops what waits of a key whose newer record comes now (`newest-only`).
    pub(super) fn supersede(&mut self, now: Time, stream: StreamKey, record_key: &[u8]) {
        let Some(newest) = &mut self.streams.get_mut(stream).newest else { return };
        let Some((_, deliveries)) = newest.remove(record_key) else { return };
        for delivery in deliveries {
            // What is under way already is finished: its bytes are spent.
            if self.queues.take(delivery) {
                self.finish(now, delivery, Fate::Dropped(DropReason::Superseded));
            }
        }
    }

    pub(super) fn refuse(&mut self, offered: &Offered, rule: Option<RuleId>, reason: RefuseReason) {
        self.tally.refused(rule);
        if let Some(token) = offered.token {
            let result = Err(reason);
            self.outbox.push_back(Output::Accept { source: offered.source, token, result });
        }
    }
}
