//! Records that only the log holds: stored there for want of memory, or found there at start. They are
//! read back a little ahead of their turn, a class at a time, and wait in their class's late list.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_log::{Chunk, Destinations, Run, Runs, SegmentId, StreamName};
use tidegate_types::class::ClassId;
use tidegate_types::record::StreamId;
use tidegate_types::units::Size;

use super::unappended::Stored;
use crate::node::holdings::StreamKey;
use crate::options::BacklogOrder;

/// What the log holds of a stream, and memory does not.
#[derive(Debug)]
pub(crate) struct StoredStream {
    /// The stream that it counts for.
    pub(crate) stream: StreamKey,
    /// The class that it is read back for; that of each record is found when it is read.
    pub(crate) class: ClassId,
    pub(crate) chunks: BTreeMap<SegmentId, Chunk>,
    /// Which of these this process may have sent already, and to whom: the log knows no attempts.
    marks: Runs,
}

impl StoredStream {
    /// An attempt to send a record may have arrived.
    pub(crate) fn mark(&mut self, seq: u64, destinations: Destinations) {
        self.marks.add(Run { first: seq, last: seq, destinations });
    }

    /// A record is no longer here: where an attempt may have arrived.
    pub(crate) fn unmark(&mut self, seq: u64) -> Destinations {
        self.marks.take(seq)
    }

    /// Records are no longer here.
    pub(crate) fn unmark_all(&mut self, run: Run) {
        self.marks.remove(run);
    }
}

/// A reading of a segment for a class, from its beginning to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    pub(crate) class: ClassId,
    pub(crate) segment: SegmentId,
    /// Where to go on.
    pub(crate) from: u32,
    /// Whether a record was put, since it began, where it may have read already.
    is_moved: bool,
    /// Whether a record was added, since it last asked, where it may be at its end.
    is_added: bool,
}

/// What comes after a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Go on where it ended.
    GoOn,
    /// All that was wanted is found.
    Done,
    /// It was read to its end, and these records are not there.
    Missing,
}

/// All records that only the log holds.
#[derive(Debug, Default)]
pub(crate) struct StoredBacklog {
    streams: BTreeMap<StreamId, StoredStream>,
    /// Names of streams that an earlier process knew, and their last numbers.
    pub(crate) names: BTreeMap<StreamId, (StreamName, u64)>,
    /// The reading under way in each class.
    passes: BTreeMap<ClassId, Pass>,
    /// The class that is being read for, until the answer comes.
    pub(crate) asked: Option<ClassId>,
    /// Bytes of each class that are read back and have no fate.
    pub(crate) ahead: BTreeMap<ClassId, Size>,
}

impl StoredBacklog {
    /// Every chunk, by stream and segment.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (&StreamId, SegmentId, &Chunk)> {
        self.streams.iter().flat_map(|(id, stored)| {
            stored.chunks.iter().map(move |(&segment, chunk)| (id, segment, chunk))
        })
    }

    /// A record that was never in memory is in the log. Answers with the stream that it counts for.
    pub(crate) fn add(&mut self, record: &Stored, class: ClassId) -> StreamKey {
        let Stored { id, stream, seq, destinations, again, size, segment, .. } = *record;
        self.passes_over(segment).for_each(|pass| pass.is_added = true);
        let stored = self.stream(id, stream, class);
        stored.chunks.entry(segment).or_default().add(seq, destinations, size);
        if again {
            stored.mark(seq, destinations);
        }
        stored.stream
    }

    /// The place for a record that was in memory, or that must be read once more.
    pub(crate) fn put_back(
        &mut self,
        id: StreamId,
        stream: StreamKey,
        class: ClassId,
        segment: SegmentId,
    ) -> &mut StoredStream {
        self.passes_over(segment).for_each(|pass| pass.is_moved = true);
        self.stream(id, stream, class)
    }

    fn passes_over(&mut self, segment: SegmentId) -> impl Iterator<Item = &mut Pass> {
        self.passes.values_mut().filter(move |pass| pass.segment == segment)
    }

    fn stream(&mut self, id: StreamId, stream: StreamKey, class: ClassId) -> &mut StoredStream {
        let new =
            || StoredStream { stream, class, chunks: BTreeMap::new(), marks: Runs::default() };
        self.streams.entry(id).or_insert_with(new)
    }

    pub(crate) fn get_mut(&mut self, id: StreamId) -> Option<&mut StoredStream> {
        self.streams.get_mut(&id)
    }

    /// Forgets a chunk that is empty, and a stream that has none.
    pub(crate) fn tidy(&mut self, id: StreamId, segment: SegmentId) {
        let Some(stored) = self.streams.get_mut(&id) else { return };
        if stored.chunks.get(&segment).is_some_and(|chunk| chunk.runs.is_empty()) {
            stored.chunks.remove(&segment);
        }
        if stored.chunks.is_empty() {
            self.streams.remove(&id);
        }
    }

    /// The class of every stream may be another one. What is being read is then read once more, from its
    /// beginning.
    pub(crate) fn reclass(&mut self, class_of: impl Fn(StreamKey) -> ClassId) {
        self.streams.values_mut().for_each(|stored| stored.class = class_of(stored.stream));
        self.passes.values_mut().for_each(|pass| pass.is_moved = true);
    }

    /// The oldest chunk that counts for a stream.
    pub(crate) fn oldest_of(&self, key: StreamKey) -> Option<(StreamId, SegmentId)> {
        let of_stream = self.streams.iter().filter(|(_, stored)| stored.stream == key);
        let first = of_stream.filter_map(|(&id, stored)| {
            stored.chunks.first_key_value().map(|(&segment, _)| (segment, id))
        });
        first.min().map(|(segment, id)| (id, segment))
    }

    /// Chunks that count for a stream: stream, segment, records, bytes.
    pub(crate) fn chunks_of(
        &self,
        key: StreamKey,
    ) -> impl Iterator<Item = (StreamId, SegmentId, u64, Size)> + '_ {
        let of_stream = self.streams.iter().filter(move |(_, stored)| stored.stream == key);
        of_stream.flat_map(|(&id, stored)| {
            let chunk = move |(&segment, chunk): (&SegmentId, &Chunk)| {
                (id, segment, chunk.runs.records(), chunk.bytes)
            };
            stored.chunks.iter().map(chunk)
        })
    }

    /// The reading that a class needs next, if it has anything on disk.
    pub(crate) fn pass(&mut self, class: ClassId, order: BacklogOrder) -> Option<Pass> {
        let of_class = || self.streams.values().filter(|stored| stored.class == class);
        let segments = of_class().flat_map(|stored| match order {
            BacklogOrder::OldestFirst => stored.chunks.first_key_value(),
            BacklogOrder::NewestFirst => stored.chunks.last_key_value(),
        });
        let segments = segments.map(|(&segment, _)| segment);
        let segment = match order {
            BacklogOrder::OldestFirst => segments.min(),
            BacklogOrder::NewestFirst => segments.max(),
        }?;
        let known = self.passes.get(&class).filter(|pass| pass.segment == segment);
        let new = Pass { class, segment, from: 0, is_moved: false, is_added: false };
        let pass = Pass { is_added: false, ..known.copied().unwrap_or(new) };
        self.passes.insert(class, pass);
        Some(pass)
    }

    /// The streams of a reading.
    pub(crate) fn wanted(&self, pass: Pass) -> BTreeSet<StreamId> {
        let is_wanted = |stored: &StoredStream| {
            stored.class == pass.class && stored.chunks.contains_key(&pass.segment)
        };
        self.streams.iter().filter(|(_, stored)| is_wanted(stored)).map(|(&id, _)| id).collect()
    }

    /// A class has read up to `next`, or to the end of the segment.
    pub(crate) fn read(&mut self, class: ClassId, next: u32, is_end: bool) -> Next {
        let Some(pass) = self.passes.get_mut(&class) else { return Next::Done };
        let is_stuck = next <= pass.from && pass.from > 0;
        pass.from = next;
        let pass = *pass;
        if self.wanted(pass).is_empty() {
            self.passes.remove(&class);
            return Next::Done;
        }
        if !is_end && !is_stuck {
            return Next::GoOn;
        }
        if pass.is_moved {
            // Something was put back behind us: once more from the beginning.
            self.passes.remove(&class);
            return Next::GoOn;
        }
        if pass.is_added {
            return Next::GoOn;
        }
        self.passes.remove(&class);
        Next::Missing
    }

    /// The reading of a class.
    pub(crate) fn pass_of(&self, class: ClassId) -> Option<Pass> {
        self.passes.get(&class).copied()
    }
}
