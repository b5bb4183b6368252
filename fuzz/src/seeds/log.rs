//! Seeds of the log: a whole segment, and bodies of each kind of entry.

use std::sync::Arc;
use std::time::Duration;

use super::Seed;
use tidegate_broker::journal::{Flight, MessageNote, Note, SessionNote, Waiter, WillNote};
use tidegate_broker::{Message, SubscribeOptions};
use tidegate_log::{
    Checkpoint, Chunk, Deed, Destinations, Entry, FateEntry, FateRun, Key, Lever, LogName,
    LoggedRecord, Released, Run, SegmentId, SessionPosition, SessionState, StreamName, StreamState,
    WallTime, Writer,
};
use tidegate_types::class::ClassId;
use tidegate_types::ids::SessionId;
use tidegate_types::record::{DropReason, Fate, Identity, Origin, Properties, StreamId};
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
        ("session_notes", "a-life", behind_lengths(&notes())),
        (
            "session_notes",
            "backwards",
            behind_lengths(&notes().into_iter().rev().collect::<Vec<_>>()),
        ),
        ("session_notes", "last-number", behind_lengths(&[session(1), message(u64::MAX)])),
    ]
    .into_iter()
}

fn behind_lengths(notes: &[Note]) -> Vec<u8> {
    let framed = notes.iter().flat_map(|note| {
        let bytes = note.to_bytes();
        [&(bytes.len() as u16).to_le_bytes()[..], &bytes].concat()
    });
    framed.collect()
}

fn session(number: u32) -> Note {
    let will = WillNote { message: published(), ttl: Some(9), delay: 1 << 30, due: 1 << 60 };
    Note::Session(Box::new(SessionNote {
        session: SessionId(number),
        client: "press".into(),
        user: Some("plc-7".into()),
        payer: "plc-7".into(),
        expiry: 3600,
        ends: 1 << 60,
        will: Some(will),
    }))
}

fn published() -> Arc<Message> {
    Arc::new(Message {
        topic: "plant/7".into(),
        payload: "1.5".into(),
        properties: Properties::new(vec![("unit".into(), "bar".into())]),
        qos: 2,
        retain: true,
        arrived: Time::ZERO,
        expires: None,
        class: ClassId(0),
        deadline: Time::ZERO,
        source_unix_ns: Some(1),
        meter: None,
    })
}

fn message(number: u64) -> Note {
    let waiter = |session, qos, ids| Waiter { session: SessionId(session), qos, retain: true, ids };
    Note::Message(Box::new(MessageNote {
        number,
        message: published(),
        expires: Some(1 << 61),
        is_retained: number.is_multiple_of(2),
        waiters: vec![waiter(1, 2, Some([1, 7].into())), waiter(2, 1, None)],
        packet: Some((SessionId(2), 9)),
        will_of: Some(SessionId(1)),
    }))
}

/// Each kind of note.
fn notes() -> Vec<Note> {
    let options = SubscribeOptions { qos: 2, id: Some(7), ..SubscribeOptions::default() };
    let (one, two) = (SessionId(1), SessionId(2));
    let flight = Flight { number: 5, id: 11, is_received: true };
    vec![
        Note::Clock(1 << 59),
        session(1),
        session(2),
        Note::Subscribed(one, "plant/#".into(), options),
        Note::Subscribed(two, "$share/a/plant/+".into(), SubscribeOptions::default()),
        Note::Unsubscribed(two, "$share/a/plant/+".into()),
        Note::Packets(two, vec![8, 10]),
        Note::Whole(5, 3),
        message(5),
        message(6),
        Note::Flights(one, vec![flight, Flight { number: 6, is_received: false, ..flight }]),
        Note::Done(two, vec![5, 6, 7]),
        Note::Released(two, vec![8, 9]),
        Note::Unretained("plant/7".into()),
        Note::WillOver(one),
        Note::Over(two),
    ]
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
    let wall = Some(WallTime { unix_ns: 1_767_323_045 << 30, uncertainty: Duration::from_secs(1) });
    let origin = Arc::new(Origin { node: "gate-8".into(), incarnation: 3 });
    let foreign = Some(Identity { origin, stream, seq: 345 });
    let relayed = LoggedRecord { seq: 5, wall, foreign, packet: None, ..record.clone() };
    let run = Run { first: 3, last: 3, destinations: Destinations(1) };
    let deed = |lever, what: &str, after| Deed { lever, what: what.into(), after };
    let carried = FateRun {
        stream,
        run: Run { first: 4, last: 4, ..run },
        fate: Fate::Confirmed,
        by: Some("gate-9".into()),
        deeds: vec![
            deed(Lever::Script, "shrink: drop", Some(Duration::from_millis(12))),
            deed(Lever::Path, "wwan0, wlan0", None),
        ],
    };
    let late = FateRun {
        run: Run { first: 5, last: 5, ..run },
        fate: Fate::Dropped(DropReason::Expired),
        by: None,
        deeds: vec![deed(Lever::Queue, "late", None)],
        ..carried.clone()
    };
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
        Entry::Record(relayed.into()),
        Entry::Fates(FateEntry { wall, runs: vec![carried, late] }),
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
