//! The segments of the log: how many bytes each has, on whose account, and when nothing needs it any more.

use std::collections::BTreeMap;

use tidegate_log::{COPY_AT, Recovery, SegmentId};
use tidegate_types::record::StreamId;
use tidegate_types::units::Size;

use super::parts::Parts;
use crate::node::holdings::OwnerKey;

/// One segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    /// As the node reckons them; the file has a footer more, or a tag less an entry.
    pub(crate) bytes: Size,
    /// Records without a fate.
    pub(crate) live: u64,
}

/// All segments.
#[derive(Debug)]
pub(crate) struct Segments {
    all: BTreeMap<SegmentId, Segment>,
    bytes: Size,
    /// On whose account they are.
    parts: Parts,
    /// The one that entries go to.
    last: SegmentId,
    /// The newest of which the checkpoint is on disk.
    begun: Option<SegmentId>,
    /// To be deleted.
    releases: Vec<SegmentId>,
    /// Whether anything has left since somebody asked.
    has_freed: bool,
}

impl Segments {
    /// Those of a recovered log.
    pub(crate) fn new(recovery: &Recovery) -> Self {
        // As in segments of its own, headers do not count.
        let of_entries = |bytes: Size| Size(bytes.0.saturating_sub(COPY_AT as u64));
        let segment = |(&id, &bytes): (&SegmentId, &Size)| {
            (id, Segment { bytes: of_entries(bytes), live: 0 })
        };
        Segments {
            all: recovery.segments.iter().map(segment).collect(),
            bytes: recovery.segments.values().map(|&bytes| of_entries(bytes)).sum(),
            parts: Parts::default(),
            last: SegmentId(recovery.next_segment().0 - 1),
            begun: None,
            releases: Vec::new(),
            has_freed: false,
        }
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> Size {
        self.bytes
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Records without a fate in all of them.
    pub(crate) fn live(&self) -> u64 {
        self.all.values().map(|segment| segment.live).sum()
    }

    /// On whose account their bytes are.
    pub(crate) fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The segment that entries go to.
    pub(crate) fn last(&self) -> SegmentId {
        self.last
    }

    /// What it has, once it has begun.
    pub(crate) fn current(&self) -> Option<&Segment> {
        self.all.get(&self.last)
    }

    /// Entries go to a new segment; answers with its number.
    pub(crate) fn begin_next(&mut self) -> SegmentId {
        self.last = SegmentId(self.last.0 + 1);
        self.all.insert(self.last, Segment::default());
        self.last
    }

    /// An entry of this size goes to the last segment.
    pub(crate) fn add(&mut self, size: Size) {
        self.bytes += size;
        self.all.entry(self.last).or_default().bytes += size;
    }

    /// A record of a stream goes to the last segment, on its owner's account.
    pub(crate) fn add_record(&mut self, stream: StreamId, owner: Option<OwnerKey>, size: Size) {
        self.add(size);
        self.owe(self.last, 1);
        self.parts.add(self.last, stream, owner, size);
    }

    /// A segment has records without a fate.
    pub(crate) fn owe(&mut self, segment: SegmentId, records: u64) {
        self.all.entry(segment).or_default().live += records;
    }

    /// Records of a segment have all their fates. It goes with them, if nothing else needs it.
    pub(crate) fn settle(&mut self, segment: SegmentId, stream: StreamId, records: u64) {
        self.parts.settle(segment, stream, records);
        self.has_freed = true;
        if let Some(state) = self.all.get_mut(&segment) {
            state.live -= records;
            if state.live == 0 && self.begun.is_some_and(|begun| segment < begun) {
                self.release(segment);
            }
        }
    }

    fn release(&mut self, segment: SegmentId) {
        if let Some(gone) = self.all.remove(&segment) {
            self.bytes -= gone.bytes;
            self.releases.push(segment);
            self.has_freed = true;
        }
    }

    /// What a segment takes that could go if these records of it had their fates.
    pub(crate) fn goes_with(&self, segment: SegmentId, records: u64) -> Option<Size> {
        let state = self.all.get(&segment)?;
        let is_old = self.begun.is_some_and(|begun| segment < begun);
        (is_old && state.live == records).then_some(state.bytes)
    }

    /// The checkpoint of a segment is on disk: what is before it goes, where nothing is owed.
    pub(crate) fn begun(&mut self, segment: SegmentId) {
        self.begun = self.begun.max(Some(segment));
        let is_done =
            |(id, state): (&SegmentId, &Segment)| (*id < segment && state.live == 0).then_some(*id);
        let done: Vec<SegmentId> = self.all.iter().filter_map(is_done).collect();
        done.into_iter().for_each(|id| self.release(id));
    }

    /// Whether anything has left the log since this was asked last.
    pub(crate) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.has_freed)
    }

    /// Whether any are to be deleted.
    pub(crate) fn has_releases(&self) -> bool {
        !self.releases.is_empty()
    }

    /// Those to be deleted.
    pub(crate) fn take_releases(&mut self) -> Vec<SegmentId> {
        std::mem::take(&mut self.releases)
    }
}
