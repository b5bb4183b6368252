//! What a node orders of its log.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_types::record::StreamId;
use tidegate_types::units::Size;

use super::SegmentId;
use super::entry::Entry;

/// An entry for the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Append {
    /// Its sequence in the log, rising. The first one, and the first one after a failure that the node
    /// knows of, is a checkpoint.
    pub number: u64,
    /// What to write. A checkpoint finishes the segment before and begins the one that it names.
    pub entry: Entry,
}

/// Records that the log is to read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// From which segment.
    pub segment: SegmentId,
    /// From where on, in bytes from its beginning; 0 is the first entry.
    pub from: u32,
    /// Of which streams.
    pub streams: Arc<BTreeSet<StreamId>>,
    /// Until their payloads sum up to this.
    pub most: Size,
}
