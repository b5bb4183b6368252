//! A small log that has one of everything.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_log::{
    Checkpoint, Chunk, Deed, Destinations, Entry, FateEntry, FateRun, Key, Lever, LogName,
    LoggedRecord, Released, Run, SegmentId, SegmentWrite, SessionOwner, SessionPosition,
    SessionState, StreamName, StreamState, WallTime, Writer,
};
use tidegate_types::record::{DropReason, Fate, Identity, Origin, Properties, StreamId};
use tidegate_types::units::{Size, Time};

pub(crate) fn name() -> LogName {
    let outputs = vec!["cloud".into(), "archive".into()];
    LogName { node: "gate-7".into(), incarnation: 0x1c9f, boot: 0xb007, outputs }
}

pub(crate) fn key() -> Key {
    Key::new(&[7; 32])
}

pub(crate) fn record(stream: u64, seq: u64, payload: &[u8]) -> LoggedRecord {
    LoggedRecord {
        stream: StreamId(stream),
        seq,
        destinations: Destinations(1),
        arrived: Time::from_millis(1000 + seq),
        deadline: Time::from_millis(1050 + seq),
        expires: None,
        wall: None,
        source_unix_ns: None,
        class: "ls".into(),
        key: "plant/7".into(),
        properties: Properties::default(),
        payload: Bytes::copy_from_slice(payload),
        foreign: None,
        packet: None,
    }
}

const NOON: WallTime =
    WallTime { unix_ns: 1_700_000_000_000_000_000, uncertainty: Duration::from_millis(5) };

pub(crate) fn full_record() -> LoggedRecord {
    let origin = Origin { node: "camera".into(), incarnation: 3 };
    LoggedRecord {
        destinations: Destinations(3),
        expires: Some(Time::from_millis(9000)),
        wall: Some(NOON),
        source_unix_ns: Some(1_699_999_999_000_000_000),
        properties: Properties::new(vec![("unit".into(), "bar".into()), ("".into(), "".into())]),
        foreign: Some(Identity { origin: Arc::new(origin), stream: StreamId(4), seq: 99 }),
        ..record(12, 345, b"1.5")
    }
}

pub(crate) fn run(first: u64, last: u64, bits: u32) -> Run {
    Run { first, last, destinations: Destinations(bits) }
}

pub(crate) fn stream(id: u64, last_seq: u64, live: Vec<(SegmentId, Chunk)>) -> StreamState {
    let stream = StreamId(id);
    let name = StreamName { stream, rule: "plc".into(), source: format!("sensor {id}").into() };
    StreamState { name, last_seq, live }
}

pub(crate) fn checkpoint(segment: u32, streams: Vec<StreamState>) -> Entry {
    let segment = SegmentId(segment);
    Entry::Checkpoint(Checkpoint { segment, streams, ..Checkpoint::default() })
}

/// One entry of each kind but the footer, which comes with the next segment.
pub(crate) fn entries() -> Vec<Entry> {
    let mut chunk = Chunk::default();
    chunk.add(344, Destinations(1), Size(10));
    let Entry::Checkpoint(first) =
        checkpoint(8, vec![stream(12, 344, vec![(SegmentId(7), chunk)])])
    else {
        unreachable!()
    };
    let ends = Some(WallTime { unix_ns: 1_700_000_600_000_000_000, ..NOON });
    let packets = [1, 65_535].into();
    let client = SessionState {
        lasts: Duration::from_secs(600),
        ends,
        packets,
        ..SessionState::over("press".into())
    };
    let press = SessionState { client: "sensor 13".into(), ends: None, ..client.clone() };
    let position = SessionPosition { session: "press".into(), stream: StreamId(12), seq: 300 };
    let fate = |seq, bits, fate| FateRun {
        stream: StreamId(12),
        run: run(seq, seq, bits),
        fate,
        by: None,
        deeds: Vec::new(),
    };
    vec![
        Entry::Checkpoint(Checkpoint {
            clients: vec![client],
            positions: vec![position.clone()],
            ..first
        }),
        Entry::Record(full_record().into()),
        Entry::Fates(FateEntry {
            wall: Some(NOON),
            runs: vec![
                fate(344, 1, Fate::Confirmed),
                fate(345, 2, Fate::Dropped(DropReason::Expired)),
            ],
        }),
        Entry::Stream(stream(13, 0, vec![]).name),
        Entry::Session(press),
        Entry::Record(LoggedRecord { packet: Some(7), ..record(13, 1, b"") }.into()),
        Entry::Released(Released { client: "sensor 13".into(), packets: vec![1, 2] }),
        Entry::Position(position),
    ]
}

/// The same with what acted on a delivery before its fate.
pub(crate) fn told_entries() -> Vec<Entry> {
    let mut entries = owned_entries();
    for entry in &mut entries {
        let Entry::Fates(fates) = entry else { continue };
        let (script, path) = ("shed: drop".into(), "lte, dsl".into());
        let after = Some(Duration::from_millis(12));
        fates.runs[1].deeds = vec![Deed { lever: Lever::Script, what: script, after }];
        fates.runs[0].by = Some("gate-3".into());
        fates.runs[0].deeds = vec![Deed { lever: Lever::Path, what: path, after: None }];
    }
    entries
}

pub(crate) fn write(keys: &[Key], entries: &[Entry]) -> Vec<SegmentWrite> {
    let mut writer = Writer::new(name(), keys);
    for (place, entry) in entries.iter().enumerate() {
        writer.push(place as u64 + 100, entry).unwrap();
    }
    writer.take()
}

/// The same, with sessions that say whose they are.
pub(crate) fn owned_entries() -> Vec<Entry> {
    let owned = |state: &mut SessionState, user| state.owner = SessionOwner::new(user);
    let mut all = entries();
    for entry in &mut all {
        match entry {
            Entry::Checkpoint(checkpoint) => {
                checkpoint.clients.iter_mut().for_each(|state| owned(state, Some("alice")));
            }
            Entry::Session(state) => owned(state, None),
            _ => {}
        }
    }
    all
}

/// The finished segment 8 of these entries.
pub(crate) fn segment(keys: &[Key], entries: &[Entry]) -> Vec<u8> {
    let mut writer = Writer::new(name(), keys);
    for (place, entry) in entries.iter().enumerate() {
        writer.push(place as u64 + 100, entry).unwrap();
    }
    writer.finish();
    writer.take().into_iter().flat_map(|write| write.bytes).collect()
}
