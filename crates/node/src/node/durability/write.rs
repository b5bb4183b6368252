//! A record, a fate, a checkpoint go to the log.

use std::collections::BTreeMap;

use tidegate_log::{
    Checkpoint, Chunk, Destinations, Entry, LoggedRecord, SegmentId, StreamName, StreamState,
};
use tidegate_schedule::queue::RecordKey;
use tidegate_types::record::{Record, StreamId};
use tidegate_types::units::{Size, Time};

use super::unappended::{Stored, Taken, Unappended};
use super::{Around, Durability};
use crate::node::holdings::{Holdings, Logged, StreamKey, all_of, bit_of};
use crate::node::outbox::ReplyTo;
use crate::options::NodeOptions;

impl Durability {
    /// Asks the log to take a record that is held.
    pub(crate) fn append(
        &mut self,
        around: &mut Around<'_>,
        key: RecordKey,
        reply: Option<ReplyTo>,
    ) {
        let Some(held) = around.holdings.record(key) else { return };
        let Some(owed) = &held.owed else { return };
        let (destinations, seq) = (all_of(&owed.legs), owed.seq);
        let (stream, size, record) = (held.stream, held.size, held.record.clone());
        self.open_segment(around, stream);
        let taken = self.take_packet(around, reply);
        let entry = self.logged_record(around, stream, seq, &record, (destinations, taken));
        let Some(store) = &mut self.store else { return };
        let number = store.push(entry, Unappended::Held { record: key, size, reply, taken });
        let stream = around.holdings.stream(stream).id();
        let logged = Logged { stream, seq, segment: store.segment(), number };
        if let Some(owed) = around.holdings.owed_mut(key) {
            owed.logged = Some(logged);
        }
    }

    /// Asks the log to take a record that only it is to hold.
    pub(crate) fn append_stored(
        &mut self,
        around: &mut Around<'_>,
        stream: StreamKey,
        (seq, again): (u64, bool),
        record: &Record,
        size: Size,
        reply: Option<ReplyTo>,
    ) {
        let rule = around.holdings.stream(stream).rule();
        let outputs = around.options.rules.get(rule).to.iter();
        let destinations = outputs.fold(Destinations::NONE, |all, &output| all | bit_of(output));
        self.open_segment(around, stream);
        let taken = self.take_packet(around, reply);
        let entry = self.logged_record(around, stream, seq, record, (destinations, taken));
        let Some(store) = &mut self.store else { return };
        let (id, segment) = (around.holdings.stream(stream).id(), store.segment());
        let stored =
            Stored { stream, id, seq, destinations, again, segment, size, rule, reply, taken };
        store.push(entry, Unappended::Stored(stored.into()));
    }

    /// A record as the log keeps it.
    fn logged_record(
        &self,
        around: &Around<'_>,
        key: StreamKey,
        seq: u64,
        record: &Record,
        (destinations, taken): (Destinations, Option<Taken>),
    ) -> Entry {
        let stream = around.holdings.stream(key);
        let class = around.options.rules.get(stream.rule()).class;
        let identity = &record.identity;
        let is_own = identity.origin == self.origin && identity.stream == stream.id();
        Entry::Record(Box::new(LoggedRecord {
            stream: stream.id(),
            seq,
            destinations,
            arrived: record.arrived,
            deadline: record.deadline,
            expires: record.expires,
            wall: self.store.as_ref().and_then(|store| store.wall_at(record.arrived)),
            source_unix_ns: record.source_unix_ns,
            class: around.options.classes.spec(class).name.clone(),
            key: record.key.clone(),
            properties: record.properties.clone(),
            payload: record.payload.clone(),
            foreign: (!is_own).then(|| identity.clone()),
            packet: taken.map(|taken| taken.packet),
        }))
    }

    /// Makes sure that an entry about a stream can follow: begins a segment if one is due, and names the
    /// stream if the log does not know it.
    fn open_segment(&mut self, around: &mut Around<'_>, key: StreamKey) {
        self.begin_if_due(around.holdings, around.options);
        if around.holdings.stream(key).is_named() {
            return;
        }
        let name = name_of(around.holdings, around.options, key);
        around.holdings.mark_named(key);
        if let Some(store) = &mut self.store {
            store.push(Entry::Stream(name), Unappended::Other);
        }
    }

    /// Begins a segment with a checkpoint if one is due.
    pub(super) fn begin_if_due(&mut self, holdings: &Holdings, options: &NodeOptions) {
        if self.store.as_ref().is_some_and(|store| store.is_segment_due()) {
            let checkpoint = self.checkpoint(holdings, options);
            let promises = self.sessions.written();
            if let Some(store) = &mut self.store {
                store.begin(checkpoint, promises);
            }
        }
    }

    /// Writes what the log is owed by now: fates, and after a failure the checkpoint that tries it.
    pub(crate) fn write_due(&mut self, now: Time, holdings: &Holdings, options: &NodeOptions) {
        if !self.store.as_ref().is_some_and(|store| store.is_due(now)) {
            return;
        }
        self.begin_if_due(holdings, options);
        let Some(store) = &mut self.store else { return };
        store.flush_fates();
        if store.is_failing() {
            store.probe();
        }
    }

    /// All that the log must know to forget what is before: every stream that it has heard of, and every
    /// record without a fate.
    fn checkpoint(&self, holdings: &Holdings, options: &NodeOptions) -> Checkpoint {
        let mut live = self.live(holdings);
        let mut streams = BTreeMap::new();
        for (key, stream) in holdings.streams().filter(|(_, stream)| stream.is_named()) {
            streams.insert(stream.id(), (name_of(holdings, options, key), stream.seq()));
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
        let (last_stream, clients) = (holdings.last_stream_id(), self.sessions.states());
        Checkpoint { last_stream, streams, clients, ..Checkpoint::default() }
    }

    /// Every record without a fate that the log has or will have, by stream and segment.
    fn live(&self, holdings: &Holdings) -> BTreeMap<StreamId, BTreeMap<SegmentId, Chunk>> {
        let mut live: BTreeMap<StreamId, BTreeMap<SegmentId, Chunk>> = BTreeMap::new();
        for held in holdings.records() {
            let Some(owed) = &held.owed else { continue };
            let Some(Logged { stream, seq, segment, .. }) = owed.logged else { continue };
            let chunk = live.entry(stream).or_default().entry(segment).or_default();
            chunk.add(seq, all_of(&owed.legs), held.size);
        }
        let unappended = self.store.iter().flat_map(|store| store.unappended.values());
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
fn name_of(holdings: &Holdings, options: &NodeOptions, key: StreamKey) -> StreamName {
    let stream = holdings.stream(key);
    let rule = options.rules.get(stream.rule()).name.clone();
    StreamName { stream: stream.id(), rule, source: stream.name().clone() }
}
