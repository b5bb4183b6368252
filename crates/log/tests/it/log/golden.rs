//! Version 1, byte by byte: files of it must be readable for ever.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use tidegate_log::{
    DamageKind, Entry, Header, LogError, OpenedHeader, Scanned, Scanner, SegmentBytes, SegmentId,
    find_footer, read_footer, recover,
};
use tidegate_log::{Defect, Key};
use tidegate_types::units::Size;

use crate::log::samples::*;

/// A finished segment of version 1 with one entry of each kind, plain and sealed. These files are never
/// changed: a new version gets files of its own. The first two are of the time before headers were there twice.
const PLAIN: &[u8] = include_bytes!("golden/v1-plain.segment");
const SEALED: &[u8] = include_bytes!("golden/v1-sealed.segment");
const PLAIN_TWICE: &[u8] = include_bytes!("golden/v1-twice-plain.segment");
const SEALED_TWICE: &[u8] = include_bytes!("golden/v1-twice-sealed.segment");
/// The same with sessions that say whose they are.
const PLAIN_OWNERS: &[u8] = include_bytes!("golden/v1-owners-plain.segment");
const SEALED_OWNERS: &[u8] = include_bytes!("golden/v1-owners-sealed.segment");

/// The same with what acted on a delivery before its fate.
const PLAIN_TOLD: &[u8] = include_bytes!("golden/v1-told-plain.segment");
const SEALED_TOLD: &[u8] = include_bytes!("golden/v1-told-sealed.segment");

fn read(opened: &OpenedHeader, segment: &[u8]) -> Vec<Entry> {
    let entry = |found| match found {
        Scanned::Frame(frame) => frame.entry(opened).unwrap(),
        Scanned::Damage { .. } => panic!("{found:?}"),
    };
    Scanner::new(opened, segment).map(entry).collect()
}

#[test]
fn version_1_is_written_as_ever() {
    assert!(
        segment(&[], &told_entries()) == PLAIN_TOLD,
        "the plain format changed without a new version"
    );
    assert!(
        segment(&[key()], &told_entries()) == SEALED_TOLD,
        "the sealed format changed without a new version"
    );
}

#[test]
fn version_1_is_read_as_ever() {
    let keys = vec![Key::new(&[1; 32]), key()];
    for (bytes, keys, expected) in [
        (PLAIN, vec![], entries()),
        (PLAIN_TWICE, vec![], entries()),
        (PLAIN_OWNERS, vec![], owned_entries()),
        (PLAIN_TOLD, vec![], told_entries()),
        (SEALED, keys.clone(), entries()),
        (SEALED_TWICE, keys.clone(), entries()),
        (SEALED_OWNERS, keys.clone(), owned_entries()),
        (SEALED_TOLD, keys, told_entries()),
    ] {
        let opened = Header::open(bytes, &keys).unwrap();
        assert_eq!(opened.header.node, name().node);
        assert_eq!((opened.header.incarnation, opened.header.boot), (0x1c9f, 0xb007));
        let all = read(&opened, bytes);
        let (footer, rest) = all.split_last().unwrap();
        assert_eq!(rest, expected);
        let offset = find_footer(&opened, &bytes[bytes.len() - 16..]).unwrap();
        let found = read_footer(&opened, offset, &bytes[offset..]).unwrap();
        assert_eq!(*footer, Entry::Footer(found.clone()));
        assert_eq!((found.sequences, found.records), ((100, 107), 2));
        let streams: Vec<_> = found.streams.iter().map(|part| (part.stream.0, part.seqs)).collect();
        assert_eq!(streams, [(12, (345, 345)), (13, (1, 1))]);
        assert_eq!(found.points[0].offset as usize, opened.length);
    }
}

#[test]
fn the_places_that_any_version_keeps() {
    assert_eq!(PLAIN[..8], *b"tidegate");
    assert_eq!(PLAIN[8..12], [1, 0, 0, 0]);
    assert_eq!(SEALED[8..12], [1, 0, 1, 0]);
    assert_eq!((&PLAIN_TWICE[8..12], &SEALED_TWICE[8..12]), (&[1, 0, 2, 0][..], &[1, 0, 3, 0][..]));
    assert_eq!(
        (&PLAIN_OWNERS[8..12], &SEALED_OWNERS[8..12]),
        (&[1, 0, 6, 0][..], &[1, 0, 7, 0][..])
    );
    assert_eq!((&PLAIN_TOLD[8..12], &SEALED_TOLD[8..12]), (&[1, 0, 14, 0][..], &[1, 0, 15, 0][..]));
    let header = usize::from(PLAIN_TWICE[12]);
    assert_eq!(PLAIN_TWICE[..header], PLAIN_TWICE[4096..4096 + header]);
    // The first entry: checksum, length, sequence 100, kind checkpoint.
    let length = usize::from(PLAIN[12]);
    assert_eq!(PLAIN[length + 8..length + 17], [100, 0, 0, 0, 0, 0, 0, 0, 4]);
}

#[test]
fn nothing_of_a_sealed_payload_shows() {
    let shows = |bytes: &[u8], text: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    for text in [b"plant/7".as_slice(), b"sensor 12", b"press"] {
        assert!(shows(PLAIN, text) && !shows(SEALED, text) && !shows(SEALED_TWICE, text));
    }
}

#[test]
fn a_log_of_another_key_or_node_is_not_touched() {
    let part = |bytes| {
        let segment = SegmentId(8);
        [SegmentBytes { segment, size: Size(1), bytes: Some(bytes) }]
    };
    let unusable = |source| LogError::Unusable { segment: SegmentId(8), source };
    let error = |bytes, keys: &[Key]| recover(&part(bytes), keys).unwrap_err();
    assert_eq!(error(SEALED, &[]), unusable(Defect::NoKey));
    assert_eq!(error(SEALED, &[Key::new(&[1; 32])]), unusable(Defect::WrongKey));
    assert!(recover(&part(PLAIN), &[key()]).is_ok(), "a key may come to a plain log");
    let mut other =
        tidegate_log::Writer::new(tidegate_log::LogName { incarnation: 5, ..name() }, &[]);
    other.push(1, &checkpoint(9, vec![])).unwrap();
    let bytes = other.take().remove(0).bytes;
    let next = SegmentBytes { segment: SegmentId(9), size: Size(1), bytes: Some(&bytes) };
    let error = recover(&[part(PLAIN)[0], next], &[]).unwrap_err();
    let shown = error.to_string();
    assert!(shown.contains("segment 9") && shown.contains("gate-7/0000000000000005"), "{shown}");
    // A file under a wrong number is not of this place.
    let wrong = SegmentBytes { segment: SegmentId(3), size: Size(1), bytes: Some(PLAIN) };
    assert_eq!(recover(&[wrong], &[]).unwrap().damage[0].verdict, DamageKind::Other);
}

#[test]
fn what_is_still_owed() {
    let part = SegmentBytes { segment: SegmentId(8), size: Size(1), bytes: Some(PLAIN) };
    let recovery = recover(&[part], &[]).unwrap();
    let live: Vec<_> = recovery.live().map(|(stream, at, run)| (stream.0, at.0, run)).collect();
    // 344 of the segment before was confirmed; of 345 one of two destinations is left.
    assert_eq!(live, [(12, 8, run(345, 345, 1)), (13, 8, run(1, 1, 1))]);
    assert_eq!(recovery.last_sequence, 107);
    assert_eq!(recovery.next_segment(), SegmentId(9));
    let packets =
        |client| recovery.sessions.clients[client].packets.iter().copied().collect::<Vec<_>>();
    assert_eq!((packets("press"), packets("sensor 13")), (vec![1, 65_535], vec![7, 65_535]));
    assert_eq!(recovery.sessions.positions.values().copied().collect::<Vec<_>>(), [300]);
    assert_eq!(&*recovery.streams[&tidegate_types::record::StreamId(13)].name.source, "sensor 13");
    // The segment before, in which a record was owed, is not there; but that one has its fate.
    assert!(recovery.damage.is_empty());
}

#[test]
#[ignore = "writes the golden files of a new version: run once, by hand"]
#[expect(clippy::disallowed_methods, reason = "no part of the room")]
fn write_golden_files() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/log/golden");
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(format!("{folder}/v1-owners-plain.segment"), segment(&[], &owned_entries()))
        .unwrap();
    std::fs::write(
        format!("{folder}/v1-owners-sealed.segment"),
        segment(&[key()], &owned_entries()),
    )
    .unwrap();
}
