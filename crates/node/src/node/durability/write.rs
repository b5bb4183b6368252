//! A record, a fate, a checkpoint go to the log.

use std::collections::BTreeMap;

use tidegate_log::{
    Checkpoint, Chunk, Destinations, Entry, LoggedRecord, SegmentId, StreamName, StreamState,
};
use tidegate_schedule::queue::RecordKey;
use tidegate_types::record::{Record, StreamId};
use tidegate_types::units::Size;

use super::Durability;
use super::unappended::{Stored, Taken, Unappended};
use crate::node::base::Base;
use crate::node::holdings::{Logged, StreamKey, all_of, bit_of};
use crate::node::outbox::ReplyTo;

impl Durability {
    /// Asks the log to take a record that is held.
    pub(crate) fn append(&mut self, base: &mut Base, key: RecordKey, reply: Option<ReplyTo>) {
        let Some(held) = base.holdings.record(key) else { return };
        let Some(owed) = &held.owed else { return };
        let (destinations, seq) = (all_of(&owed.legs), owed.seq);
        let (stream, size, record) = (held.stream, held.size, held.record.clone());
        self.open_segment(base, stream);
        let taken = self.take_packet(base, reply);
        let entry = self.logged_record(base, stream, seq, &record, (destinations, taken));
        let (stream, owner) = (base.holdings.stream(stream).id, base.holdings.stream(stream).owner);
        let unappended = Unappended::Held { record: key, size, reply, taken };
        let number = self.store.push_record(stream, owner, entry, unappended);
        let logged = Logged { stream, seq, segment: self.store.segment(), number };
        if let Some(owed) = base.holdings.owed_mut(key) {
            owed.logged = Some(logged);
        }
    }

    /// Asks the log to take a record that only it is to hold.
    pub(crate) fn append_stored(
        &mut self,
        base: &mut Base,
        stream: StreamKey,
        (seq, again): (u64, bool),
        record: &Record,
        size: Size,
        reply: Option<ReplyTo>,
    ) {
        let outputs = base.rule_of(stream).to.iter();
        let destinations = outputs.fold(Destinations::NONE, |all, &output| all | bit_of(output));
        self.open_segment(base, stream);
        let taken = self.take_packet(base, reply);
        let entry = self.logged_record(base, stream, seq, record, (destinations, taken));
        let (id, segment) = (base.holdings.stream(stream).id, self.store.segment());
        let stored = Stored { stream, id, seq, destinations, again, segment, size, reply, taken };
        let owner = base.holdings.stream(stream).owner;
        self.store.push_record(id, owner, entry, Unappended::Stored(stored.into()));
    }

    /// A record as the log keeps it.
    fn logged_record(
        &self,
        base: &Base,
        key: StreamKey,
        seq: u64,
        record: &Record,
        (destinations, taken): (Destinations, Option<Taken>),
    ) -> Entry {
        let stream = base.holdings.stream(key);
        let class = base.rule_of(key).class;
        let identity = &record.identity;
        let is_own = identity.origin == self.origin && identity.stream == stream.id;
        Entry::Record(Box::new(LoggedRecord {
            stream: stream.id,
            seq,
            destinations,
            arrived: record.arrived,
            deadline: record.deadline,
            expires: record.expires,
            wall: self.store.wall_at(record.arrived),
            source_unix_ns: record.source_unix_ns,
            class: base.options.classes.spec(class).name.clone(),
            key: record.key.clone(),
            properties: record.properties.clone(),
            payload: record.payload.clone(),
            foreign: (!is_own).then(|| identity.clone()),
            packet: taken.map(|taken| taken.packet),
        }))
    }

    /// Makes sure that an entry about a stream can follow: begins a segment if one is due, and names the
    /// stream if the log does not know it.
    fn open_segment(&mut self, base: &mut Base, key: StreamKey) {
        self.begin_if_due(base);
        if base.holdings.stream(key).is_named {
            return;
        }
        let name = name_of(base, key);
        base.holdings.mark_named(key);
        self.store.push(Entry::Stream(name), Unappended::Other);
    }

    /// What segments begin with has changed: a new one begins.
    pub(crate) fn renew_segment(&mut self, base: &Base) {
        if self.store.end_segment() {
            self.begin_if_due(base);
        }
    }

    /// Begins a segment with a checkpoint if one is due.
    pub(super) fn begin_if_due(&mut self, base: &Base) {
        if self.store.is_segment_due() {
            let checkpoint = self.checkpoint(base);
            let promises = self.sessions.written();
            self.store.begin(checkpoint, promises);
        }
    }

    /// Writes what the log is owed by now: fates, and after a failure the checkpoint that tries it.
    pub(crate) fn write_due(&mut self, base: &Base) {
        if !self.store.is_due(base.now) {
            return;
        }
        self.begin_if_due(base);
        self.store.flush_fates();
        if self.store.is_failing() {
            self.store.probe();
        }
    }

    /// All that the log must know to forget what is before: every stream that it has heard of, and every
    /// record without a fate.
    fn checkpoint(&self, base: &Base) -> Checkpoint {
        let mut live = self.live(base);
        let mut streams = BTreeMap::new();
        for (key, stream) in base.holdings.streams().all().filter(|(_, stream)| stream.is_named) {
            streams.insert(stream.id, (name_of(base, key), stream.seq));
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
        let (last_stream, clients) = (base.holdings.streams().last_id(), self.sessions.states());
        Checkpoint { last_stream, streams, clients, ..Checkpoint::default() }
    }

    /// Every record without a fate that the log has or will have, by stream and segment.
    fn live(&self, base: &Base) -> BTreeMap<StreamId, BTreeMap<SegmentId, Chunk>> {
        let mut live: BTreeMap<StreamId, BTreeMap<SegmentId, Chunk>> = BTreeMap::new();
        for held in base.holdings.records() {
            let Some(owed) = &held.owed else { continue };
            let Some(Logged { stream, seq, segment, .. }) = owed.logged else { continue };
            let chunk = live.entry(stream).or_default().entry(segment).or_default();
            chunk.add(seq, all_of(&owed.legs), held.size);
        }
        let unappended = self.store.unappended.values();
        for what in unappended {
            let Unappended::Stored(stored) = what else { continue };
            let chunk = live.entry(stored.id).or_default().entry(stored.segment).or_default();
            chunk.add(stored.seq, stored.destinations, stored.size);
        }
        for (&id, segment, chunk) in self.backlog.chunks() {
            let all = live.entry(id).or_default().entry(segment).or_default();
            all.bytes += chunk.bytes;
            chunk.runs.iter().for_each(|run| all.runs.add(run));
        }
        live
    }
}

/// What the log calls a stream.
fn name_of(base: &Base, key: StreamKey) -> StreamName {
    let stream = base.holdings.stream(key);
    let rule = base.rule_of(key).name.clone();
    StreamName { stream: stream.id, rule, source: stream.name.clone() }
}
