//! Defines the format of the log, which makes "accepted" true after a crash.
//!
//! A log is a folder of *segments*: files that are written from the beginning to the end. A segment has a header, *entries*
//! and, when it is finished, a footer. A *checkpoint* is an entry that repeats all that still holds, so that recovery reads
//! one or two segments. A *fate* ends one delivery of a record. A *run* is a range of sequence numbers with the same
//! destinations. This room encodes into bytes and reads from byte slices; the log store of the program moves the bytes, and
//! the node decides what is written (`Output::Append`) and when a segment may go (`Output::Release`). `docs/LOG.md` gives
//! the format byte by byte.
//!
//! | file | what |
//! |---|---|
//! | `entry.rs`, `session.rs` | the kinds of entries, as values; what a log keeps of sessions |
//! | `destinations.rs`, `runs.rs`, `segment.rs`, `wall.rs` | sets of outputs, runs of records, numbers of segments, wall time |
//! | `body.rs` | entries as bytes |
//! | `header.rs`, `seal.rs` | the head of a segment; encryption at rest |
//! | `writer.rs`, `preallocation.rs` | from entries to bytes; how far a file is filled with zeros ahead |
//! | `scan.rs`, `walk.rs` | from bytes to entries, past damage; a segment read in windows |
//! | `recover.rs`, `damage.rs`, `error.rs` | from segments to the records without a fate; damage; why a log cannot be used |
//! | `order.rs`, `fetch.rs` | what a node orders of its log; records of a backlog, read back |
//! | `segment_summary.rs`, `outcomes.rs`, `record_history.rs` | for people: what a segment holds, how its records ended, what happened to one record |
//! | `mirror/` | a copy of the log at a neighbour |
//!
//! ```
//! use tidegate_log::{Checkpoint, Entry, Keys, LogName, SegmentBytes, SegmentId, Writer, recover};
//! use tidegate_types::units::Size;
//!
//! let name = LogName { node: "gate-7".into(), incarnation: 1, boot: 9, outputs: vec!["cloud".into()] };
//! let keys: &Keys = &[];
//! let mut writer = Writer::new(name, keys);
//! let checkpoint = Checkpoint { segment: SegmentId(1), ..Checkpoint::default() };
//! writer.push(1, &Entry::Checkpoint(checkpoint)).unwrap();
//! let write = writer.take().remove(0);
//! let size = Size(write.bytes.len() as u64);
//! let segment = SegmentBytes { segment: write.segment, size, bytes: Some(&write.bytes) };
//! let recovery = recover(&[segment], keys).unwrap();
//! assert_eq!((recovery.boot, recovery.last_sequence), (9, 1));
//! ```

#![forbid(unsafe_code)]

mod body;
mod damage;
mod destinations;
mod entry;
mod error;
mod fetch;
mod header;
pub mod mirror;
mod order;
mod outcomes;
mod preallocation;
mod record_history;
mod recover;
mod runs;
mod scan;
mod seal;
mod segment;
mod segment_summary;
mod session;
mod walk;
mod wall;
mod writer;

pub use self::damage::{Damage, DamageKind};
pub use self::destinations::Destinations;
pub use self::entry::{
    Checkpoint, Chunk, Deed, Entry, FateEntry, FateRun, Footer, IndexPoint, Lever, LoggedRecord,
    StreamName, StreamPart, StreamState,
};
pub use self::error::{Defect, LogError};
pub use self::fetch::{Fetched, SegmentWindow, fetch};
pub use self::header::{
    COPY_AT, DEEDS, HEADER_MAX, Header, MAGIC, OWNERS, OpenedHeader, SEALED, TWICE,
};
pub use self::order::{Append, Fetch};
pub use self::outcomes::{Outcome, Outcomes};
pub use self::preallocation::preallocated_end;
pub use self::record_history::{DeliveryEnd, DeliveryHistory, RecordHistory};
pub use self::recover::{RecoveredStream, Recovery, SegmentBytes, begins_with_checkpoint, recover};
pub use self::runs::{RemovedRuns, Run, Runs};
pub use self::scan::{END, FRAME, RawEntry, Scanned, Scanner, find_footer, read_footer};
pub use self::seal::{Key, Keys, SALT_LENGTH, SegmentKey, TAG_LENGTH};
pub use self::segment::{SegmentId, VERSION};
pub use self::segment_summary::SegmentSummary;
pub use self::session::{Released, SessionOwner, SessionPosition, SessionState, Sessions};
pub use self::walk::{ReadPosition, Walked, walk};
pub use self::wall::WallTime;
pub use self::writer::{LogName, SegmentWrite, WriteError, Writer};
