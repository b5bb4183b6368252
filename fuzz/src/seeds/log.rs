//! Seeds of the log: a whole segment, and bodies of each kind of entry.

use std::time::Duration;

use super::Seed;
use tidegate_log::{
    Checkpoint, Chunk, Destinations, Entry, FateEntry, FateRun, Key, LogName, LoggedRecord,
    Released, Run, SegmentId, SessionPosition, SessionState, StreamName, StreamState, Writer,
};
use tidegate_types::record::{Fate, Properties, StreamId};
use tidegate_types::units::{Size, Time};

pub(super) fn seeds() -> impl Iterator<Item = Seed> {
    let (plain, bodies) = written(&[]);
    let (sealed, _) = written(&[Key::new(&[9; 32])]);
    let torn = plain[..plain.len() - 30].to_vec();
    let mut flipped = plain.clone();
    flipped[plain.len() / 2] ^= 4;
    let with = |choice: u8, bytes: Vec<u8>| [vec![choice], bytes].concat();
    [
        ("log_scan", "whole", with(0, plain)),
        ("log_scan", "torn", with(0, torn)),
        ("log_scan", "flipped", with(0, flipped)),
        ("log_scan", "bodies", with(1, bodies)),
        ("log_scan", "sealed", with(2, sealed)),
    ]
    .into_iter()
}

fn entries() -> Vec<Entry> {
    let stream = StreamId(1);
    let mut chunk = Chunk::default();
    chunk.add(3, Destinations(1), Size(9));
    let name = StreamName { stream, rule: "plc".into(), source: "press".into() };
    let state = StreamState { name: name.clone(), last_seq: 3, live: vec![(SegmentId(1), chunk)] };
    let lasts = Duration::from_secs(60);
    let client =
        SessionState { lasts, packets: [7, 8].into(), ..SessionState::over("press".into()) };
    let position = SessionPosition { session: "hall".into(), stream, seq: 2 };
    let record = LoggedRecord {
        stream,
        seq: 4,
        destinations: Destinations(1),
        arrived: Time::from_millis(5),
        deadline: Time::from_millis(55),
        expires: Some(Time::from_millis(900)),
        wall: None,
        source_unix_ns: Some(1),
        class: "ls".into(),
        key: "plant/7".into(),
        properties: Properties::new(vec![("unit".into(), "bar".into())]),
        payload: "1.5".into(),
        foreign: None,
        packet: Some(9),
    };
    let run = Run { first: 3, last: 3, destinations: Destinations(1) };
    vec![
        Entry::Checkpoint(Checkpoint {
            segment: SegmentId(1),
            last_stream: stream,
            streams: vec![state],
            clients: vec![client.clone()],
            positions: vec![position.clone()],
        }),
        Entry::Record(record.into()),
        Entry::Fates(FateEntry {
            wall: None,
            runs: vec![FateRun { stream, run, fate: Fate::Confirmed, by: None, deeds: Vec::new() }],
        }),
        Entry::Stream(name),
        Entry::Session(client),
        Entry::Released(Released { client: "press".into(), packets: vec![7] }),
        Entry::Position(position),
    ]
}

/// A finished segment, and its entries' kinds and bodies.
fn written(keys: &[Key]) -> (Vec<u8>, Vec<u8>) {
    let name = LogName { node: "fuzz".into(), incarnation: 1, boot: 2, outputs: vec!["a".into()] };
    let mut writer = Writer::new(name, keys);
    let (mut segment, mut bodies) = (Vec::new(), Vec::new());
    for (place, entry) in entries().iter().enumerate() {
        writer.push(place as u64 + 1, entry).expect("seeds are small");
        let bytes: Vec<u8> = writer.take().into_iter().flat_map(|write| write.bytes).collect();
        let body = &bytes[bytes.len() - entry.body_size()..];
        bodies.extend([entry.kind(), body.len() as u8]);
        bodies.extend(body);
        segment.extend(bytes);
    }
    writer.finish();
    segment.extend(writer.take().into_iter().flat_map(|write| write.bytes));
    (segment, bodies)
}
