//! Places of a log that hold nothing, and what they look like.

use super::SegmentId;

/// Bytes that hold nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// In which segment.
    pub segment: SegmentId,
    /// Where they begin, in bytes from the segment's beginning.
    pub from: u64,
    /// Where they end.
    pub to: u64,
    /// What they look like.
    pub verdict: DamageKind,
}

/// What damage looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// The end of a segment that was being written: what was never acknowledged, if the disk is honest.
    Torn,
    /// Something before whole entries: what was written is not there any more.
    Corrupt,
    /// The header, both copies of it: nothing of the segment can be read.
    Header,
    /// One copy of the header: the other one is read, and nothing is lost.
    Spare,
    /// The whole file: it holds another segment than the one that its name says.
    Other,
    /// The whole file: the segment of its number does not stand in it, but one that does not stand in its own.
    /// That one is read here, and nothing is lost.
    Moved,
    /// There is no file, and the log needs what it held.
    Missing,
}

impl DamageKind {
    /// Whether a crash alone leaves this behind, or nothing is lost by it.
    pub fn is_harmless(self) -> bool {
        matches!(self, DamageKind::Torn | DamageKind::Spare | DamageKind::Moved)
    }

    /// Whether nothing of the segment can be read.
    pub fn is_of_all(self) -> bool {
        matches!(self, DamageKind::Header | DamageKind::Other | DamageKind::Missing)
    }
}
