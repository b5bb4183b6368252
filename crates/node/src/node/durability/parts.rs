//! Whose bytes the log holds: each stream's part of each segment, on the account of who fed the stream when
//! the part began. A part is on it until none of its records is owed any more.
//!
//! What an earlier process wrote is on no account.

use std::collections::BTreeMap;

use tidegate_log::SegmentId;
use tidegate_types::record::StreamId;
use tidegate_types::shares::Shares;
use tidegate_types::units::Size;

use crate::node::holdings::OwnerKey;

#[derive(Debug)]
struct Part {
    owner: Option<OwnerKey>,
    bytes: Size,
    /// Records without a fate.
    live: u64,
}

/// All parts.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    parts: BTreeMap<(SegmentId, StreamId), Part>,
    shares: Shares<OwnerKey>,
}

impl Parts {
    /// Bytes on an account.
    pub(crate) fn of(&self, owner: OwnerKey) -> u64 {
        self.shares.of(&owner)
    }

    /// A record of a stream goes to a segment.
    pub(crate) fn add(
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
    pub(crate) fn settle(&mut self, segment: SegmentId, stream: StreamId, records: u64) {
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
    pub(crate) fn goes_with(
        &self,
        segment: SegmentId,
        stream: StreamId,
        records: u64,
    ) -> Option<Size> {
        let part = self.parts.get(&(segment, stream))?;
        (part.live == records).then_some(part.bytes)
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
