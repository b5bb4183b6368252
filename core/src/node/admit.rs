//! Whether an offer is taken: the rule that covers it, the bounds, and what happens where it does not fit.

use std::sync::Arc;
use std::time::Duration;

use super::Node;
use super::ingest::Keep;
use super::sources::Room;
use super::streams::StreamKey;
use crate::class::ClassId;
use crate::io::{Output, OutputId};
use crate::queue::{DeliveryKey, Place, QueueKey, QueueSpec};
use crate::record::{AcceptMode, DropReason, Fate, Offered, RefuseReason, SourceId};
use crate::rules::{FullPolicy, Rule, RuleId};
use crate::units::{Size, Time};

/// The part of the memory whose bytes may be on their way to the log.
const UNAPPENDED_PART: u64 = 4;

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
pub(super) fn size_of(offered: &Offered) -> Size {
    Size(offered.key.len() as u64) + offered.properties.size() + offered.body.size()
}

/// What the queue of a rule's stream for one of its outputs is.
pub(super) fn queue_spec(id: RuleId, rule: &Rule, output: OutputId) -> QueueSpec {
    let Rule { class, discipline, strict_order, .. } = *rule;
    QueueSpec { rule: id, class, output, home: output, discipline, strict_order }
}

impl Node {
    /// Accepts, drops or refuses one offer of an open connection, or says that it must wait for room.
    pub(super) fn admit(&mut self, now: Time, offered: Offered) -> Admission {
        let size = size_of(&offered);
        let (relays, bound) = self
            .sources
            .get(offered.source)
            .map_or((None, None), |source| (source.relays, source.bound));
        let rule = bound.or_else(|| self.rule_of(&offered.key, relays));
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
        if self.is_log_failing() && self.is_durable(stream) {
            self.refuse(&offered, rule, RefuseReason::Storage);
            return Admission::Done;
        }
        if self.lacks_session(&offered) && self.is_durable(stream) {
            self.refuse(&offered, rule, RefuseReason::Full);
            return Admission::Done;
        }
        let freed = self.superseded_size(stream, &offered.key);
        match self.room_for(&offered, stream, size, freed) {
            Ok(keep) => {
                self.accept(now, offered, stream, size, keep, None);
                Admission::Done
            }
            Err(room) => self.apply_full_policy(now, offered, stream, room),
        }
    }

    /// The rule of a key, or that of a neighbour's records of a class.
    pub(super) fn rule_of(&self, key: &[u8], relays: Option<ClassId>) -> Option<RuleId> {
        let rules = &self.options.rules;
        match relays {
            Some(class) => rules.relaying(class),
            None => std::str::from_utf8(key).ok().and_then(|key| rules.find(key)),
        }
    }

    fn is_durable(&self, stream: StreamKey) -> bool {
        let rule = self.options.rules.get(self.streams.get(stream).rule);
        rule.accept == AcceptMode::Durable
    }

    /// Where a record fits, or what it finds too little of. For want of memory a durable one goes to the
    /// log only, or better: an older one of its stream does.
    pub(super) fn room_for(
        &mut self,
        offered: &Offered,
        key: StreamKey,
        size: Size,
        freed: Size,
    ) -> Result<Keep, Room> {
        let rule = self.options.rules.get(self.streams.get(key).rule);
        let is_ready = offered.body.is_ready();
        let can_leave = is_ready && rule.can_leave();
        if can_leave && rule.strict_order && self.streams.get(key).left > 0 {
            // What is on disk goes before it.
            return self.lacks_in_all(key, size, freed).map_or(Ok(Keep::InLog), Err);
        }
        if let Some(room) = self.lacks_in_all(key, size, freed) {
            return Err(room);
        }
        while let Some(room) = self.lacks_in_memory(key, size, freed) {
            if !can_leave {
                return Err(room);
            }
            let is_strict = self.options.rules.get(self.streams.get(key).rule).strict_order;
            if is_strict || !self.leave_oldest(key) {
                return Ok(Keep::InLog);
            }
        }
        Ok(Keep::InMemory)
    }

    /// Whether it would not fit even if nothing else were there.
    pub(super) fn is_oversize(&self, rule: RuleId, size: Size) -> bool {
        let rule = self.options.rules.get(rule);
        let own = rule.bound.min(rule.memory);
        let bounds = [self.options.record_max, own, self.options.memory_for(rule.class)];
        bounds.into_iter().any(|bound| size > bound)
    }

    /// What a record of this size finds too little of, once `freed` bytes of its stream are gone.
    pub(super) fn lacks(&self, key: StreamKey, size: Size, freed: Size) -> Option<Room> {
        self.lacks_in_all(key, size, freed).or_else(|| self.lacks_in_memory(key, size, freed))
    }

    /// The same, of what holds for records in memory and for those in the log.
    fn lacks_in_all(&self, key: StreamKey, size: Size, freed: Size) -> Option<Room> {
        let stream = self.streams.get(key);
        let rule = self.options.rules.get(stream.rule);
        let is_durable = rule.accept == AcceptMode::Durable;
        let ahead = Size(self.options.memory.0 / UNAPPENDED_PART);
        if stream.bytes + size > rule.bound + freed {
            Some(Room::Stream(key))
        } else if is_durable && !self.store.as_ref().is_some_and(|log| log.has_room(size, ahead)) {
            Some(Room::Log)
        } else if is_durable {
            self.lacks_log_share(key, size)
        } else {
            None
        }
    }

    /// The same, of what holds for records in memory.
    fn lacks_in_memory(&self, key: StreamKey, size: Size, freed: Size) -> Option<Room> {
        let stream = self.streams.get(key);
        let rule = self.options.rules.get(stream.rule);
        if stream.in_memory() + size > rule.memory + freed {
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
            FullPolicy::DropOldest => self.replace_oldest(now, offered, stream, room),
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
    fn replace_oldest(&mut self, now: Time, offered: Offered, stream: StreamKey, room: Room) {
        let size = size_of(&offered);
        if matches!(room, Room::Log | Room::Share(_)) {
            self.drop_segments(now, stream, size, room);
        }
        let droppable = self.waiting_bytes(stream).min(self.streams.get(stream).bytes);
        if self.lacks(stream, size, droppable).is_none() {
            while self.lacks(stream, size, Size::ZERO).is_some() && self.drop_oldest(now, stream) {}
        }
        match self.room_for(&offered, stream, size, Size::ZERO) {
            Ok(keep) => {
                self.accept(now, offered, stream, size, keep, None);
            }
            Err(_) => {
                let rule = self.streams.get(stream).rule;
                self.refuse(&offered, Some(rule), RefuseReason::Full);
            }
        }
    }

    /// Bytes that dropping all that waits of a stream would free at most.
    fn waiting_bytes(&self, stream: StreamKey) -> Size {
        let bytes = |queue| self.queues.backlog_of(queue).bytes;
        let own = self.streams.get(stream);
        let elsewhere: Size = own.side_queues.values().copied().map(bytes).sum();
        let waiting = own.queues().map(bytes).max().map(|most| most + elsewhere);
        let chunks = (self.streams.get(stream).left > 0).then(|| self.backlog.chunks_of(stream));
        let left: Size = chunks.into_iter().flatten().map(|(.., bytes)| bytes).sum();
        waiting.unwrap_or_default() + left
    }

    /// The oldest delivery that waits in memory.
    pub(super) fn oldest_waiting(&self, stream: StreamKey) -> Option<DeliveryKey> {
        let queues = self.streams.get(stream).all_queues();
        let oldest = queues.filter_map(|queue| self.queues.oldest(queue));
        oldest.min_by_key(|&key| self.queues.get(key).map(|delivery| delivery.order))
    }

    fn drop_oldest(&mut self, now: Time, stream: StreamKey) -> bool {
        if self.drop_oldest_left(now, stream) {
            return true;
        }
        let oldest = self.oldest_waiting(stream);
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

    /// The stream that this connection feeds under this rule; `None` when the table is full, or its owner's
    /// share of it.
    fn stream_of(&mut self, source: SourceId, rule: RuleId) -> Option<StreamKey> {
        let state = self.sources.get_mut(source)?;
        if let Some(stream) = state.stream(rule) {
            return Some(stream);
        }
        let (name, owner) = (state.name.clone(), state.owner);
        let known = self.streams.find(rule, &name);
        let is_news = known.is_none_or(|stream| self.streams.is_idle(stream));
        if is_news && !self.has_stream_share(owner) {
            return None;
        }
        let stream = match known {
            Some(stream) => stream,
            None => self.create_stream(rule, name)?,
        };
        self.streams.attach(stream, owner);
        self.sources.get_mut(source)?.streams.push((rule, stream));
        Some(stream)
    }

    /// A new stream that nobody feeds yet; `None` when the table is full of streams in use.
    pub(super) fn create_stream(&mut self, rule: RuleId, name: Arc<str>) -> Option<StreamKey> {
        for queue in self.streams.make_place()? {
            self.close_queue(queue);
        }
        let queues = self.open_queues(rule);
        Some(self.streams.create(rule, name, &queues))
    }

    pub(super) fn open_queues(&mut self, id: RuleId) -> Vec<QueueKey> {
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
