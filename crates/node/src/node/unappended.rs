//! What is on its way into the log, and what happens once it is there.

use tidegate_log::{Destinations, SegmentId};
use tidegate_schedule::queue::RecordKey;
use tidegate_types::record::StreamId;
use tidegate_types::units::Size;

use super::sessions::{Promise, Taken};
use super::sources::ReplyTo;
use super::streams::StreamKey;
use crate::rules::RuleId;

/// What waits for its way into the log.
#[derive(Debug)]
pub(super) enum Unappended {
    /// The beginning of a segment, and what is kept with it.
    Checkpoint(SegmentId, Vec<Promise>),
    /// A record that is held in memory, or was.
    Held { record: RecordKey, size: Size, reply: Option<ReplyTo>, taken: Option<Taken> },
    /// A record that only the log is to hold.
    Left(Box<Left>),
    /// What somebody waits for.
    Promise(Box<Promise>),
    /// Fates, rows of the table of streams, sessions, positions.
    Other,
}

/// A record that only the log holds.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) stream: StreamKey,
    pub(super) id: StreamId,
    pub(super) seq: u64,
    pub(super) destinations: Destinations,
    /// Whether an earlier attempt of the node that it came from may have arrived.
    pub(super) again: bool,
    pub(super) segment: SegmentId,
    pub(super) size: Size,
    pub(super) rule: RuleId,
    pub(super) reply: Option<ReplyTo>,
    pub(super) taken: Option<Taken>,
}

impl Unappended {
    /// Of the record in it.
    pub(super) fn size(&self) -> Size {
        match self {
            Unappended::Held { size, .. } => *size,
            Unappended::Left(left) => left.size,
            Unappended::Checkpoint(..) | Unappended::Promise(_) | Unappended::Other => Size::ZERO,
        }
    }
}
