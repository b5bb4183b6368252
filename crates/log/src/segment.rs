//! What tells segments apart, and the version of their format.

use std::fmt;

/// A segment's number: rising, and never given twice in the life of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}", self.0)
    }
}

/// The version that this code writes; it reads no other yet.
pub const VERSION: u16 = 1;
