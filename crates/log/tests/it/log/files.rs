//! Segments that are damaged, exchanged, or gone as a whole: all others are read, and each is named.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use tidegate_log::{
    COPY_AT, Chunk, DamageKind, Destinations, Entry, Header, Recovery, Run, SegmentBytes,
    SegmentId, begins_with_checkpoint, recover,
};
use tidegate_types::units::Size;

use crate::log::samples::*;

/// Three records, numbered in a row through all segments, behind a checkpoint that knows those before.
fn file(segment: u32) -> Vec<u8> {
    let mut live = Vec::new();
    for before in 1..segment {
        let mut chunk = Chunk::default();
        seqs(before).for_each(|seq| chunk.add(seq, Destinations(1), Size(8)));
        live.push((SegmentId(before), chunk));
    }
    let last = u64::from(segment - 1) * 3;
    let streams = if segment == 1 { vec![] } else { vec![stream(1, last, live)] };
    let mut all = vec![checkpoint(segment, streams)];
    all.extend(seqs(segment).map(|seq| Entry::Record(record(1, seq, b"x").into())));
    write(&[], &all).remove(0).bytes
}

fn seqs(segment: u32) -> std::ops::RangeInclusive<u64> {
    let first = u64::from(segment) * 3 - 2;
    first..=first + 2
}

/// What a start finds that reads back to the last checkpoint.
fn read(files: &[(u32, Vec<u8>)]) -> Recovery {
    let begins = |(id, bytes): &(u32, Vec<u8>)| {
        begins_with_checkpoint(SegmentId(*id), bytes, &[]).unwrap_or(false)
    };
    let base = files.iter().rposition(begins).unwrap_or(0);
    let mut parts = Vec::new();
    for (place, (id, bytes)) in files.iter().enumerate() {
        let size = Size(bytes.len() as u64);
        let bytes = (place >= base).then_some(bytes.as_slice());
        parts.push(SegmentBytes { segment: SegmentId(*id), size, bytes });
    }
    recover(&parts, &[]).unwrap()
}

/// Segments in which all three records are owed.
fn owed(recovery: &Recovery) -> Vec<u32> {
    let whole = |(_, at, found): (_, SegmentId, Run)| {
        assert_eq!(found, run(*seqs(at.0).start(), *seqs(at.0).end(), 1));
        at.0
    };
    recovery.live().map(whole).collect()
}

fn told(recovery: &Recovery) -> Vec<(u32, DamageKind)> {
    recovery.damage.iter().map(|damage| (damage.segment.0, damage.verdict)).collect()
}

#[test]
fn a_newest_segment_with_the_content_of_another_takes_nothing_with_it() {
    // A stale block, or a write that went to another place: a checkpoint that is whole, and of long ago.
    for (place, content) in [(6, 1), (6, 5), (6, 2), (6, 7)] {
        let mut files: Vec<_> = (1..=5).map(|id| (id, file(id))).collect();
        files.push((place, file(content)));
        let recovery = read(&files);
        assert_eq!(owed(&recovery), [1, 2, 3, 4, 5]);
        assert_eq!(told(&recovery), [(place, DamageKind::Other)]);
        assert!(!recovery.is_certain && !recovery.segments.contains_key(&SegmentId(place)));
        assert_eq!(recovery.next_segment(), SegmentId(7), "no number is given twice");
    }
}

#[test]
fn a_header_is_read_by_its_copy_and_the_damage_is_named() {
    for at in [3, 20, 30, COPY_AT + 12] {
        let mut files: Vec<_> = (1..=3).map(|id| (id, file(id))).collect();
        files[2].1[at] ^= 1;
        let recovery = read(&files);
        assert_eq!(
            (owed(&recovery), told(&recovery)),
            (vec![1, 2, 3], vec![(3, DamageKind::Spare)])
        );
        assert!(recovery.is_certain, "nothing is lost");
    }
    // A whole block of the disk.
    let mut files: Vec<_> = (1..=3).map(|id| (id, file(id))).collect();
    files[2].1[..COPY_AT].fill(0xff);
    assert_eq!(owed(&read(&files)), [1, 2, 3]);
}

#[test]
fn a_header_of_which_both_copies_are_gone_costs_its_segment_and_no_other() {
    let mut files: Vec<_> = (1..=3).map(|id| (id, file(id))).collect();
    let length = Header::open(&files[2].1, &[]).unwrap().length;
    files[2].1[..length].fill(0);
    let recovery = read(&files);
    assert_eq!((owed(&recovery), told(&recovery)), (vec![1, 2], vec![(3, DamageKind::Header)]));
    assert!(!recovery.is_certain);
    // As long as nothing newer stands in the log, what lies in quarantine counts.
    files[2].1.clear();
    let again = read(&files);
    assert_eq!((again.is_certain, again.next_segment()), (false, SegmentId(4)));
    assert_eq!(told(&again), [(3, DamageKind::Missing)]);
}

#[test]
fn damage_in_one_segment_leaves_the_others() {
    // Neither of the later checkpoints is whole, so everything is read.
    let mut files: Vec<_> = (1..=3).map(|id| (id, file(id))).collect();
    let length = Header::open(&files[1].1, &[]).unwrap().length;
    files[1].1[length + 3] ^= 1;
    files[2].1[5] ^= 1;
    files[2].1[COPY_AT + 5] ^= 1;
    let recovery = read(&files);
    assert_eq!(owed(&recovery), [1, 2]);
    assert_eq!(told(&recovery), [(3, DamageKind::Header), (2, DamageKind::Corrupt)]);
}

#[test]
fn a_segment_that_is_gone_is_named_where_its_records_are_owed() {
    let mut files: Vec<_> = (1..=4).map(|id| (id, file(id))).collect();
    files.remove(1);
    let recovery = read(&files);
    assert_eq!(told(&recovery), [(2, DamageKind::Missing)]);
    assert!(recovery.is_certain, "the newest checkpoint knows all that it said");
    // The node counts what it cannot read back.
    assert_eq!(owed(&recovery), [1, 2, 3, 4]);
}
