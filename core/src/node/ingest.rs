//! From an offer to a queue: an accepted record gets its `seq`, arrival and deadline, and its sender an
//! answer when its rule promises one.

use std::sync::Arc;

use super::admit::Admission;
use super::sources::ReplyTo;
use super::streams::StreamKey;
use super::{Held, Node};
use crate::io::{Append, Event, Output};
use crate::queue::{Delivery, RecordKey};
use crate::record::{AcceptMode, Body, Identity, LogPosition, Offered, Record, RefuseReason};
use crate::rules::Discipline;
use crate::units::{Size, Time};

impl Node {
    /// Takes records in the order of reading.
    pub(super) fn ingest(&mut self, now: Time, records: Vec<Offered>) {
        for offered in records {
            let (source, read_at) = (offered.source, offered.read_at);
            let Some(state) = self.sources.get(source) else {
                self.tally.refused(None);
                self.report(Event::Unsupported("a record of a connection that is not open"));
                continue;
            };
            if !state.pending.is_empty() {
                self.keep_pending(offered);
                continue;
            }
            match self.admit(now, offered) {
                Admission::Done => self.processing.measure(now.since(read_at)),
                Admission::Wait(misfit) => self.block(now, source, *misfit),
            }
        }
    }

    /// Gives the record its identity and puts it in its queues; from here on it is the node's.
    pub(super) fn accept(&mut self, now: Time, offered: Offered, key: StreamKey, size: Size) {
        self.supersede(now, key, &offered.key);
        let stream = self.streams.get_mut(key);
        stream.seq += 1;
        stream.bytes += size;
        let (id, seq) = (stream.id, stream.seq);
        let rule = self.options.rules.get(stream.rule);
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
        self.inbound.spend(now, size);
        let record_key = self.held.insert(Held {
            left: rule.to.len(),
            stream: key,
            size,
            reply: self.sources.reply_to(offered.source, offered.token),
            dropped: None,
            logged: None,
            record: Arc::new(record),
        });
        self.acknowledge(record_key);
        self.enqueue(now, key, record_key);
    }

    /// Puts an accepted record in the queue of each of its destinations.
    fn enqueue(&mut self, now: Time, stream: StreamKey, record_key: RecordKey) {
        self.last_order += 1;
        let Held { record, size, .. } = &self.held[record_key];
        let stream = self.streams.get_mut(stream);
        let rule = self.options.rules.get(stream.rule);
        let mut keys = Vec::new();
        let mut bytes = Size::ZERO;
        for (&queue, &output) in stream.queues.iter().zip(&rule.to) {
            let spec = &self.options.outputs[usize::from(output.0)];
            let size = *size + spec.overhead;
            bytes += size;
            let mut delivery =
                Delivery::new(record_key, queue, size, self.last_order, record.deadline);
            delivery.ready = record.body.is_ready();
            let key = self.queues.insert(delivery);
            let (input, _) =
                &mut self.uplinks[usize::from(spec.uplink.0)].meters[rule.class.index()];
            input.count(now, size);
            if let Some(at) = record.expires {
                self.expiry.insert((at, key));
            }
            if rule.discipline == Discipline::NewestOnly {
                keys.push(key);
            }
        }
        stream.held += rule.to.len() as u64;
        if rule.discipline == Discipline::NewestOnly {
            stream.newest.insert(record.key.clone(), (record_key, keys));
        }
        self.tally.accepted(stream.rule, rule.to.len(), bytes);
    }

    /// Answers the sender as its rule promises: at once, or later by what it leaves behind. A body that is
    /// not here yet cannot go to the log: a durable record comes back here when it is prepared.
    pub(super) fn acknowledge(&mut self, key: RecordKey) {
        let held = &mut self.held[key];
        let rule = self.options.rules.get(self.streams.get(held.stream).rule);
        if let Body::Stored { position, .. } = held.record.body {
            held.logged = Some(position);
        }
        let record = &held.record;
        match (rule.accept, &record.body) {
            (AcceptMode::Confirmed, _) => {}
            (AcceptMode::Durable, Body::Resident(payload)) if held.logged.is_none() => {
                self.last_append += 1;
                let number = self.last_append;
                self.appends.push(Append {
                    number,
                    identity: record.identity.clone(),
                    key: record.key.clone(),
                    payload: payload.clone(),
                    class: rule.class,
                    deadline: record.deadline,
                });
                self.unappended.insert(number, (key, held.reply.take()));
                held.logged = Some(LogPosition(number));
            }
            (AcceptMode::Durable, _) if held.logged.is_none() => {}
            (AcceptMode::Memory | AcceptMode::Durable, _) => {
                let reply = held.reply.take();
                self.answer(reply, Ok(()));
            }
        }
    }

    /// Tells a sender, if it waits and its connection is still there.
    pub(super) fn answer(&mut self, reply: Option<ReplyTo>, result: Result<(), RefuseReason>) {
        if let Some(reply) = reply.filter(|reply| self.sources.is_alive(reply)) {
            let ReplyTo { source, token, .. } = reply;
            self.outbox.push_back(Output::Accept { source, token, result });
        }
    }

    /// The log holds these: their senders may know.
    pub(super) fn appended(&mut self, upto: u64) {
        while let Some(entry) = self.unappended.first_entry().filter(|entry| *entry.key() <= upto) {
            let (_, reply) = entry.remove();
            self.answer(reply, Ok(()));
        }
    }

    /// The log does not hold these. They stay queued; their senders are told that nothing is promised.
    pub(super) fn append_failed(&mut self, appends: &[u64], reason: RefuseReason) {
        for number in appends {
            let Some((key, reply)) = self.unappended.remove(number) else { continue };
            if let Some(held) = self.held.get_mut(key) {
                held.logged = None;
            }
            self.answer(reply, Err(reason));
        }
    }
}
