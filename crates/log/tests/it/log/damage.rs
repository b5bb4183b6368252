//! Torn tails, flipped bits, lost pieces: what is whole is recovered, what is not is named.

use std::ops::ControlFlow;

use proptest::prelude::*;
use tidegate_log::{
    Entry, FateEntry, FateRun, Header, Key, OpenedHeader, ReadPosition, Scanned, Scanner,
    SegmentBytes, SegmentId, SegmentWindow, Walked, Writer, fetch, recover, walk,
};
use tidegate_types::record::{Fate, StreamId};
use tidegate_types::units::Size;

use crate::log::samples::*;

/// Offsets at which the entries of a segment begin, and its end.
fn places(opened: &OpenedHeader, bytes: &[u8]) -> Vec<usize> {
    let begin = |found| match found {
        Scanned::Frame(frame) => (frame.offset, frame.end()),
        Scanned::Damage { .. } => panic!("{found:?}"),
    };
    let places: Vec<_> = Scanner::new(opened, bytes).map(begin).collect();
    places.iter().map(|place| place.0).chain(places.last().map(|place| place.1)).collect()
}

fn entries_of(opened: &OpenedHeader, bytes: &[u8]) -> (Vec<Entry>, Vec<(usize, usize, bool)>) {
    let (mut entries, mut damage) = (Vec::new(), Vec::new());
    for found in Scanner::new(opened, bytes) {
        match found {
            Scanned::Frame(frame) => entries.extend(frame.entry(opened)),
            Scanned::Damage { from, to, is_tail } => damage.push((from, to, is_tail)),
        }
    }
    (entries, damage)
}

#[test]
fn cut_at_any_byte_the_whole_entries_before_it_are_there() {
    for keys in [vec![], vec![key()]] {
        let bytes = segment(&keys, &owned_entries());
        let opened = Header::open(&bytes, &keys).unwrap();
        let places = places(&opened, &bytes);
        let (all, _) = entries_of(&opened, &bytes);
        for length in opened.length..=bytes.len() {
            let (entries, damage) = entries_of(&opened, &bytes[..length]);
            let whole = places[1..].iter().filter(|&&end| end <= length).count();
            assert_eq!(entries, all[..whole], "cut at {length}");
            let torn = |bytes: &[u8], whole: usize| {
                let written = length_without_zeros(bytes);
                let is_torn = whole < all.len() && written > places[whole];
                Vec::from_iter(is_torn.then(|| (places[whole], written, true)))
            };
            assert_eq!(damage, torn(&bytes[..length], whole), "cut at {length}");
            // A tail of zeros, which is room not yet written, or of anything else.
            for filler in [0x00, 0xff] {
                let filled = [&bytes[..length], &[filler; 100]].concat();
                let (entries, damage) = entries_of(&opened, &filled);
                // Now and then the filler is what was lost.
                let is_same = |&&end: &&usize| filled.get(..end) == bytes.get(..end);
                let whole = places[1..].iter().filter(is_same).count();
                assert_eq!(entries, all[..whole], "cut at {length} and filled");
                assert_eq!(damage, torn(&filled, whole), "cut at {length} and filled");
            }
        }
    }
}

fn length_without_zeros(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

#[test]
fn room_behind_what_was_written_is_told_from_a_hole_in_it() {
    let mut entries = vec![checkpoint(8, vec![])];
    entries.extend((1..=3).map(|seq| Entry::Record(record(1, seq, &[0; 40]).into())));
    let growing = write(&[], &entries).remove(0).bytes;
    for whole in [growing, segment(&[], &owned_entries())] {
        let id = SegmentId(8);
        let recovered = |bytes: &[u8]| {
            let part =
                SegmentBytes { segment: id, size: Size(bytes.len() as u64), bytes: Some(bytes) };
            recover(&[part], &[]).unwrap()
        };
        let expected = recovered(&whole);
        assert!(expected.is_certain && expected.damage.is_empty());
        // A payload of zeros at the very end is no room: nothing of it may be cut.
        assert_eq!(expected.segments[&id], Size(whole.len() as u64));
        let with_room = [&whole[..], &[0; 5000]].concat();
        assert_eq!(recovered(&with_room), expected);
        let opened = Header::open(&whole, &[]).unwrap();
        let places = places(&opened, &whole);
        // The second entry never came to the disk, and what stands behind it did.
        let mut holed = with_room;
        holed[places[1]..places[2]].fill(0);
        let (found, damage) = entries_of(&opened, &holed);
        assert_eq!((found.len(), damage), (places.len() - 2, vec![(places[1], places[2], false)]));
    }
}

#[test]
fn a_flipped_bit_costs_one_entry_and_is_named() {
    for keys in [vec![], vec![key()]] {
        let bytes = segment(&keys, &owned_entries());
        let opened = Header::open(&bytes, &keys).unwrap();
        let places = places(&opened, &bytes);
        let (all, _) = entries_of(&opened, &bytes);
        let end = places[places.len() - 1];
        for bit in opened.length * 8..end * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let hit = places.iter().rposition(|&place| place <= bit / 8).unwrap();
            let (entries, damage) = entries_of(&opened, &bytes);
            let mut expected = all.clone();
            expected.remove(hit);
            assert_eq!(entries, expected, "bit {bit}");
            let to = if hit + 1 == all.len() { bytes.len() } else { places[hit + 1] };
            assert_eq!(damage, [(places[hit], to, hit + 1 == all.len())], "bit {bit}");
        }
    }
}

#[test]
fn an_entry_inside_a_payload_is_no_entry() {
    // A publisher who knows the format, but not the boot's number, writes an entry into its payload.
    let foreign = tidegate_log::LogName { boot: 0xbad, ..name() };
    let mut writer = tidegate_log::Writer::new(foreign, &[]);
    writer.push(100, &checkpoint(8, vec![])).unwrap();
    writer.push(101, &Entry::Record(record(12, 7, b"forged").into())).unwrap();
    let forged = writer.take().remove(0).bytes;
    let entries = [
        checkpoint(8, vec![]),
        Entry::Record(record(1, 1, &forged).into()),
        Entry::Record(record(1, 2, b"true").into()),
    ];
    let mut bytes = write(&[], &entries).remove(0).bytes;
    let opened = Header::open(&bytes, &[]).unwrap();
    let second = places(&opened, &bytes)[1];
    bytes[second] ^= 1;
    let (found, damage) = entries_of(&opened, &bytes);
    assert_eq!(found, [entries[0].clone(), entries[2].clone()]);
    assert_eq!(damage.len(), 1);
}

#[test]
fn hostile_bytes_do_not_make_the_search_endless() {
    // Each byte pretends to begin an entry as long as all that is left.
    let mut bytes = write(&[], &[checkpoint(8, vec![])]).remove(0).bytes;
    let opened = Header::open(&bytes, &[]).unwrap();
    let mut hostile = vec![0; 400_000];
    for at in (0..hostile.len() - 17).step_by(17) {
        let left = (hostile.len() - at - 17) as u32;
        hostile[at + 4..at + 8].copy_from_slice(&left.to_le_bytes());
        hostile[at + 8..at + 16].copy_from_slice(&(101 + at as u64 / 17).to_le_bytes());
        hostile[at + 16] = 1;
    }
    bytes.extend(hostile);
    let (found, damage) = entries_of(&opened, &bytes);
    assert_eq!((found.len(), damage.len()), (1, 1));
}

#[test]
fn a_backlog_is_read_back_in_windows_of_any_length() {
    for keys in [vec![], vec![key()]] {
        let mut entries = vec![checkpoint(8, vec![])];
        entries.extend((1..=20).map(|seq| {
            Entry::Record(record(seq % 2, seq, &vec![seq as u8; seq as usize * 9]).into())
        }));
        let bytes = write(&keys, &entries).remove(0).bytes;
        let opened = Header::open(&bytes, &keys).unwrap();
        let wanted = [StreamId(1)].into();
        for length in [1, 17, 60, 100, 1000, bytes.len()] {
            let (mut from, mut seqs, mut length_now) = (0, Vec::new(), length);
            loop {
                let end = (from as usize + length_now).min(bytes.len());
                let window = SegmentWindow {
                    from,
                    bytes: &bytes[from as usize..end],
                    is_last: end == bytes.len(),
                };
                let fetched = fetch(&opened, window, &wanted, Size(300));
                seqs.extend(fetched.records.iter().map(|record| record.seq));
                length_now = fetched.needs.unwrap_or(length);
                from = fetched.next;
                if fetched.is_end {
                    break;
                }
            }
            assert_eq!(seqs, (1..=19).step_by(2).collect::<Vec<_>>(), "windows of {length}");
        }
    }
}

#[test]
fn windows_find_all_that_stands_behind_damage() {
    let mut entries = vec![checkpoint(8, vec![])];
    entries.extend((1..=20).map(|seq| Entry::Record(record(1, seq, &[seq as u8; 40]).into())));
    let whole = write(&[], &entries).remove(0).bytes;
    let opened = Header::open(&whole, &[]).unwrap();
    let frames: Vec<usize> = Scanner::new(&opened, &whole)
        .map(|found| match found {
            Scanned::Frame(frame) => frame.offset,
            Scanned::Damage { .. } => panic!("nothing is damaged yet"),
        })
        .collect();
    // The checksum; a length that no entry has; one that ends far behind the segment.
    for (place, value) in [(0, 0x55), (7, 0xff), (6, 0x7f)] {
        let mut bytes = whole.clone();
        bytes[frames[10] + place] ^= value;
        for length in [1, 60, 200, 1000] {
            let wanted: Vec<u64> = (1..=20).filter(|seq| *seq != 10).collect();
            let (seqs, damage) = walked(&opened, &bytes, length);
            assert_eq!(seqs, wanted, "windows of {length}");
            assert_eq!(damage, [(frames[10], frames[11])]);
            assert_eq!(fetched(&opened, &bytes, length), wanted, "windows of {length}");
        }
    }
}

/// The records that a walk in windows of `length` finds, and the damage.
fn walked(opened: &OpenedHeader, bytes: &[u8], length: usize) -> (Vec<u64>, Vec<(usize, usize)>) {
    let (mut place, mut size) = (ReadPosition::first(opened), length);
    let (mut seqs, mut damage) = (Vec::new(), Vec::new());
    loop {
        let from = place.offset;
        let end = (from + size).min(bytes.len());
        let is_last = end == bytes.len();
        let walked = walk(opened, &mut place, &bytes[from..end], is_last, |found| {
            match found {
                Scanned::Frame(frame) => {
                    if let Some(Entry::Record(record)) = frame.entry(opened) {
                        seqs.push(record.seq);
                    }
                }
                Scanned::Damage { from, to, .. } => damage.push((from, to)),
            }
            ControlFlow::<()>::Continue(())
        });
        match walked {
            Walked::Needs(needs) => {
                assert!(place.offset > from || needs > size, "{needs} after {size}");
                size = needs;
            }
            Walked::End | Walked::Stopped(()) => return (seqs, damage),
        }
    }
}

/// The records of stream 1 that a backlog's reading in windows of `length` finds.
fn fetched(opened: &OpenedHeader, bytes: &[u8], length: usize) -> Vec<u64> {
    let (mut from, mut size, mut seqs) = (0, length, Vec::new());
    loop {
        let end = (from + size).min(bytes.len());
        let is_last = end == bytes.len();
        let window = SegmentWindow { from: from as u32, bytes: &bytes[from..end], is_last };
        let fetched = fetch(opened, window, &[StreamId(1)].into(), Size(300));
        seqs.extend(fetched.records.iter().map(|record| record.seq));
        assert!(fetched.needs.is_none_or(|needs| needs > size), "{fetched:?}");
        (from, size) = (fetched.next as usize, fetched.needs.unwrap_or(length));
        if fetched.is_end {
            return seqs;
        }
    }
}

/// A sector of the size that these segments of a few thousand bytes want.
const SECTOR: usize = 512;

/// Writes a sector of a finished segment in the place of another, for each two; the segment has records of `size` bytes.
/// What `found` reads of that must be every record whose bytes are as they were.
fn misplace(keys: &[Key], size: usize, found: impl Fn(&OpenedHeader, &[u8]) -> Vec<u64>) {
    let mut writer = Writer::new(name(), keys);
    writer.push(100, &checkpoint(8, vec![])).unwrap();
    for seq in 1..=40 {
        let entry = Entry::Record(record(1, seq, &vec![seq as u8; size]).into());
        writer.push(100 + seq, &entry).unwrap();
    }
    writer.finish();
    let whole: Vec<u8> = writer.take().into_iter().flat_map(|write| write.bytes).collect();
    let opened = Header::open(&whole, keys).unwrap();
    let places = places(&opened, &whole);
    let sectors = opened.length.div_ceil(SECTOR)..whole.len().div_ceil(SECTOR);
    for (to, from) in sectors.clone().flat_map(|to| sectors.clone().map(move |from| (to, from))) {
        let mut bytes = whole.clone();
        for (offset, byte) in whole[from * SECTOR..].iter().take(SECTOR).enumerate() {
            if let Some(place) = bytes.get_mut(to * SECTOR + offset) {
                *place = *byte;
            }
        }
        let mut seqs = found(&opened, &bytes);
        seqs.sort_unstable();
        seqs.dedup();
        for seq in 1..=40 {
            let place = places[seq as usize]..places[seq as usize + 1];
            let is_whole = bytes[place.clone()] == whole[place];
            assert!(!is_whole || seqs.contains(&seq), "record {seq}, sector {from} as {to}");
        }
    }
}

#[test]
fn a_sector_in_the_place_of_another_takes_only_what_stood_there() {
    // Entries of 128 bytes fill sectors: where one ends, one of another place may begin.
    let fills = 128 - (17 + 8 + 8 + 4 + 8 + 8 + 1 + 2 + 2 + 4 + 7 + 4 + 4);
    for (keys, size) in [(vec![], fills), (vec![], 40), (vec![], 300), (vec![key()], 40)] {
        misplace(&keys, size, |opened, bytes| {
            let of_record = |found| match found {
                Entry::Record(record) => Some(record.seq),
                _ => None,
            };
            entries_of(opened, bytes).0.into_iter().filter_map(of_record).collect()
        });
        misplace(&keys, size, |opened, bytes| walked(opened, bytes, 700).0);
        misplace(&keys, size, |opened, bytes| fetched(opened, bytes, 700));
        misplace(&keys, size, |_, bytes| {
            let size = Size(bytes.len() as u64);
            let part = SegmentBytes { segment: SegmentId(8), size, bytes: Some(bytes) };
            let recovery = recover(&[part], &keys).unwrap();
            recovery.live().flat_map(|(_, _, run)| run.first..=run.last).collect()
        });
    }
}

#[test]
fn fates_in_a_sector_that_stands_too_early_end_what_they_ended() {
    let fate = |seq| FateRun {
        stream: StreamId(1),
        run: run(seq, seq, 1),
        fate: Fate::Confirmed,
        by: None,
        deeds: Vec::new(),
    };
    let mut entries = vec![checkpoint(8, vec![])];
    entries.extend((1..=9).map(|seq| Entry::Record(record(1, seq, &[seq as u8; 40]).into())));
    entries.push(Entry::Fates(FateEntry { wall: None, runs: vec![fate(9)] }));
    let mut bytes = write(&[], &entries).remove(0).bytes;
    let opened = Header::open(&bytes, &[]).unwrap();
    let places = places(&opened, &bytes);
    let fates = bytes[places[10]..places[11]].to_vec();
    bytes[places[2]..places[3]].fill(0xff);
    bytes[places[2]..places[2] + fates.len()].copy_from_slice(&fates);
    let part =
        SegmentBytes { segment: SegmentId(8), size: Size(bytes.len() as u64), bytes: Some(&bytes) };
    let recovery = recover(&[part], &[]).unwrap();
    let held: Vec<u64> = recovery.live().flat_map(|(_, _, run)| run.first..=run.last).collect();
    assert_eq!(held, [1, 3, 4, 5, 6, 7, 8]);
}

proptest! {
    #[test]
    fn windows_find_what_a_whole_scan_finds(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0..8_u8), 0..6),
        cut in any::<prop::sample::Index>(),
        hole in (any::<prop::sample::Index>(), 0..400_usize),
        room in 0..600_usize,
        length in 1..700_usize,
    ) {
        let mut entries = vec![checkpoint(8, vec![])];
        entries.extend((1..=20).map(|seq| Entry::Record(record(1, seq, &[seq as u8; 40]).into())));
        let mut bytes = write(&[], &entries).remove(0).bytes;
        let opened = Header::open(&bytes, &[]).unwrap();
        bytes.truncate(opened.length + cut.index(bytes.len() - opened.length + 1));
        let body = opened.length..bytes.len();
        for (place, bit) in flips.into_iter().filter(|_| !body.is_empty()) {
            bytes[body.start + place.index(body.len())] ^= 1 << bit;
        }
        let begin = body.start + hole.0.index(body.len() + 1);
        bytes[begin..body.end.min(begin + hole.1)].fill(0);
        bytes.resize(body.end + room, 0);
        let (mut seqs, mut damage) = (Vec::new(), Vec::new());
        for found in Scanner::new(&opened, &bytes) {
            match found {
                Scanned::Frame(frame) => {
                    if let Some(Entry::Record(record)) = frame.entry(&opened) {
                        seqs.push(record.seq);
                    }
                }
                Scanned::Damage { from, to, .. } => damage.push((from, to)),
            }
        }
        prop_assert_eq!(walked(&opened, &bytes, length), (seqs.clone(), damage));
        prop_assert_eq!(fetched(&opened, &bytes, length), seqs);
    }
}

proptest! {
    #[test]
    fn no_bytes_are_a_trap(noise in proptest::collection::vec(any::<u8>(), 0..600), cut in 0..900_usize) {
        let bytes = segment(&[], &owned_entries());
        let cut = cut.min(bytes.len());
        let spoilt = [&bytes[..cut], &noise].concat();
        let part = SegmentBytes { segment: SegmentId(8), size: Size(1), bytes: Some(&spoilt) };
        let recovery = recover(&[part], &[]).unwrap();
        prop_assert!(recovery.live().count() <= 3);
        let part = SegmentBytes { bytes: Some(&noise), ..part };
        prop_assert_eq!(recover(&[part], &[]).unwrap().live().count(), 0);
    }

    #[test]
    fn no_body_is_a_trap(choice in 0..3_u8, noise in proptest::collection::vec(any::<u8>(), 0..300)) {
        tidegate_testing::scan_log(&[vec![choice], noise].concat());
    }
}

#[test]
fn names_of_records_of_other_nodes_are_found_again() {
    let full = full_record();
    let name = full.foreign.clone().unwrap();
    let entries = [checkpoint(8, vec![]), Entry::Record(full.into())];
    let bytes = write(&[], &entries).remove(0).bytes;
    let size = tidegate_types::units::Size(bytes.len() as u64);
    let part = SegmentBytes { segment: SegmentId(8), size, bytes: Some(&bytes) };
    let recovery = recover(&[part], &[]).unwrap();
    assert!(recovery.accepted.contains(&name));
    assert_eq!(recovery.accepted.streams(), 1);
}
