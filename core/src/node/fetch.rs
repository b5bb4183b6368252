//! Reading the backlog back, a little ahead of its turn, and leaving to the log what memory has no
//! room for.

use std::sync::Arc;
use std::time::Duration;

use super::admit::queue_spec;
use super::backlog::Next;
use super::durable::{Leg, Logged, bit_of};
use super::sources::Room;
use super::streams::StreamKey;
use super::{Held, Node, Owed};
use crate::class::ClassId;
use crate::io::{Event, Fetch, Output, OutputId};
use crate::limits::FETCH_BYTES;
use crate::log::{Destinations, Fetched, LoggedRecord, Run, SegmentId, WallTime};
use crate::queue::{Delivery, DeliveryKey, RecordKey};
use crate::record::{Body, DropReason, Fate, Identity, Record, StreamId};
use crate::rules::{Discipline, RuleId};
use crate::units::{Size, Time};

/// The part of the memory that may hold records that are read back, all classes together.
const AHEAD_PART: u64 = 8;

/// A record that comes back to memory.
struct TakenUp {
    /// The stream that it counted for, and the one that it belongs to now.
    from: StreamKey,
    to: StreamKey,
    /// The class that it was read for.
    class: ClassId,
    gone: Gone,
    expires: Option<Time>,
    /// Where an attempt may have arrived.
    may_be_there: Destinations,
}

/// Records of one chunk that leave the log without having been read.
#[derive(Clone, Copy)]
struct Gone {
    id: StreamId,
    segment: SegmentId,
    run: Run,
    bytes: Size,
}

impl Node {
    /// The next part of the backlog to read, for the most urgent class that has room ahead.
    pub(super) fn next_fetch(&mut self) -> Option<Output> {
        let order = self.store.as_ref()?.options.backlog;
        if self.is_stopping || self.backlog.asked.is_some() || self.backlog.deliveries == 0 {
            return None;
        }
        let memory = self.options.memory.0;
        let budget = (memory / AHEAD_PART / self.options.classes.len() as u64).max(1);
        for class in (0..self.options.classes.len()).map(|class| ClassId(class as u8)) {
            let ahead = self.backlog.ahead.get(&class).map_or(0, |size| size.0);
            let most = Size((budget - ahead.min(budget)).min(FETCH_BYTES.0));
            let has_room = ahead <= budget / 2 && self.held_bytes.0 + most.0 <= memory / 8 * 7;
            if !has_room {
                continue;
            }
            let Some(pass) = self.backlog.pass(class, order) else { continue };
            let streams = Arc::new(self.backlog.wanted(pass));
            self.backlog.asked = Some(class);
            let (segment, from) = (pass.segment, pass.from);
            return Some(Output::Fetch(Fetch { segment, from, streams, most }));
        }
        None
    }

    /// Records are read back.
    pub(super) fn fetched(&mut self, now: Time, fetched: Fetched) {
        let Some(class) = self.backlog.asked.take() else {
            self.report(Event::Unsupported("records that nobody asked for"));
            return;
        };
        if self.is_stopping {
            // They stay in the log, and are sent after the next start.
            return;
        }
        let Some(pass) = self.backlog.pass_of(class) else { return };
        for record in fetched.records {
            self.take_up(now, pass.segment, record);
        }
        if self.backlog.read(class, fetched.next, fetched.is_end) == Next::Missing {
            // The log cannot find them: here they end.
            let (segment, before) = (pass.segment, self.backlog.deliveries);
            for id in self.backlog.wanted(pass) {
                let reason = DropReason::Storage;
                while self.drop_left(now, id, segment, u64::MAX, reason) {}
            }
            let deliveries = before.saturating_sub(self.backlog.deliveries);
            self.report(Event::LogLacks { segment, deliveries });
        }
    }

    /// A record of the backlog comes to memory, if it still waits and there is room.
    fn take_up(&mut self, now: Time, segment: SegmentId, logged: LoggedRecord) {
        let (id, seq, size) = (logged.stream, logged.seq, logged.size());
        let Some(left) = self.backlog.get_mut(id) else { return };
        let (from, class) = (left.stream, left.class);
        let Some(chunk) = left.chunks.get_mut(&segment) else { return };
        if chunk.runs.get(seq) == Destinations::NONE {
            return;
        }
        if self.held_bytes + size > self.options.memory {
            // To be read once more.
            self.backlog.put_back(id, from, class, segment);
            return;
        }
        let (destinations, bytes) = chunk.take(seq, size);
        let may_be_there = left.unmark(seq);
        self.backlog.tidy(id, segment);
        let run = Run { first: seq, last: seq, destinations };
        let gone = Gone { id, segment, run, bytes };
        let rule =
            std::str::from_utf8(&logged.key).ok().and_then(|key| self.options.rules.find(key));
        let expires = self.expiry_of(now, segment, &logged);
        let Some(rule) = rule else {
            self.finish_left(now, from, &gone, DropReason::Unroutable);
            return;
        };
        if expires.is_some_and(|at| at <= now) {
            self.finish_left(now, from, &gone, DropReason::Expired);
            return;
        }
        // Where there is no place for one more stream, it keeps its own.
        let to = self.stream_under(from, rule).unwrap_or(from);
        self.hold(now, &TakenUp { from, to, class, gone, expires, may_be_there }, logged);
    }

    /// The stream of the same source under the rule that covers the record now.
    pub(super) fn stream_under(&mut self, from: StreamKey, rule: RuleId) -> Option<StreamKey> {
        let stream = self.streams.get(from);
        if stream.rule == rule {
            return Some(from);
        }
        let name = stream.name.clone();
        let known = self.streams.find(rule, &name);
        known.or_else(|| self.create_stream(rule, name))
    }

    /// Puts a record that was read back in its queues, late.
    fn hold(&mut self, now: Time, taken: &TakenUp, logged: LoggedRecord) {
        let &TakenUp { from, to, class, gone, expires, may_be_there } = taken;
        let Gone { id, segment, run, bytes } = gone;
        let deliveries = u64::from(run.destinations.count());
        self.backlog.deliveries -= deliveries;
        self.forget_left(from, bytes, deliveries);
        let [from, rule] = [from, to].map(|stream| self.streams.get(stream).rule);
        let legs = self.legs_under(rule, run.destinations);
        self.tally.moved(from, rule, deliveries);
        let orphans = legs.iter().fold(run.destinations, |left, (_, bit)| left - *bit);
        if let Some(store) = self.store.as_mut().filter(|_| orphans != Destinations::NONE) {
            let run = Run { destinations: orphans, ..run };
            store.note_fate(now, id, run, (Fate::Dropped(DropReason::Unroutable), None));
            self.tally.dropped(rule, u64::from(orphans.count()), DropReason::Unroutable);
        }
        let (size, seq) = (logged.size(), run.first);
        let record = self.record_of(now, segment, logged, expires);
        let logged = Some(Logged { stream: id, seq, segment, number: 0 });
        let owed = Owed { seq, logged, ahead: Some(class), ..Owed::default() };
        *self.backlog.ahead.entry(class).or_default() += size;
        self.held_bytes += size;
        let stream = self.streams.get_mut(to);
        stream.bytes += size;
        stream.held += legs.len() as u64;
        let key = self.held.insert(Held {
            left: legs.len() as u32,
            stream: to,
            size,
            dropped: None,
            owed: Some(owed.into()),
            record: Arc::new(record),
        });
        self.enqueue_late(now, key, &legs, may_be_there);
    }

    /// The outputs that are to have a record now, each with the destination that it serves. Where none of
    /// the record's destinations is left, one goes where the rule sends now.
    fn legs_under(&self, rule: RuleId, all: Destinations) -> Vec<(OutputId, Destinations)> {
        let rule = self.options.rules.get(rule);
        let is_wanted = |output: &&OutputId| all - bit_of(**output) != all;
        let kept = rule.to.iter().filter(is_wanted).map(|&output| (output, bit_of(output)));
        let kept: Vec<_> = kept.collect();
        if kept.is_empty() {
            let first = all.places().next().map(|place| (rule.to[0], Destinations::one(place)));
            return first.into_iter().collect();
        }
        kept
    }

    fn enqueue_late(
        &mut self,
        now: Time,
        key: RecordKey,
        legs: &[(OutputId, Destinations)],
        may_be_there: Destinations,
    ) {
        self.last_order += 1;
        let Held { record, size, stream: stream_key, .. } = &self.held[key];
        let (record, size, stream_key) = (record.clone(), *size, *stream_key);
        let inherited = self.logged_of(key).zip(self.store.as_ref());
        let is_inherited =
            inherited.is_some_and(|(logged, store)| store.is_inherited(logged.segment));
        let rule_id = self.streams.get(stream_key).rule;
        let is_newest_only = self.options.rules.get(rule_id).discipline == Discipline::NewestOnly;
        let is_old = is_newest_only && self.is_superseded(stream_key, key);
        if is_newest_only && !is_old {
            self.supersede(now, stream_key, &record.key);
        }
        let rule = self.options.rules.get(rule_id);
        let stream = self.streams.get(stream_key);
        let mut keys = Vec::new();
        for &(output, destinations) in legs {
            let place = rule.to.iter().position(|&other| other == output).unwrap_or(0);
            let queue = stream.queues().nth(place).expect("one queue a destination");
            let overhead = self.options.outputs[usize::from(output.0)].overhead;
            let spec = queue_spec(rule_id, rule, output);
            let mut delivery = Delivery::new(key, (queue, spec), size + overhead, self.last_order);
            (delivery.arrived, delivery.deadline) = (record.arrived, record.deadline);
            delivery.can_expire = record.expires.is_some();
            let is_marked = destinations - may_be_there != destinations;
            delivery.progress.again = is_inherited || is_marked;
            let is_scripted = rule.script.is_some();
            delivery.set_ready(!is_scripted, is_scripted);
            let delivery = self.queues.insert_late(delivery);
            if is_scripted {
                self.adapted.unseen.push_back(delivery);
            }
            if let Some(at) = record.expires {
                self.expiry.insert((at, delivery));
            }
            keys.push(Leg { delivery, destinations });
        }
        let deliveries: Vec<DeliveryKey> = keys.iter().map(|leg| leg.delivery).collect();
        if let Some(owed) = self.held.get_mut(key).and_then(|held| held.owed.as_mut()) {
            owed.legs = keys;
        }
        if is_old {
            for delivery in deliveries {
                self.finish(now, delivery, Fate::Dropped(DropReason::Superseded));
            }
        } else if is_newest_only {
            let newest = self.streams.get_mut(stream_key).newest.get_or_insert_default();
            newest.insert(record.key.clone(), (key, deliveries));
        }
    }

    /// Whether a newer record of its key is held than the one that was read back.
    fn is_superseded(&self, stream: StreamKey, key: RecordKey) -> bool {
        let name = |key: RecordKey| {
            let owed = self.held[key].owed.as_ref()?;
            owed.ahead.map(|_| owed.seq)
        };
        let newest = self.streams.get(stream).newest_of(&self.held[key].record.key);
        // One that was not read back was accepted by this process, after all that was.
        newest.is_some_and(|(other, _)| name(*other).is_none_or(|seq| Some(seq) > name(key)))
    }

    /// The record as it was accepted, on this process's clock.
    fn record_of(
        &self,
        now: Time,
        segment: SegmentId,
        logged: LoggedRecord,
        expires: Option<Time>,
    ) -> Record {
        let store = self.store.as_ref().expect("a backlog has a log");
        let (arrived, deadline) = if segment >= store.own_since {
            (logged.arrived, logged.deadline)
        } else {
            let known = store.wall_at(now).zip(logged.wall);
            let age = known.map(|(now, then)| now.unix_ns.saturating_sub(then.unix_ns));
            let arrived = now.as_nanos().saturating_sub(age.unwrap_or(0));
            (Time::from_nanos(arrived), Time::ZERO)
        };
        let origin = self.log_origin.clone();
        let own = Identity { origin, stream: logged.stream, seq: logged.seq };
        Record {
            identity: logged.foreign.unwrap_or(own),
            key: logged.key,
            properties: logged.properties,
            body: Body::Resident(logged.payload),
            arrived,
            deadline,
            expires,
            source_unix_ns: logged.source_unix_ns,
        }
    }

    /// When a logged record expires on this process's clock. A record of an earlier process expires by
    /// wall time, and only when it surely has: without a wall clock never.
    fn expiry_of(&self, now: Time, segment: SegmentId, logged: &LoggedRecord) -> Option<Time> {
        let store = self.store.as_ref()?;
        let expires = logged.expires?;
        if segment >= store.own_since {
            return Some(expires);
        }
        let WallTime { unix_ns, uncertainty } = logged.wall?;
        let present = store.wall_at(now)?;
        let doubt = uncertainty + present.uncertainty;
        let end = Duration::from_nanos(unix_ns) + expires.since(logged.arrived) + doubt;
        Some(now + end.saturating_sub(Duration::from_nanos(present.unix_ns)))
    }

    /// Records end that only the log held.
    fn finish_left(&mut self, now: Time, stream: StreamKey, gone: &Gone, reason: DropReason) {
        let Gone { id, segment, run, bytes } = *gone;
        let deliveries = run.records() * u64::from(run.destinations.count());
        if let Some(store) = &mut self.store {
            store.note_fate(now, id, run, (Fate::Dropped(reason), None));
            store.settle(segment, id, run.records());
        }
        self.backlog.deliveries -= deliveries;
        self.tally.dropped(self.streams.get(stream).rule, deliveries, reason);
        self.forget_left(stream, bytes, deliveries);
    }

    /// Drops the first records of a chunk, at most so many and one run of them; false if there is none.
    fn drop_left(
        &mut self,
        now: Time,
        id: StreamId,
        segment: SegmentId,
        records: u64,
        reason: DropReason,
    ) -> bool {
        let Some(left) = self.backlog.get_mut(id) else { return false };
        let stream = left.stream;
        let taken = left.chunks.get_mut(&segment).and_then(|chunk| chunk.take_first(records));
        if let Some((run, _)) = taken {
            left.unmark_all(run);
        }
        self.backlog.tidy(id, segment);
        let Some((run, bytes)) = taken else { return false };
        self.finish_left(now, stream, &Gone { id, segment, run, bytes }, reason);
        true
    }

    /// Drops the oldest record that only the log holds of a stream; false if there is none.
    pub(super) fn drop_oldest_left(&mut self, now: Time, stream: StreamKey) -> bool {
        if self.streams.get(stream).left == 0 {
            return false;
        }
        let Some((id, segment)) = self.backlog.oldest_of(stream) else { return false };
        self.drop_left(now, id, segment, 1, DropReason::Full)
    }

    /// Drops what a stream alone still holds of the oldest segments, until so much of the log, or of its
    /// owner's share, is free. Where that cannot help, it drops nothing.
    pub(super) fn drop_segments(&mut self, now: Time, stream: StreamKey, wanted: Size, room: Room) {
        let Some(store) = &self.store else { return };
        let chunks = self.backlog.chunks_of(stream);
        let alone = chunks.filter_map(|(id, segment, records, _)| {
            let bytes = match room {
                Room::Share(_) => store.parts.goes_with(segment, id, records)?,
                _ => store.goes_with(segment, records)?,
            };
            Some((segment, id, bytes))
        });
        let mut alone: Vec<_> = alone.collect();
        alone.sort();
        let all: Size = alone.iter().map(|(.., bytes)| *bytes).sum();
        if all < wanted {
            return;
        }
        let mut free = Size::ZERO;
        for (segment, id, bytes) in alone {
            while free < wanted && self.drop_left(now, id, segment, u64::MAX, DropReason::Full) {}
            free += bytes;
        }
    }
}
