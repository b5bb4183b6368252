//! Whose bytes the log holds: each stream's part of each segment, on the account of who fed the stream when
//! the part began. A part is on it until none of its records is owed any more.
//!
//! What an earlier process wrote is on no account.

use std::collections::BTreeMap;

use super::Store;
use crate::log::{Entry, SegmentId};
use crate::node::owners::OwnerKey;
use crate::node::unappended::Unappended;
use crate::record::StreamId;
use crate::shares::Shares;
use crate::units::Size;

#[derive(Debug)]
struct Part {
    owner: Option<OwnerKey>,
    bytes: Size,
    /// Records without a fate.
    live: u64,
}

/// All parts.
#[derive(Debug, Default)]
pub(in crate::node) struct Parts {
    parts: BTreeMap<(SegmentId, StreamId), Part>,
    shares: Shares<OwnerKey>,
}

impl Parts {
    /// Bytes on an account.
    pub(in crate::node) fn of(&self, owner: OwnerKey) -> u64 {
        self.shares.of(&owner)
    }

    /// A record of a stream goes to a segment.
    pub(in crate::node) fn add(
        &mut self,
        segment: SegmentId,
        stream: StreamId,
        owner: Option<OwnerKey>,
        bytes: Size,
    ) {
        let new = Part { owner, bytes: Size::ZERO, live: 0 };
        let part = self.parts.entry((segment, stream)).or_insert(new);
        part.bytes += bytes;
        part.live += 1;
        if let Some(owner) = &part.owner {
            self.shares.add(owner, bytes.0);
        }
    }

    /// Records of a stream in a segment have all their fates.
    pub(in crate::node) fn settle(&mut self, segment: SegmentId, stream: StreamId, records: u64) {
        let Some(part) = self.parts.get_mut(&(segment, stream)) else { return };
        part.live = part.live.saturating_sub(records);
        if part.live == 0 {
            let Part { owner, bytes, .. } = *part;
            self.parts.remove(&(segment, stream));
            if let Some(owner) = owner {
                self.shares.subtract(&owner, bytes.0);
            }
        }
    }

    /// What would be on no account any more, if these records had their fates.
    pub(in crate::node) fn goes_with(
        &self,
        segment: SegmentId,
        stream: StreamId,
        records: u64,
    ) -> Option<Size> {
        let part = self.parts.get(&(segment, stream))?;
        (part.live == records).then_some(part.bytes)
    }
}

impl Store {
    /// What records may fill of the log; the rest is for what makes room again.
    pub(in crate::node) fn bound_of_records(&self) -> Size {
        Size(self.options.bound.0 / 8 * 7)
    }

    /// Appends a record of a stream, on its owner's account.
    pub(in crate::node) fn push_record(
        &mut self,
        stream: StreamId,
        owner: Option<OwnerKey>,
        entry: Entry,
        unappended: Unappended,
    ) -> u64 {
        let before = self.bytes;
        let number = self.push(entry, unappended);
        self.parts.add(self.last_segment, stream, owner, self.bytes - before);
        number
    }

    /// Records of a segment have all their fates. It goes with them, if nothing else needs it.
    pub(in crate::node) fn settle(&mut self, segment: SegmentId, stream: StreamId, records: u64) {
        self.parts.settle(segment, stream, records);
        self.has_freed = true;
        if let Some(state) = self.segments.get_mut(&segment) {
            state.live -= records;
            if state.live == 0 && self.begun.is_some_and(|begun| segment < begun) {
                self.release(segment);
            }
        }
    }

    /// Whether anything has left the log since this was asked last.
    pub(in crate::node) fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.has_freed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_on_the_account_of_who_began_it_until_its_last_fate() {
        let mut keys: slotmap::SlotMap<OwnerKey, ()> = slotmap::SlotMap::with_key();
        let [alice, bob] = [keys.insert(()), keys.insert(())];
        let (mut parts, stream) = (Parts::default(), StreamId(7));
        parts.add(SegmentId(1), stream, Some(alice), Size(100));
        parts.add(SegmentId(1), stream, Some(bob), Size(10));
        parts.add(SegmentId(2), stream, Some(bob), Size(5));
        assert_eq!((parts.of(alice), parts.of(bob)), (110, 5));
        assert_eq!(parts.goes_with(SegmentId(1), stream, 1), None);
        parts.settle(SegmentId(1), stream, 1);
        assert_eq!(parts.of(alice), 110, "its bytes stay on the disk");
        assert_eq!(parts.goes_with(SegmentId(1), stream, 1), Some(Size(110)));
        parts.settle(SegmentId(1), stream, 1);
        parts.settle(SegmentId(1), stream, 1);
        assert_eq!((parts.of(alice), parts.of(bob)), (0, 5));
        parts.add(SegmentId(3), stream, None, Size(50));
        parts.settle(SegmentId(3), stream, 1);
        parts.settle(SegmentId(2), stream, 1);
        assert_eq!((parts.of(bob), parts.parts.len()), (0, 0));
    }
}
