//! From an offer to a queue: find the stream, check the bounds, give `seq`, arrival and deadline.

use std::collections::VecDeque;
use std::sync::Arc;

use super::streams::StreamKey;
use super::{Held, Node};
use crate::io::{Append, Event, Output};
use crate::queue::{Delivery, DeliveryKey, QueueSpec, RecordKey};
use crate::record::{
    AcceptMode, Body, DropReason, Fate, Identity, Offered, Record, RefuseReason, SourceId, Token,
};
use crate::rules::{Discipline, FullPolicy, Rule, RuleId};
use crate::units::{Size, Time};

/// One connection of an input.
#[derive(Debug)]
pub(super) struct SourceState {
    name: Arc<str>,
    /// The streams that it feeds.
    streams: Vec<(RuleId, StreamKey)>,
    /// Records that wait for room, in the order of reading; the first is the one that does not fit.
    /// Bounded by what the driver had read before it saw `PauseInput`.
    pending: VecDeque<Offered>,
    /// When the patience with the first pending record ends.
    patience: Option<Time>,
}

/// Why a record does not fit, and for how long it may wait.
enum Admission {
    Done,
    Wait(Offered, Option<StreamKey>, Time),
}

impl Node {
    pub(super) fn open_source(&mut self, source: SourceId, name: Arc<str>) {
        let place = source.0 as usize;
        if self.sources.len() <= place {
            self.sources.resize_with(place + 1, || None);
        }
        let state =
            SourceState { name, streams: Vec::new(), pending: VecDeque::new(), patience: None };
        self.sources[place] = Some(state);
    }

    /// The connection ended. Records that it still waited to have accepted are gone with it: their
    /// sender was never told that they were accepted.
    pub(super) fn close_source(&mut self, source: SourceId) {
        let Some(state) = self.sources.get_mut(source.0 as usize).and_then(Option::take) else {
            return;
        };
        if let Some(patience) = state.patience {
            self.blocked.remove(&(patience, source));
        }
        for _ in &state.pending {
            self.tally.refused(None);
        }
        for (_, stream) in state.streams {
            if self.streams.get(stream).waiter == Some(source) {
                self.streams.get_mut(stream).waiter = None;
            }
            self.streams.detach(stream);
        }
    }

    /// Takes records in the order of reading.
    pub(super) fn ingest(&mut self, now: Time, records: Vec<Offered>) {
        for offered in records {
            let source = offered.source;
            match self.sources.get_mut(source.0 as usize) {
                // Order of a connection is kept: behind a blocked record everything waits.
                Some(Some(state)) if !state.pending.is_empty() => state.pending.push_back(offered),
                Some(Some(_)) => {
                    if let Admission::Wait(offered, stream, until) = self.admit(now, offered) {
                        self.block(source, offered, stream, until);
                    }
                }
                _ => self.report(Event::Unsupported("a record of a connection that is not open")),
            }
        }
    }

    /// Blocked connections whose time has come: room was made, or their patience ends.
    pub(super) fn readmit(&mut self, now: Time) {
        while let Some(source) = self.unblocked.pop() {
            self.retry(now, source, false);
        }
        while let Some(&(until, source)) = self.blocked.first() {
            if until > now {
                break;
            }
            self.retry(now, source, true);
        }
    }

    /// Refuses every blocked record: the node stops.
    pub(super) fn refuse_blocked(&mut self) {
        let blocked: Vec<SourceId> = self.blocked.iter().map(|&(_, source)| source).collect();
        for source in blocked {
            self.unblock(source);
            let Some(Some(state)) = self.sources.get_mut(source.0 as usize) else { continue };
            for offered in std::mem::take(&mut state.pending) {
                self.refuse(&offered, None, RefuseReason::Stopping);
            }
        }
    }

    /// A stream lost a record: whoever waits for its room, or for the node's, may go on.
    pub(super) fn made_room(&mut self, key: StreamKey) {
        let stream = self.streams.get_mut(key);
        let bound = self.options.rules.get(stream.rule).bound;
        if stream.is_refusing && stream.bytes.0 <= bound.0 / 8 * 7 {
            stream.is_refusing = false;
            let rule = usize::from(stream.rule.0);
            self.unblocked.extend(stream.waiter.take());
            self.report(Event::Full { rule, full: false });
        } else {
            self.unblocked.extend(stream.waiter.take());
        }
        if let Some(source) = self.memory_waiters.pop_front() {
            self.unblocked.push(source);
        }
    }

    fn block(
        &mut self,
        source: SourceId,
        offered: Offered,
        stream: Option<StreamKey>,
        until: Time,
    ) {
        match stream {
            Some(stream) => self.streams.get_mut(stream).waiter = Some(source),
            None => self.memory_waiters.push_back(source),
        }
        let Some(Some(state)) = self.sources.get_mut(source.0 as usize) else { return };
        state.pending.push_front(offered);
        if state.patience.is_none() {
            state.patience = Some(until);
            self.blocked.insert((until, source));
            self.outbox.push_back(Output::PauseInput(source));
        }
    }

    fn unblock(&mut self, source: SourceId) {
        let Some(Some(state)) = self.sources.get_mut(source.0 as usize) else { return };
        if let Some(until) = state.patience.take() {
            self.blocked.remove(&(until, source));
            self.outbox.push_back(Output::ResumeInput(source));
        }
    }

    /// Tries a blocked connection's records again, in order; `is_over` refuses the first if it still
    /// does not fit.
    fn retry(&mut self, now: Time, source: SourceId, mut is_over: bool) {
        loop {
            let Some(Some(state)) = self.sources.get_mut(source.0 as usize) else { return };
            let Some(offered) = state.pending.pop_front() else { break };
            match self.admit(now, offered) {
                Admission::Done => {}
                Admission::Wait(offered, stream, _) if is_over => {
                    is_over = false;
                    let rule = stream.map(|stream| self.streams.get(stream).rule);
                    if let Some(stream) = stream {
                        self.streams.get_mut(stream).is_refusing = true;
                    }
                    if let Some(rule) = rule {
                        self.report(Event::Full { rule: usize::from(rule.0), full: true });
                    }
                    self.refuse(&offered, rule, RefuseReason::Full);
                    self.restart_patience(now, source);
                }
                Admission::Wait(offered, stream, until) => {
                    self.block(source, offered, stream, until);
                    return;
                }
            }
        }
        self.unblock(source);
    }

    /// The next blocked record of this connection, if there is one, has its own patience.
    fn restart_patience(&mut self, now: Time, source: SourceId) {
        let Some(Some(state)) = self.sources.get_mut(source.0 as usize) else { return };
        let Some(old) = state.patience else { return };
        self.blocked.remove(&(old, source));
        let Some(next) = state.pending.front() else {
            self.blocked.insert((old, source));
            return;
        };
        let key = std::str::from_utf8(&next.key).unwrap_or_default();
        let rule = self.options.rules.find(key).map(|rule| self.options.rules.get(rule).full);
        let until = match rule {
            Some(FullPolicy::Block(patience)) => now + patience,
            _ => now,
        };
        state.patience = Some(until);
        self.blocked.insert((until, source));
    }

    /// Accepts, refuses or drops one offer, or says that it must wait for room.
    fn admit(&mut self, now: Time, offered: Offered) -> Admission {
        let size = Size(offered.key.len() as u64) + offered.properties.size() + offered.body.size();
        let rule =
            std::str::from_utf8(&offered.key).ok().and_then(|key| self.options.rules.find(key));
        let reason = match rule {
            _ if self.is_stopping => Some(RefuseReason::Stopping),
            None => Some(RefuseReason::NoRule),
            _ if size > self.options.record_max => Some(RefuseReason::Oversize),
            Some(rule) if size > self.options.rules.get(rule).bound => Some(RefuseReason::Oversize),
            _ => None,
        };
        if let Some(reason) = reason {
            self.refuse(&offered, rule, reason);
            return Admission::Done;
        }
        let rule = rule.expect("an offer without a rule was refused");
        let Some(stream) = self.stream_of(offered.source, rule) else {
            self.refuse(&offered, Some(rule), RefuseReason::TooManyStreams);
            return Admission::Done;
        };
        if self.fits(stream, rule, size) {
            self.accept(now, offered, stream, size);
            return Admission::Done;
        }
        self.apply_full_policy(now, offered, stream, rule, size)
    }

    fn apply_full_policy(
        &mut self,
        now: Time,
        offered: Offered,
        stream: StreamKey,
        rule: RuleId,
        size: Size,
    ) -> Admission {
        match self.options.rules.get(rule).full {
            FullPolicy::DropOldest => {
                while !self.fits(stream, rule, size) && self.drop_oldest(now, stream) {}
                if self.fits(stream, rule, size) {
                    self.accept(now, offered, stream, size);
                } else {
                    self.refuse(&offered, Some(rule), RefuseReason::Full);
                }
            }
            FullPolicy::DropNewest => {
                let (_, deliveries) = self.accept(now, offered, stream, size);
                for delivery in deliveries {
                    self.finish(now, delivery, Fate::Dropped(DropReason::Full));
                }
            }
            FullPolicy::Block(patience) if !self.streams.get(stream).is_refusing => {
                let is_full =
                    self.streams.get(stream).bytes + size > self.options.rules.get(rule).bound;
                return Admission::Wait(offered, is_full.then_some(stream), now + patience);
            }
            FullPolicy::Reject | FullPolicy::Block(_) => {
                self.refuse(&offered, Some(rule), RefuseReason::Full);
            }
        }
        Admission::Done
    }

    /// Whether the stream's and the node's bounds leave room.
    fn fits(&self, stream: StreamKey, rule: RuleId, size: Size) -> bool {
        let rule = self.options.rules.get(rule);
        let memory = self.options.memory_for(rule.class);
        self.streams.get(stream).bytes + size <= rule.bound && self.held_bytes + size <= memory
    }

    fn drop_oldest(&mut self, now: Time, stream: StreamKey) -> bool {
        let queues = &self.streams.get(stream).queues;
        let oldest = queues
            .iter()
            .filter_map(|&queue| self.queues.oldest(queue))
            .min_by_key(|&key| self.queues.get(key).map(|delivery| delivery.order));
        if let Some(oldest) = oldest {
            self.finish(now, oldest, Fate::Dropped(DropReason::Full));
        }
        oldest.is_some()
    }

    /// The stream that this connection feeds under this rule; `None` when the table is full.
    fn stream_of(&mut self, source: SourceId, rule: RuleId) -> Option<StreamKey> {
        let state = self.sources[source.0 as usize].as_ref().expect("an open source");
        if let Some(&(_, stream)) = state.streams.iter().find(|(known, _)| *known == rule) {
            return Some(stream);
        }
        let name = state.name.clone();
        let stream = match self.streams.attach(rule, &name) {
            Some(stream) => stream,
            None => {
                let queues = self.open_queues(rule);
                let Some((stream, evicted)) = self.streams.create(rule, &name, queues.clone())
                else {
                    queues.into_iter().for_each(|queue| self.queues.close(queue));
                    return None;
                };
                evicted.into_iter().for_each(|queue| self.queues.close(queue));
                stream
            }
        };
        let state = self.sources[source.0 as usize].as_mut().expect("an open source");
        state.streams.push((rule, stream));
        Some(stream)
    }

    fn open_queues(&mut self, rule: RuleId) -> Vec<crate::queue::QueueKey> {
        let Rule { class, discipline, strict_order, to, .. } = self.options.rules.get(rule);
        let (class, discipline, strict_order) = (*class, *discipline, *strict_order);
        let open =
            |&output| self.queues.open(QueueSpec { class, output, discipline, strict_order });
        to.iter().map(open).collect()
    }

    /// Gives the record its identity and puts it in its queues; from here on it is the node's.
    fn accept(
        &mut self,
        now: Time,
        offered: Offered,
        key: StreamKey,
        size: Size,
    ) -> (RecordKey, Vec<DeliveryKey>) {
        let stream = self.streams.get_mut(key);
        stream.seq += 1;
        stream.held += 1;
        stream.bytes += size;
        let (id, seq, rule_id) = (stream.id, stream.seq, stream.rule);
        let rule = self.options.rules.get(rule_id);
        let own = || Identity { origin: self.origin.clone(), stream: id, seq };
        let ttl = [offered.ttl, rule.ttl].into_iter().flatten().min();
        let record = Record {
            identity: offered.identity.unwrap_or_else(own),
            key: offered.key,
            properties: offered.properties,
            body: offered.body,
            arrived: offered.read_at,
            deadline: offered.read_at + rule.latency,
            expires: ttl.map(|ttl| offered.read_at + ttl),
            source_unix_ns: offered.source_unix_ns,
        };
        self.held_bytes += size;
        self.processing.measure(now.since(offered.read_at));
        let (accept, class, discipline) = (rule.accept, rule.class, rule.discipline);
        let destinations = rule.to.len();
        self.tally.accepted(rule_id, destinations, size);
        let reply = offered.token.map(|token| (offered.source, token));
        let append = self.acknowledge(accept, reply, &record, class);
        let record_key = self.held.insert(Held {
            left: destinations,
            record: Arc::new(record),
            stream: key,
            size,
            reply: reply.filter(|_| accept == AcceptMode::Confirmed),
            dropped: None,
            append,
        });
        if discipline == Discipline::NewestOnly {
            self.supersede(now, key, record_key);
        }
        (record_key, self.enqueue(now, key, record_key))
    }

    /// Puts an accepted record in the queue of each of its destinations.
    fn enqueue(&mut self, now: Time, stream: StreamKey, record_key: RecordKey) -> Vec<DeliveryKey> {
        self.last_order += 1;
        let Held { record, size, .. } = &self.held[record_key];
        let (size, deadline, expires) = (*size, record.deadline, record.expires);
        let ready = record.body.is_ready();
        let stream = self.streams.get(stream);
        let rule = self.options.rules.get(stream.rule);
        let mut keys = Vec::with_capacity(stream.queues.len());
        for (&queue, &output) in stream.queues.iter().zip(&rule.to) {
            let spec = &self.options.outputs[usize::from(output.0)];
            let size = size + spec.overhead;
            let mut delivery = Delivery::new(record_key, queue, size, self.last_order, deadline);
            delivery.ready = ready;
            let key = self.queues.insert(delivery);
            let (input, _) =
                &mut self.uplinks[usize::from(spec.uplink.0)].meters[rule.class.index()];
            input.count(now, size);
            if let Some(at) = expires {
                self.expiry.insert((at, key));
            }
            keys.push(key);
        }
        keys
    }

    /// Tells the sender as its rule promises; answers with the record's number in the log, if it goes
    /// there.
    fn acknowledge(
        &mut self,
        accept: AcceptMode,
        reply: Option<(SourceId, Token)>,
        record: &Record,
        class: crate::class::ClassId,
    ) -> Option<u64> {
        if accept == AcceptMode::Durable
            && let Body::Resident(payload) = &record.body
        {
            self.last_append += 1;
            let number = self.last_append;
            self.unappended.extend(reply.map(|reply| (number, reply)));
            self.appends.push(Append {
                number,
                identity: record.identity.clone(),
                key: record.key.clone(),
                payload: payload.clone(),
                class,
                deadline: record.deadline,
            });
            return Some(number);
        }
        if let (Some((source, token)), AcceptMode::Memory | AcceptMode::Durable) = (reply, accept) {
            self.outbox.push_back(Output::Accept { source, token, result: Ok(()) });
        }
        None
    }

    /// The newest record of a key replaces the one that waits.
    fn supersede(&mut self, now: Time, stream: StreamKey, newest: RecordKey) {
        let key = self.held[newest].record.key.clone();
        let Some(old) = self.streams.get_mut(stream).newest.insert(key, newest) else { return };
        let queues = self.streams.get(stream).queues.clone();
        for queue in queues {
            let waiting = self.queues.waiting(queue).find(|&delivery| {
                self.queues.get(delivery).is_some_and(|delivery| delivery.record == old)
            });
            if let Some(delivery) = waiting {
                self.finish(now, delivery, Fate::Dropped(DropReason::Superseded));
            }
        }
    }

    fn refuse(&mut self, offered: &Offered, rule: Option<RuleId>, reason: RefuseReason) {
        self.tally.refused(rule);
        if let Some(token) = offered.token {
            let result = Err(reason);
            self.outbox.push_back(Output::Accept { source: offered.source, token, result });
        }
    }

    /// The log holds these: their senders may know.
    pub(super) fn appended(&mut self, upto: u64) {
        while let Some(entry) = self.unappended.first_entry() {
            if *entry.key() > upto {
                break;
            }
            let (source, token) = entry.remove();
            self.outbox.push_back(Output::Accept { source, token, result: Ok(()) });
        }
    }

    /// The log does not hold these. They stay queued; their senders are told that nothing is promised.
    pub(super) fn append_failed(&mut self, appends: &[u64], reason: RefuseReason) {
        for number in appends {
            if let Some((source, token)) = self.unappended.remove(number) {
                self.outbox.push_back(Output::Accept { source, token, result: Err(reason) });
            }
        }
    }
}
