//! From an offer to a queue: an accepted record gets its `seq`, arrival and deadline, and its sender an
//! answer when its rule promises one.

use std::sync::Arc;

use tidegate_schedule::queue::{Delivery, DeliveryKey, RecordKey};
use tidegate_types::record::{AcceptMode, Identity, Offered, Record, RefuseReason};
use tidegate_types::units::{Size, Time};

use super::admit::{Admission, queue_spec};
use super::durable::{Leg, bit_of};
use super::relay::end_of;
use super::sources::ReplyTo;
use super::streams::StreamKey;
use super::{Held, Node, Owed};
use crate::io::{Event, Output, OutputId};
use crate::rules::Discipline;

/// Where an accepted record waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// In its queues.
    InMemory,
    /// Only in the log, until there is room ahead.
    InLog,
}

impl Node {
    /// Takes records in the order of reading.
    pub(super) fn ingest(&mut self, now: Time, records: Vec<Offered>) {
        self.read_ahead_offers(&records);
        for offered in records {
            let (source, read_at) = (offered.source, offered.read_at);
            let Some(state) = self.sources.get(source) else {
                self.tally.refused(None);
                self.report(Event::Unsupported("a record of a connection that is not open"));
                continue;
            };
            if state.is_held_up() {
                self.keep_pending(offered);
                continue;
            }
            match self.admit(now, offered) {
                Admission::Done => self.processing.measure(now.since(read_at)),
                Admission::Wait(misfit) => self.block(now, source, *misfit),
            }
        }
    }

    /// Gives the record its identity and puts it in its queues (for `only` one destination, if given), or
    /// leaves it to the log; from here on it is the node's. Answers with its last delivery.
    pub(super) fn accept(
        &mut self,
        now: Time,
        offered: Offered,
        key: StreamKey,
        size: Size,
        keep: Keep,
        only: Option<OutputId>,
    ) -> Option<DeliveryKey> {
        self.supersede(now, key, &offered.key);
        let stream = self.streams.get_mut(key);
        stream.seq += 1;
        stream.bytes += size;
        let (id, seq) = (stream.id, stream.seq);
        let rule = self.options.rules.get(stream.rule);
        let is_durable = rule.accept == AcceptMode::Durable;
        let origin = if is_durable { &self.log_origin } else { &self.origin };
        let own = || Identity { origin: origin.clone(), stream: id, seq };
        let ttl = [offered.ttl, rule.ttl].into_iter().flatten().min();
        let again = offered.foreign.as_ref().is_some_and(|foreign| foreign.again);
        let record = Record {
            identity: offered.foreign.map_or_else(own, |foreign| foreign.identity),
            key: offered.key,
            properties: offered.properties,
            body: offered.body,
            arrived: offered.read_at,
            deadline: offered.read_at + rule.latency,
            expires: ttl.map(|ttl| offered.read_at + ttl),
            source_unix_ns: offered.source_unix_ns,
        };
        self.inbound.spend(now, size);
        let reply = self.sources.reply_to(offered.source, offered.token, offered.packet);
        if keep == Keep::InLog {
            let deliveries = rule.to.len();
            stream.held += deliveries as u64;
            stream.left_bytes += size;
            stream.left += deliveries as u64;
            self.tally.accepted(stream.rule, deliveries, size);
            self.append_left(key, seq, &record, size, reply, again);
            return None;
        }
        self.held_bytes += size;
        let after_log = is_durable && self.is_once(reply);
        let owed = is_durable.then(|| Box::new(Owed { seq, after_log, ..Owed::default() }));
        let record_key = self.held.insert(Held {
            left: only.map_or(rule.to.len(), |_| 1) as u32,
            stream: key,
            size,
            dropped: None,
            owed,
            record: Arc::new(record),
        });
        let last = self.enqueue(now, key, record_key, only, again);
        self.acknowledge(record_key, reply);
        self.newest = last;
        last
    }

    /// Puts an accepted record in the queue of each of its destinations, or of one of them. Answers with its
    /// last delivery.
    fn enqueue(
        &mut self,
        now: Time,
        stream: StreamKey,
        record_key: RecordKey,
        only: Option<OutputId>,
        again: bool,
    ) -> Option<DeliveryKey> {
        self.last_order += 1;
        let Held { record, size, owed, .. } = &mut self.held[record_key];
        let stream = self.streams.get_mut(stream);
        let rule = self.options.rules.get(stream.rule);
        let mut keys = Vec::new();
        let (mut bytes, mut count, mut last) = (Size::ZERO, 0, None);
        let wanted = |(_, output): &(_, &OutputId)| only.is_none_or(|only| only == **output);
        for (queue, &output) in stream.queues().zip(&rule.to).filter(wanted) {
            let options = &self.options.outputs[usize::from(output.0)];
            let size = *size + options.overhead;
            bytes += size;
            let spec = queue_spec(stream.rule, rule, output);
            let mut delivery = Delivery::new(record_key, (queue, spec), size, self.last_order);
            (delivery.arrived, delivery.deadline) = (record.arrived, record.deadline);
            let ends = end_of(record, rule);
            (delivery.can_expire, delivery.progress.again) = (ends.is_some(), again);
            let after_log = owed.as_ref().is_some_and(|owed| owed.after_log);
            let is_ready = record.body.is_ready() && !after_log;
            // What a script made it does not meet again, or it would make more of it without end.
            let is_scripted = rule.script.is_some() && only.is_none();
            delivery.set_ready(is_ready && !is_scripted, is_ready);
            let key = self.queues.insert(delivery);
            (last, count) = (Some(key), count + 1);
            if is_scripted {
                self.adapted.unseen.push_back(key);
            }
            let (input, _) =
                &mut self.uplinks[usize::from(options.uplink.0)].meters[rule.class.index()];
            input.count(now, size);
            if let Some(at) = ends {
                self.expiry.insert((at, key));
            }
            if let Some(owed) = owed {
                owed.legs.push(Leg { delivery: key, destinations: bit_of(output) });
            }
            if rule.discipline == Discipline::NewestOnly {
                keys.push(key);
            }
        }
        stream.held += count as u64;
        if rule.discipline == Discipline::NewestOnly {
            let newest = stream.newest.get_or_insert_default();
            newest.insert(record.key.clone(), (record_key, keys));
        }
        self.tally.accepted(stream.rule, count, bytes);
        last
    }

    /// Answers the sender as its rule promises: at once, or later by what it leaves behind. A body that is
    /// not here yet cannot go to the log: a durable record comes back here when it is prepared.
    pub(super) fn acknowledge(&mut self, key: RecordKey, reply: Option<ReplyTo>) {
        let held = &mut self.held[key];
        let rule = self.options.rules.get(self.streams.get(held.stream).rule);
        let is_logged = held.owed.as_ref().is_some_and(|owed| owed.logged.is_some());
        match rule.accept {
            AcceptMode::Durable if !is_logged => self.append(key, reply),
            AcceptMode::Memory | AcceptMode::Durable => self.answer(reply, Ok(())),
            AcceptMode::Confirmed if reply.is_none() => {}
            AcceptMode::Confirmed => held.owed.get_or_insert_default().reply = reply,
        }
    }

    /// Tells a sender, if it waits and its connection is still there.
    pub(super) fn answer(&mut self, reply: Option<ReplyTo>, result: Result<(), RefuseReason>) {
        if let Some(reply) = reply.filter(|reply| self.sources.is_alive(reply)) {
            let ReplyTo { source, token, .. } = reply;
            self.outbox.push_back(Output::Accept { source, token, result });
        }
    }
}
