//! The owner's part: which bytes of its log go next.

use tidegate_types::units::Size;

use super::{PIECE_MAX, SegmentLengths};
use crate::SegmentId;

/// What is to be said next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyStep {
    /// The keeper has these, and nobody needs them.
    Release(Vec<SegmentId>),
    /// Bytes that the keeper lacks.
    Piece {
        /// Of which segment.
        segment: SegmentId,
        /// Where they begin.
        from: Size,
        /// How many.
        length: usize,
    },
}

/// How far a copy has got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// What was said, and what the keeper had before.
    said: SegmentLengths,
    /// What is safe at the keeper.
    safe: SegmentLengths,
}

impl CopyProgress {
    /// From what the keeper has.
    pub fn new(kept: SegmentLengths) -> Self {
        CopyProgress { said: kept.clone(), safe: kept }
    }

    /// What to say next, where the log has these bytes of these segments; `None`: the copy is whole.
    ///
    /// The newest segment goes first: what the log says of all earlier ones is in it, and it grows. A
    /// copy that is longer than what it is of is none: it goes, and begins again.
    pub fn next(&mut self, log: &SegmentLengths) -> Option<CopyStep> {
        let is_over = |(segment, said): &(&SegmentId, &Size)| {
            log.get(segment).is_none_or(|length| length < said)
        };
        let over: Vec<SegmentId> = self.said.iter().filter(is_over).map(|(id, _)| *id).collect();
        if !over.is_empty() {
            for segment in &over {
                self.said.remove(segment);
                self.safe.remove(segment);
            }
            return Some(CopyStep::Release(over));
        }
        for (&segment, &length) in log.iter().rev() {
            let from = self.said.get(&segment).copied().unwrap_or_default();
            let left = length.0.saturating_sub(from.0);
            if left > 0 {
                let length = left.min(PIECE_MAX as u64);
                self.said.insert(segment, Size(from.0 + length));
                return Some(CopyStep::Piece { segment, from, length: length as usize });
            }
        }
        None
    }

    /// The keeper has a segment up to there.
    pub fn is_safe(&mut self, segment: SegmentId, upto: Size) {
        // What was released meanwhile stays gone.
        if let Some(said) = self.said.get(&segment) {
            self.safe.insert(segment, upto.min(*said));
        }
    }

    /// Bytes that the log has and that are not safe at the keeper.
    pub fn behind(&self, log: &SegmentLengths) -> Size {
        let missing = |(segment, length): (&SegmentId, &Size)| {
            length.0.saturating_sub(self.safe.get(segment).map_or(0, |size| size.0))
        };
        Size(log.iter().map(missing).sum())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn lengths(all: &[(u32, u64)]) -> SegmentLengths {
        all.iter().map(|&(segment, length)| (SegmentId(segment), Size(length))).collect()
    }

    #[test]
    fn the_newest_goes_first_and_what_is_gone_is_released() {
        let mut copying = CopyProgress::new(lengths(&[(1, 10), (2, 20)]));
        let log = lengths(&[(2, 25), (3, 7)]);
        assert_eq!(copying.behind(&log), Size(12));
        assert_eq!(copying.next(&log), Some(CopyStep::Release(vec![SegmentId(1)])));
        let piece = |segment, from, length| {
            Some(CopyStep::Piece { segment: SegmentId(segment), from: Size(from), length })
        };
        assert_eq!(copying.next(&log), piece(3, 0, 7));
        assert_eq!(copying.next(&log), piece(2, 20, 5));
        assert_eq!(copying.next(&log), None);
        assert_eq!(copying.behind(&log), Size(12), "said is not safe");
        copying.is_safe(SegmentId(3), Size(7));
        copying.is_safe(SegmentId(2), Size(25));
        copying.is_safe(SegmentId(1), Size(10)); // released meanwhile
        assert_eq!(copying.behind(&log), Size::ZERO);
    }

    #[test]
    fn a_copy_that_is_longer_than_the_log_begins_again() {
        let mut copying = CopyProgress::new(lengths(&[(4, 30)]));
        let log = lengths(&[(4, 12)]);
        assert_eq!(copying.next(&log), Some(CopyStep::Release(vec![SegmentId(4)])));
        let all = CopyStep::Piece { segment: SegmentId(4), from: Size::ZERO, length: 12 };
        assert_eq!((copying.next(&log), copying.next(&log)), (Some(all), None));
    }

    proptest! {
        /// Whatever the keeper had and however the log changes meanwhile, the copy becomes the log.
        #[test]
        fn a_copy_becomes_the_log(
            kept in proptest::collection::btree_map(0_u32..6, 1_u64..700_000, 0..5),
            logs in proptest::collection::vec(
                proptest::collection::btree_map(0_u32..6, 1_u64..700_000, 0..5), 1..4),
        ) {
            let typed = |log: &BTreeMap<u32, u64>| -> SegmentLengths {
                log.iter().map(|(id, length)| (SegmentId(*id), Size(*length))).collect()
            };
            let mut copy = typed(&kept);
            let mut copying = CopyProgress::new(copy.clone());
            for (place, log) in logs.iter().enumerate() {
                let log = typed(log);
                // Of all but the last log only a few steps are heard.
                let steps = if place + 1 == logs.len() { 1000 } else { 3 };
                for _ in 0..steps {
                    match copying.next(&log) {
                        None => break,
                        Some(CopyStep::Release(all)) => all.iter().for_each(|id| {
                            assert!(copy.remove(id).is_some(), "only what is kept is released");
                        }),
                        Some(CopyStep::Piece { segment, from, length }) => {
                            let has = copy.entry(segment).or_default();
                            prop_assert_eq!(*has, from, "a piece follows what is there");
                            prop_assert!(length <= PIECE_MAX);
                            *has = Size(has.0 + length as u64);
                            copying.is_safe(segment, *has);
                        }
                    }
                }
                if place + 1 == logs.len() {
                    prop_assert_eq!(copying.behind(&log), Size::ZERO);
                    prop_assert_eq!(&copy, &log);
                }
            }
        }
    }
}
