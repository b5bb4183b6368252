//! Durable acceptance: a record goes to its queues and to the log at the same time, its sender is told
//! when the log has it, and its fates follow it there.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Node;
use super::sessions::Taken;
use super::sources::ReplyTo;
use super::streams::StreamKey;
use super::unappended::{Left, Unappended};
use crate::io::{Event, OutputId};
use crate::log::{
    Checkpoint, Chunk, Destinations, Entry, LoggedRecord, Run, SegmentId, StreamName, StreamState,
};
use crate::queue::{DeliveryKey, RecordKey};
use crate::record::{Body, DropReason, Fate, Record, RefuseReason, StreamId};
use crate::units::{Size, Time};

/// A delivery of a durable record that has no fate yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leg {
    pub(super) delivery: DeliveryKey,
    /// Which of the log's destinations it serves.
    pub(super) destinations: Destinations,
}

/// Where the log has a record, or will have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged {
    pub(super) stream: StreamId,
    pub(super) seq: u64,
    pub(super) segment: SegmentId,
    /// Number of its append; 0 for one that was read back.
    pub(super) number: u64,
}

/// The destinations of some legs.
pub(super) fn all_of(legs: &[Leg]) -> Destinations {
    legs.iter().fold(Destinations::NONE, |all, leg| all | leg.destinations)
}

/// The bit of an output.
pub(super) fn bit_of(output: OutputId) -> Destinations {
    Destinations::one(usize::from(output.0))
}

impl Node {
    /// Asks the log to take a record that is held, if its body is here.
    pub(super) fn append(&mut self, key: RecordKey, reply: Option<ReplyTo>) {
        let held = &mut self.held[key];
        let owed = held.owed.get_or_insert_default();
        if !held.record.body.is_ready() {
            owed.reply = reply;
            return;
        }
        let (destinations, seq) = (all_of(&owed.legs), owed.seq);
        let (stream, size, record) = (held.stream, held.size, held.record.clone());
        self.open_segment(stream);
        let taken = self.take_packet(reply);
        let entry = self.logged_record(stream, seq, &record, destinations, taken);
        let Some(store) = &mut self.store else { return };
        let (stream, owner) = (self.streams.get(stream).id, self.streams.get(stream).owner);
        let unappended = Unappended::Held { record: key, size, reply, taken };
        let number = store.push_record(stream, owner, entry, unappended);
        let logged = Logged { stream, seq, segment: store.segment(), number };
        if let Some(owed) = &mut self.held[key].owed {
            owed.logged = Some(logged);
        }
    }

    /// Asks the log to take a record that only it is to hold.
    pub(super) fn append_left(
        &mut self,
        stream: StreamKey,
        seq: u64,
        record: &Record,
        size: Size,
        reply: Option<ReplyTo>,
        again: bool,
    ) {
        let rule_id = self.streams.get(stream).rule;
        let rule = self.options.rules.get(rule_id);
        let destinations =
            rule.to.iter().fold(Destinations::NONE, |all, &output| all | bit_of(output));
        self.open_segment(stream);
        let taken = self.take_packet(reply);
        let entry = self.logged_record(stream, seq, record, destinations, taken);
        let Some(store) = &mut self.store else { return };
        let (id, segment, rule) = (self.streams.get(stream).id, store.segment(), rule_id);
        let left = Left { stream, id, seq, destinations, again, segment, size, rule, reply, taken };
        let owner = self.streams.get(stream).owner;
        store.push_record(id, owner, entry, Unappended::Left(left.into()));
        self.backlog.deliveries += u64::from(destinations.count());
    }

    /// A record as the log keeps it.
    fn logged_record(
        &self,
        key: StreamKey,
        seq: u64,
        record: &Record,
        destinations: Destinations,
        taken: Option<Taken>,
    ) -> Entry {
        let stream = self.streams.get(key);
        let class = self.options.rules.get(stream.rule).class;
        let identity = &record.identity;
        let is_own = identity.origin == self.log_origin && identity.stream == stream.id;
        let payload = match &record.body {
            Body::Resident(payload) => payload.clone(),
            _ => unreachable!("only a body that is here goes to the log"),
        };
        Entry::Record(Box::new(LoggedRecord {
            stream: stream.id,
            seq,
            destinations,
            arrived: record.arrived,
            deadline: record.deadline,
            expires: record.expires,
            wall: self.store.as_ref().and_then(|store| store.wall_at(record.arrived)),
            source_unix_ns: record.source_unix_ns,
            class: self.options.classes.spec(class).name.clone(),
            key: record.key.clone(),
            properties: record.properties.clone(),
            payload,
            foreign: (!is_own).then(|| identity.clone()),
            packet: taken.map(|taken| taken.packet),
        }))
    }

    /// Makes sure that an entry about a stream can follow: begins a segment if one is due, and names the
    /// stream if the log does not know it.
    fn open_segment(&mut self, key: StreamKey) {
        self.begin_if_due();
        let stream = self.streams.get(key);
        if stream.is_named {
            return;
        }
        let name = self.name_of(key);
        self.streams.get_mut(key).is_named = true;
        if let Some(store) = &mut self.store {
            store.push(Entry::Stream(name), Unappended::Other);
        }
    }

    pub(super) fn begin_if_due(&mut self) {
        if self.store.as_ref().is_some_and(|store| store.is_segment_due()) {
            let checkpoint = self.checkpoint();
            let promises = self.sessions.written();
            if let Some(store) = &mut self.store {
                store.begin(checkpoint, promises);
            }
        }
    }

    fn name_of(&self, key: StreamKey) -> StreamName {
        let stream = self.streams.get(key);
        let rule = self.options.rules.get(stream.rule).name.clone();
        StreamName { stream: stream.id, rule, source: stream.name.clone() }
    }

    /// All that the log must know to forget what is before: every stream that it has heard of, and every
    /// record without a fate.
    fn checkpoint(&self) -> Checkpoint {
        let mut live: BTreeMap<StreamId, BTreeMap<SegmentId, Chunk>> = BTreeMap::new();
        for held in self.held.values() {
            let Some(owed) = &held.owed else { continue };
            let Some(Logged { stream, seq, segment, .. }) = owed.logged else { continue };
            let chunk = live.entry(stream).or_default().entry(segment).or_default();
            chunk.add(seq, all_of(&owed.legs), held.size);
        }
        for left in self.left_on_the_way() {
            let chunk = live.entry(left.id).or_default().entry(left.segment).or_default();
            chunk.add(left.seq, left.destinations, left.size);
        }
        for (&id, segment, chunk) in self.backlog.chunks() {
            let all = live.entry(id).or_default().entry(segment).or_default();
            all.bytes += chunk.bytes;
            chunk.runs.iter().for_each(|run| all.runs.add(run));
        }
        let mut streams = BTreeMap::new();
        for (key, stream) in self.streams.all().filter(|(_, stream)| stream.is_named) {
            streams.insert(stream.id, (self.name_of(key), stream.seq));
        }
        for (&id, (name, last_seq)) in &self.backlog.names {
            if live.contains_key(&id) {
                streams.entry(id).or_insert((name.clone(), *last_seq));
            }
        }
        let state = |(id, (name, last_seq)): (StreamId, (StreamName, u64))| {
            let live = live.remove(&id).unwrap_or_default().into_iter().collect();
            StreamState { name, last_seq, live }
        };
        let streams = streams.into_iter().map(state).collect();
        debug_assert!(live.is_empty(), "every record is of a stream that is known: {live:?}");
        let (last_stream, clients) = (self.streams.last_id(), self.sessions.states());
        Checkpoint { last_stream, streams, clients, ..Checkpoint::default() }
    }

    fn left_on_the_way(&self) -> impl Iterator<Item = &Left> {
        let unappended = self.store.iter().flat_map(|store| store.unappended.values());
        unappended.filter_map(|what| match what {
            Unappended::Left(left) => Some(&**left),
            _ => None,
        })
    }

    /// A delivery has its fate, and perhaps by a neighbour: the log must know.
    pub(super) fn log_fate(
        &mut self,
        now: Time,
        key: RecordKey,
        delivery: DeliveryKey,
        (fate, by): (Fate, Option<Arc<str>>),
    ) {
        let Some(owed) = &mut self.held[key].owed else { return };
        let Some(place) = owed.legs.iter().position(|leg| leg.delivery == delivery) else { return };
        let Leg { destinations, .. } = owed.legs.swap_remove(place);
        let (Some(logged), Some(store)) = (owed.logged, &mut self.store) else { return };
        let run = Run { first: logged.seq, last: logged.seq, destinations };
        store.note_fate(now, logged.stream, run, (fate, by));
        if owed.legs.is_empty() {
            store.settle(logged.segment, logged.stream, 1);
        }
    }

    /// Writes what the log is owed by now: fates, and after a failure the checkpoint that tries it.
    pub(super) fn write_due(&mut self, now: Time) {
        if !self.store.as_ref().is_some_and(|store| store.is_due(now)) {
            return;
        }
        self.begin_if_due();
        let Some(store) = &mut self.store else { return };
        store.flush_fates();
        if store.is_failing() {
            store.probe();
        }
    }

    /// The log holds these: their senders may know.
    pub(super) fn appended(&mut self, upto: u64) {
        while let Some((_, what)) = self.store.as_mut().and_then(|store| store.next_appended(upto))
        {
            match what {
                Unappended::Checkpoint(segment, promises) => {
                    self.store.iter_mut().for_each(|store| store.begun(segment));
                    self.sessions.settled();
                    promises.into_iter().for_each(|promise| self.keep_promise(promise));
                }
                Unappended::Promise(promise) => self.keep_promise(*promise),
                Unappended::Held { record, reply, .. } => {
                    self.let_go(record);
                    self.answer(reply, Ok(()));
                }
                Unappended::Left(left) => {
                    self.answer(left.reply, Ok(()));
                    let class = self.options.rules.get(left.rule).class;
                    let to = self.backlog.add(&left, class);
                    let count = u64::from(left.destinations.count());
                    let stream = self.streams.get_mut(left.stream);
                    stream.left -= count;
                    stream.left_bytes -= left.size;
                    self.count_left(left.stream, to, left.size, count);
                }
                Unappended::Other => {}
            }
        }
        self.made_log_room();
        if !self.is_log_failing() {
            self.tell_of_log(false);
        }
        self.check_drained();
    }

    /// The log does not hold these. Senders are told that nothing is promised; what is queued stays so, for
    /// not all of them send again.
    pub(super) fn append_failed(&mut self, now: Time, appends: &[u64], reason: RefuseReason) {
        let mut is_news = false;
        for &number in appends {
            let Some(store) = &mut self.store else { return };
            let failed = store.take_failed(now, number);
            is_news |= failed.is_some() && store.is_failing();
            match failed {
                Some(Unappended::Held { record, reply, taken, .. }) => {
                    self.sessions.untake(taken);
                    let owed = self.held.get_mut(record).and_then(|held| held.owed.as_mut());
                    let logged = owed.and_then(|owed| owed.logged.take());
                    if let Some(logged) = logged {
                        store.settle(logged.segment, logged.stream, 1);
                    }
                    // One that has its fates already needs no log.
                    let is_held = self.held.contains_key(record);
                    if self.waits_for_log(record) {
                        self.withdraw(now, record);
                    }
                    self.answer(reply, if is_held { Err(reason) } else { Ok(()) });
                }
                Some(Unappended::Left(left)) => {
                    store.settle(left.segment, left.id, 1);
                    self.sessions.untake(left.taken);
                    self.answer(left.reply, Err(reason));
                    let count = u64::from(left.destinations.count());
                    self.backlog.deliveries -= count;
                    self.forget_left(left.stream, left.size, count);
                    self.tally.dropped(left.rule, count, DropReason::Storage);
                }
                Some(Unappended::Checkpoint(_, promises)) => self.sessions.failed(promises),
                Some(Unappended::Promise(promise)) => self.sessions.failed([*promise]),
                Some(Unappended::Other) | None => {}
            }
        }
        if is_news {
            self.tell_of_log(true);
        }
        self.made_log_room();
        self.check_drained();
    }

    /// Whether a record must be in the log before it is sent, and is not yet.
    pub(super) fn waits_for_log(&self, record: RecordKey) -> bool {
        let owed = self.held.get(record).and_then(|held| held.owed.as_ref());
        owed.is_some_and(|owed| owed.after_log)
    }

    pub(super) fn legs_of(&self, record: RecordKey) -> Vec<DeliveryKey> {
        let owed = self.held.get(record).and_then(|held| held.owed.as_ref());
        owed.into_iter().flat_map(|owed| &owed.legs).map(|leg| leg.delivery).collect()
    }

    /// The log has a record that waited for it.
    fn let_go(&mut self, record: RecordKey) {
        if !self.waits_for_log(record) {
            return;
        }
        if let Some(owed) = &mut self.held[record].owed {
            owed.after_log = false;
        }
        self.legs_of(record).into_iter().for_each(|key| self.make_ready(key));
    }

    /// Takes a record out of its queues that the log does not have and that waited for it. Its sender is
    /// refused and sends it again.
    fn withdraw(&mut self, now: Time, record: RecordKey) {
        for key in self.legs_of(record) {
            self.queues.take(key);
            self.finish(now, key, Fate::Dropped(DropReason::Storage));
        }
    }

    /// People hear when the log begins to fail, and when it works again.
    fn tell_of_log(&mut self, is_failing: bool) {
        let Some(store) = &mut self.store else { return };
        if std::mem::replace(&mut store.is_told, is_failing) != is_failing {
            self.report(Event::LogFailing(is_failing));
        }
    }

    /// Whether durable records are refused for now.
    pub(super) fn is_log_failing(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.is_failing())
    }

    /// What only the log holds of a record counts with the other records of its log's stream.
    pub(super) fn count_left(
        &mut self,
        from: StreamKey,
        to: StreamKey,
        size: Size,
        deliveries: u64,
    ) {
        let [old, new] = [from, to].map(|stream| self.streams.get(stream).rule);
        self.tally.moved(old, new, deliveries);
        let stream = self.streams.get_mut(from);
        stream.bytes -= size;
        stream.held -= deliveries;
        let stream = self.streams.get_mut(to);
        stream.bytes += size;
        stream.left_bytes += size;
        stream.held += deliveries;
        stream.left += deliveries;
        self.streams.note_idle(from);
    }

    /// A stream holds less on disk.
    pub(super) fn forget_left(&mut self, key: StreamKey, size: Size, deliveries: u64) {
        let stream = self.streams.get_mut(key);
        stream.bytes -= size;
        stream.left_bytes -= size;
        stream.held -= deliveries;
        stream.left -= deliveries;
        self.made_room(key, true);
        self.streams.note_idle(key);
    }
}
