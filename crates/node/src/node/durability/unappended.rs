//! What is on its way into the log, and what happens once it is there.

use tidegate_log::{Destinations, SegmentId};
use tidegate_schedule::queue::RecordKey;
use tidegate_types::record::{SourceId, StreamId};
use tidegate_types::units::Size;

use crate::node::holdings::StreamKey;
use crate::node::outbox::ReplyTo;

slotmap::new_key_type! {
    /// A session that the log knows, or will know.
    pub(crate) struct SessionKey;
}

/// A packet identifier that goes to the log with a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) session: SessionKey,
    pub(crate) packet: u16,
}

/// What is done when the log holds what was pushed with it.
#[derive(Debug)]
pub(crate) enum Promise {
    /// A session is over; a connection may wait to hear it.
    Over(SessionKey, Option<Who>),
    /// Identifiers may be used again.
    Released(SessionKey, Who, Vec<u16>),
}

/// A connection in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) source: SourceId,
    pub(crate) life: u64,
}

/// What waits for its way into the log.
#[derive(Debug)]
pub(crate) enum Unappended {
    /// The beginning of a segment, and what is kept with it.
    Checkpoint(SegmentId, Vec<Promise>),
    /// A record that is held in memory, or was.
    Held { record: RecordKey, size: Size, reply: Option<ReplyTo>, taken: Option<Taken> },
    /// A record that only the log is to hold.
    Stored(Box<Stored>),
    /// What somebody waits for.
    Promise(Box<Promise>),
    /// Fates, rows of the table of streams, sessions, positions.
    Other,
}

/// A record that only the log holds.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) stream: StreamKey,
    pub(crate) id: StreamId,
    pub(crate) seq: u64,
    pub(crate) destinations: Destinations,
    /// Whether an earlier attempt of the node that it came from may have arrived.
    pub(crate) again: bool,
    pub(crate) segment: SegmentId,
    pub(crate) size: Size,
    pub(crate) reply: Option<ReplyTo>,
    pub(crate) taken: Option<Taken>,
}

impl Unappended {
    /// Of the record in it.
    pub(crate) fn size(&self) -> Size {
        match self {
            Unappended::Held { size, .. } => *size,
            Unappended::Stored(stored) => stored.size,
            Unappended::Checkpoint(..) | Unappended::Promise(_) | Unappended::Other => Size::ZERO,
        }
    }
}
