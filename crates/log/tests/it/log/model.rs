//! Random lives of a log beside a trivial model of it: a map of what has no fate.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use tidegate_log::{
    COPY_AT, Checkpoint, Chunk, Destinations, Entry, FateEntry, FateRun, Key, Recovery, Run,
    SegmentBytes, SegmentId, StreamName, StreamState, Writer, recover,
};
use tidegate_types::record::{Fate, StreamId};
use tidegate_types::units::Size;

use crate::log::samples::{key, name, record};

/// What has no fate: (stream, seq) to its segment and destinations.
type Owed = BTreeMap<(u64, u64), (u32, u32)>;

#[derive(Clone, Debug)]
enum Op {
    Record {
        stream: u64,
        bits: u32,
        size: usize,
    },
    /// A fate for some of what is owed, chosen by place.
    Fate {
        place: usize,
        length: u64,
        bits: u32,
    },
    /// The next segment.
    Roll,
    /// The process ends and another one goes on.
    Boot,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (1..4_u64, 1..4_u32, 0..40_usize)
            .prop_map(|(stream, bits, size)| Op::Record { stream, bits, size }),
        3 => (0..50_usize, 0..5_u64, 1..4_u32)
            .prop_map(|(place, length, bits)| Op::Fate { place, length, bits }),
        1 => Just(Op::Roll),
        1 => Just(Op::Boot),
    ]
}

/// A log on an honest disk: each entry with the model as it is when the entry is whole.
struct Life {
    writer: Writer,
    keys: Vec<Key>,
    boot: u64,
    sequence: u64,
    segment: u32,
    owed: Owed,
    last_seqs: BTreeMap<u64, u64>,
    files: BTreeMap<u32, Vec<u8>>,
    /// After so many bytes of this segment, this is owed.
    history: Vec<(u32, usize, Owed)>,
}

impl Life {
    fn new(keys: Vec<Key>) -> Self {
        let mut life = Life {
            writer: Writer::new(name(), &keys),
            keys,
            boot: 1,
            sequence: 0,
            segment: 0,
            owed: Owed::new(),
            last_seqs: BTreeMap::new(),
            files: BTreeMap::new(),
            history: Vec::new(),
        };
        life.roll();
        life
    }

    fn push(&mut self, entry: &Entry) {
        self.sequence += 1;
        self.writer.push(self.sequence, entry).unwrap();
        for write in self.writer.take() {
            let file = self.files.entry(write.segment.0).or_default();
            assert_eq!(write.is_new, file.is_empty());
            file.extend(write.bytes);
        }
        let length = self.files[&self.segment].len();
        self.history.push((self.segment, length, self.owed.clone()));
    }

    fn roll(&mut self) {
        self.segment += 1;
        let mut streams: BTreeMap<u64, StreamState> = BTreeMap::new();
        for (&stream, &last_seq) in &self.last_seqs {
            let name = StreamName {
                stream: StreamId(stream),
                rule: "rule".into(),
                source: stream.to_string().into(),
            };
            let mut live: BTreeMap<SegmentId, Chunk> = BTreeMap::new();
            for (&(_, seq), &(segment, bits)) in self.owed.range((stream, 0)..=(stream, u64::MAX)) {
                let chunk = live.entry(SegmentId(segment)).or_default();
                chunk.add(seq, Destinations(bits), Size(7));
            }
            let live = live.into_iter().collect();
            streams.insert(stream, StreamState { name, last_seq, live });
        }
        let segment = SegmentId(self.segment);
        let streams = streams.into_values().collect();
        self.push(&Entry::Checkpoint(Checkpoint { segment, streams, ..Checkpoint::default() }));
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Record { stream, bits, size } => {
                let last = self.last_seqs.entry(stream).or_default();
                *last += 1;
                let seq = *last;
                self.owed.insert((stream, seq), (self.segment, bits));
                let mut record = record(stream, seq, &vec![1; size]);
                record.destinations = Destinations(bits);
                self.push(&Entry::Record(record.into()));
            }
            Op::Fate { place, length, bits } => {
                let Some((&(stream, first), _)) = self.owed.iter().nth(place) else { return };
                let last = (first + length).min(self.last_seqs[&stream]);
                for (_, (_, left)) in self.owed.range_mut((stream, first)..=(stream, last)) {
                    *left &= !bits;
                }
                self.owed.retain(|_, (_, left)| *left != 0);
                let run = Run { first, last, destinations: Destinations(bits) };
                let fate = Fate::Confirmed;
                let runs = vec![FateRun {
                    stream: StreamId(stream),
                    run,
                    fate,
                    by: None,
                    deeds: Vec::new(),
                }];
                self.push(&Entry::Fates(FateEntry { wall: None, runs }));
            }
            Op::Roll => self.roll(),
            Op::Boot => {
                self.boot += 1;
                let name = tidegate_log::LogName { boot: self.boot, ..name() };
                self.writer = Writer::new(name, &self.keys);
                self.roll();
            }
        }
    }

    /// Recovery of what is there when the last segment is cut after so many bytes.
    fn recover(&self, segment: u32, length: usize, changed: &[u8]) -> Recovery {
        let files = self.files.range(..=segment).map(|(&id, bytes)| {
            let bytes = if id == segment { changed } else { bytes };
            (id, bytes)
        });
        let files: Vec<(u32, &[u8])> = files.collect();
        let base = files.iter().rposition(|(id, bytes)| {
            let bytes = if *id == segment { &bytes[..length] } else { bytes };
            let segment = SegmentId(*id);
            tidegate_log::begins_with_checkpoint(segment, bytes, &self.keys).unwrap_or(false)
        });
        let part = |(place, &(id, bytes)): (usize, &(u32, &'_ [u8]))| {
            let is_needed = base.is_none_or(|base| place >= base);
            (id, bytes.len(), is_needed.then(|| bytes.to_vec()))
        };
        let mut parts: Vec<_> = files.iter().enumerate().map(part).collect();
        if let Some((_, _, Some(bytes))) = parts.last_mut() {
            bytes.truncate(length);
        }
        let parts: Vec<SegmentBytes<'_>> = parts
            .iter()
            .map(|(id, size, bytes)| SegmentBytes {
                segment: SegmentId(*id),
                size: Size(*size as u64),
                bytes: bytes.as_deref(),
            })
            .collect();
        recover(&parts, &self.keys).unwrap()
    }

    /// What was owed when the last whole entry before this point was written.
    fn owed_at(&self, segment: u32, length: usize) -> Owed {
        let is_whole = |(at, end, _): &&(u32, usize, Owed)| (*at, *end) <= (segment, length);
        self.history.iter().rev().find(is_whole).map(|(.., owed)| owed.clone()).unwrap_or_default()
    }
}

fn owed_of(recovery: &Recovery) -> Owed {
    let flat = |(stream, segment, run): (StreamId, SegmentId, Run)| {
        (run.first..=run.last).map(move |seq| ((stream.0, seq), (segment.0, run.destinations.0)))
    };
    recovery.live().flat_map(flat).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_crash_at_every_byte_leaves_what_the_model_says(
        ops in proptest::collection::vec(op(), 0..40), is_sealed: bool
    ) {
        let mut life = Life::new(if is_sealed { vec![key()] } else { vec![] });
        ops.into_iter().for_each(|op| life.apply(op));
        // Every byte of the last two segments: a crash before that is the end of a shorter life.
        for (&segment, bytes) in life.files.iter().rev().take(2) {
            // Between the copies of the header nothing is written.
            let head = bytes.len().min(300);
            for length in (0..head).chain(COPY_AT..=bytes.len()) {
                let recovery = life.recover(segment, length, bytes);
                prop_assert_eq!(owed_of(&recovery), life.owed_at(segment, length), "{} bytes of {}", length, segment);
                for (stream, last) in &life.last_seqs {
                    let known = recovery.streams.get(&StreamId(*stream)).map_or(0, |stream| stream.last_seq);
                    prop_assert!(known <= *last);
                }
            }
        }
    }

    #[test]
    fn a_flipped_bit_never_invents_anything(
        ops in proptest::collection::vec(op(), 1..30), bits in proptest::collection::vec(any::<u32>(), 1..20)
    ) {
        let mut life = Life::new(vec![]);
        ops.into_iter().for_each(|op| life.apply(op));
        let (&segment, bytes) = life.files.last_key_value().unwrap();
        let published = life.last_seqs.clone();
        for bit in bits {
            let mut changed = bytes.clone();
            let at = bit as usize % (changed.len() * 8);
            changed[at / 8] ^= 1 << (at % 8);
            let recovery = life.recover(segment, changed.len(), &changed);
            prop_assert!(!recovery.damage.is_empty() || owed_of(&recovery) == life.owed, "bit {}", at);
            for ((stream, seq), _) in owed_of(&recovery) {
                prop_assert!(seq <= published[&stream]);
            }
        }
    }
}
