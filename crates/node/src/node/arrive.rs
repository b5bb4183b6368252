//! From an offer to a queue: what fits is accepted and put in its queues, what does not waits for room, and
//! its sender gets an answer when its rule promises one.

use std::sync::Arc;

use tidegate_schedule::queue::{DeliveryKey, QueueSpec, RecordKey};
use tidegate_types::class::ClassId;
use tidegate_types::record::{
    AcceptMode, DropReason, Fate, Identity, Offered, Record, RefuseReason, SourceId,
};
use tidegate_types::units::Size;

use super::admission::{Blocked, Fit, size_of};
use super::holdings::{Fresh, Keep, Room, StreamKey};
use super::outbox::ReplyTo;
use super::{Node, ahead};
use crate::io::{Output, OutputId};
use crate::rules::{FullPolicy, RuleId};

impl Node {
    /// Takes records in the order of reading.
    pub(super) fn ingest(&mut self, records: Vec<Offered>) {
        ahead::offers(&self.base, &records);
        for offered in records {
            let read_at = offered.read_at;
            let Some(state) = self.base.sources.get_mut(offered.source) else {
                self.base.holdings.count_refused(None);
                self.base.unsupported("a record of a connection that is not open");
                continue;
            };
            if state.is_held_up() {
                // The order of a connection is kept: behind one that waits all do.
                if let Some(offered) = state.keep_pending(offered) {
                    self.base.refuse(&offered, None, RefuseReason::Full);
                }
                continue;
            }
            match self.admit(offered) {
                None => self.admission.processing.measure(self.base.now.since(read_at)),
                Some(Blocked { offered, room, patience, .. }) => {
                    let (source, until) = (offered.source, self.base.now + patience);
                    self.base.sources.wait(offered, room, until, None);
                    self.base.outbox.push(Output::PauseInput(source));
                }
            }
        }
    }

    /// Accepts, drops or refuses one offer of an open connection, or answers that it must wait for room.
    fn admit(&mut self, mut offered: Offered) -> Option<Blocked> {
        let size = size_of(&offered);
        let source = self.base.sources.get(offered.source);
        let (relays, bound) = source.map_or((None, None), |source| (source.relays, source.bound));
        let (rule, turn) = match relays {
            Some(class) => self.rule_of_lent(class),
            None => (bound.or_else(|| self.base.options.rules.covering(&offered.key)), None),
        };
        if rule.is_some() && relays.is_some_and(|class| self.gives_back(class, turn)) {
            let back = RefuseReason::Dropped(DropReason::GivenBack);
            self.base.refuse(&offered, rule, back);
            return None;
        }
        let stream = match self.stream_for(offered.source, rule, size) {
            Ok(stream) => stream,
            Err(reason) => {
                self.base.refuse(&offered, rule, reason);
                return None;
            }
        };
        if let Some(patience) = self.admission.inbound.wait(self.base.now) {
            return Some(Blocked { offered, stream, room: Room::Inbound, patience });
        }
        if self.space().is_durable(stream) {
            let lacks_session = self.durability.lacks_session(&self.base, &offered);
            let reason = match self.durability.log().is_failing() {
                true => Some(RefuseReason::Storage),
                false => lacks_session.then_some(RefuseReason::Full),
            };
            if let Some(reason) = reason {
                self.base.refuse(&offered, rule, reason);
                return None;
            }
        }
        let freed = self.space().superseded_size(stream, &offered.key);
        match self.make_fit(stream, size, freed) {
            Ok(keep) => {
                if let Some(turn) = turn {
                    self.take_turn((rule, turn), &mut offered, size);
                }
                self.accept(offered, stream, size, keep, None);
                None
            }
            Err(room) => self.apply_full_policy(offered, stream, room),
        }
    }

    /// The stream of an offer, or why it is refused whatever room there is.
    fn stream_for(
        &mut self,
        source: SourceId,
        rule: Option<RuleId>,
        size: Size,
    ) -> Result<StreamKey, RefuseReason> {
        if self.is_stopping {
            return Err(RefuseReason::Stopping);
        }
        let rule = rule.ok_or(RefuseReason::NoRule)?;
        if self.space().is_oversize(rule, size) {
            return Err(RefuseReason::Oversize);
        }
        let stream = self.base.stream_of(source, rule);
        stream.ok_or(RefuseReason::TooManyStreams)
    }

    /// Where a record goes that fits, once `freed` bytes of its stream are gone, or what it finds too little
    /// of. Older records of a durable stream may leave memory for it.
    pub(super) fn make_fit(
        &mut self,
        stream: StreamKey,
        size: Size,
        freed: Size,
    ) -> Result<Keep, Room> {
        loop {
            match self.space().fit(stream, size, freed) {
                Fit::Keep(keep) => return Ok(keep),
                Fit::Lacks(room) => return Err(room),
                Fit::Leave(oldest) => self.leave(oldest),
            }
        }
    }

    fn apply_full_policy(
        &mut self,
        offered: Offered,
        stream: StreamKey,
        room: Room,
    ) -> Option<Blocked> {
        let known = self.base.holdings.stream(stream);
        let rule = known.rule;
        match self.base.options.rules.get(rule).full {
            FullPolicy::Block(patience) if known.full_for.is_none() => {
                return Some(Blocked { offered, stream, room, patience });
            }
            FullPolicy::DropOldest => self.replace_oldest(offered, stream, room),
            FullPolicy::DropNewest => self.accept_and_drop(&offered, stream),
            FullPolicy::Reject | FullPolicy::Block(_) => {
                self.base.refuse(&offered, Some(rule), RefuseReason::Full);
            }
        }
        self.admission.now_full(&mut self.base, stream, room);
        None
    }

    /// Drops the stream's oldest waiting records until the new one fits. Where that cannot help, for
    /// other streams fill the memory or too much is under way, none is dropped and it is refused.
    fn replace_oldest(&mut self, offered: Offered, stream: StreamKey, room: Room) {
        let size = size_of(&offered);
        if matches!(room, Room::Log | Room::Share(_)) {
            self.drop_segments(stream, size, room);
        }
        if self.space().would_fit(stream, size) {
            let lacks = |node: &Node| node.space().lacks(stream, size, Size::ZERO).is_some();
            while lacks(self) && self.drop_oldest(stream) {}
        }
        match self.make_fit(stream, size, Size::ZERO) {
            Ok(keep) => _ = self.accept(offered, stream, size, keep, None),
            Err(_) => {
                let rule = self.base.holdings.stream(stream).rule;
                self.base.refuse(&offered, Some(rule), RefuseReason::Full);
            }
        }
    }

    fn drop_oldest(&mut self, stream: StreamKey) -> bool {
        if self.drop_oldest_stored(stream) {
            return true;
        }
        let oldest = self.base.holdings.oldest_waiting(stream);
        if let Some(oldest) = oldest {
            self.finish(oldest, Fate::Dropped(DropReason::Full));
        }
        oldest.is_some()
    }

    /// The newest of a full stream: accepted, and dropped in the same breath.
    fn accept_and_drop(&mut self, offered: &Offered, stream: StreamKey) {
        self.admission.inbound.spend(self.base.now, size_of(offered));
        let rule = self.base.options.rules.get(self.base.holdings.stream(stream).rule);
        self.base.holdings.accept_and_drop(stream, rule.to.len() as u64);
        if let Some(token) = offered.token {
            let result = match rule.accept {
                AcceptMode::Memory | AcceptMode::Durable => Ok(()),
                AcceptMode::Confirmed => Err(RefuseReason::Dropped(DropReason::Full)),
            };
            self.base.outbox.push(Output::Accept { source: offered.source, token, result });
        }
    }

    /// Gives the record its identity and puts it in its queues (for `only` one destination, if given), or
    /// leaves it to the log; from here on it is the node's. Answers with its last delivery.
    pub(super) fn accept(
        &mut self,
        offered: Offered,
        stream: StreamKey,
        size: Size,
        keep: Keep,
        only: Option<OutputId>,
    ) -> Option<DeliveryKey> {
        self.supersede(stream, &offered.key);
        let seq = self.base.holdings.next_seq(stream);
        let reply = self.base.sources.reply_to(offered.source, offered.token, offered.packet);
        let again = offered.foreign.as_ref().is_some_and(|foreign| foreign.again);
        let mut record = self.record_of(offered, stream, seq);
        let times = (record.arrived, record.deadline);
        let coflow = self.base.holdings.join(stream, &record.properties, times);
        let coflow = coflow.map(|(key, deadline)| {
            record.deadline = deadline;
            key
        });
        let record = Arc::new(record);
        self.admission.inbound.spend(self.base.now, size);
        let rule = self.base.options.rules.get(self.base.holdings.stream(stream).rule);
        let is_durable = rule.accept == AcceptMode::Durable;
        if keep == Keep::InLog {
            self.base.holdings.accept_stored(stream, rule.to.len() as u64, size, coflow);
            self.durability.append_stored(
                &mut self.base,
                stream,
                (seq, again),
                &record,
                size,
                reply,
            );
            return None;
        }
        let (accept, is_scripted) = (rule.accept, rule.script.is_some() && only.is_none());
        let after_log = is_durable && self.durability.is_once(&self.base, reply);
        let logged_as = is_durable.then_some(seq);
        let fresh = Fresh { stream, record, size, logged_as, after_log, only, again, coflow };
        let Node { base, egress, preparation, .. } = self;
        let now = base.now;
        let (key, last) =
            base.holdings.accept(fresh, |key: DeliveryKey, spec: QueueSpec, size: Size| {
                egress.count_arrival(&base.options, now, spec, size);
                if is_scripted {
                    preparation.show(key);
                }
            });
        self.acknowledge(key, accept, reply);
        last
    }

    /// The record that is made of an offer.
    fn record_of(&self, offered: Offered, stream: StreamKey, seq: u64) -> Record {
        let known = self.base.holdings.stream(stream);
        let rule = self.base.options.rules.get(known.rule);
        let is_durable = rule.accept == AcceptMode::Durable;
        let origin = if is_durable { self.durability.origin() } else { &self.origin };
        let own = || Identity { origin: origin.clone(), stream: known.id, seq };
        let left = offered.foreign.as_ref().and_then(|foreign| foreign.left);
        let ttl = [offered.ttl, rule.ttl].into_iter().flatten().min();
        Record {
            identity: offered.foreign.map_or_else(own, |foreign| foreign.identity),
            key: offered.key,
            properties: offered.properties,
            payload: offered.payload,
            arrived: offered.read_at,
            deadline: offered.read_at + left.unwrap_or(rule.latency),
            expires: ttl.map(|ttl| offered.read_at + ttl),
            source_unix_ns: offered.source_unix_ns,
        }
    }

    /// Takes out what waits of a key whose newer record comes now (`newest-only`).
    pub(super) fn supersede(&mut self, stream: StreamKey, record_key: &[u8]) {
        for delivery in self.base.holdings.take_superseded(stream, record_key) {
            self.finish(delivery, Fate::Dropped(DropReason::Superseded));
        }
    }

    /// Answers the sender as its rule promises: at once, or later by what it leaves behind.
    fn acknowledge(&mut self, key: RecordKey, accept: AcceptMode, reply: Option<ReplyTo>) {
        match (accept, reply) {
            (AcceptMode::Memory, _) => self.base.answer(reply, Ok(())),
            (AcceptMode::Durable, _) => {
                self.durability.append(&mut self.base, key, reply);
            }
            (AcceptMode::Confirmed, Some(reply)) => self.base.holdings.owe_answer(key, reply),
            (AcceptMode::Confirmed, None) => {}
        }
    }
}

/// Waiting connections.
impl Node {
    /// Tries again for connections that wait: where room was made, and where patience ends.
    pub(super) fn readmit(&mut self) {
        loop {
            let freed = self.admission.take_freed();
            if freed.is_empty() {
                break;
            }
            for key in freed {
                self.serve_room(Room::Stream(key));
            }
            for class in 0..self.base.options.classes.len() {
                self.serve_room(Room::Memory(ClassId(class as u8)));
            }
        }
        if self.admission.inbound.wait(self.base.now).is_none() {
            self.serve_room(Room::Inbound);
        }
        if self.made_log_room() {
            self.serve_room(Room::Log);
        }
        if self.durability.take_freed() {
            for owner in self.admission.made_shares(&mut self.base, &self.durability) {
                self.serve_room(Room::Share(owner));
            }
        }
        while let Some((until, source)) = self.base.sources.first_patience() {
            if until > self.base.now {
                break;
            }
            self.retry(source, true);
        }
    }

    /// First come, first served, until one still finds too little.
    fn serve_room(&mut self, room: Room) {
        while let Some(first) = self.base.sources.first_waiting(room) {
            let (_, source) = first;
            self.retry(source, false);
            if self.base.sources.first_waiting(room) == Some(first) {
                break;
            }
        }
    }

    /// Offers a connection's pending records again, in order; where patience `is_over`, the first is
    /// refused if it still does not fit.
    fn retry(&mut self, source: SourceId, is_over: bool) {
        let Some(old) = self.base.sources.end_wait(source) else { return };
        let mut is_first = true;
        while let Some(offered) = self.base.sources.next_pending(source) {
            match self.admit(offered) {
                None => {}
                Some(blocked) if is_first && is_over && blocked.room != Room::Inbound => {
                    let Blocked { offered, stream, room, .. } = blocked;
                    self.admission.now_full(&mut self.base, stream, room);
                    let rule = self.base.holdings.stream(stream).rule;
                    self.base.refuse(&offered, Some(rule), RefuseReason::Full);
                }
                Some(Blocked { offered, room, patience, .. }) => {
                    // The first one's patience goes on; another's begins now, and so does one after a
                    // wait for the inbound limit.
                    let goes_on = is_first && ![room, old.room].contains(&Room::Inbound);
                    let until = if goes_on { old.until } else { self.base.now + patience };
                    self.base.sources.wait(offered, room, until, is_first.then_some(old));
                    return;
                }
            }
            is_first = false;
        }
        self.base.outbox.push(Output::ResumeInput(source));
    }
}
