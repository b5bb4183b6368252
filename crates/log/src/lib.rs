//! The log: what makes "accepted" true after a crash.
//!
//! A log is a folder of *segments*, files that are written from the beginning to the end: a header,
//! entries, and once it is finished a footer; before that, room for more. This module is the format and nothing else: it encodes into bytes and reads from
//! byte slices. The runtime's spool moves the bytes; the node decides what is written (`Output::Append`)
//! and when a segment may go (`Output::Release`). The format byte by byte: `docs/LOG.md`.
//!
//! | file | what |
//! |---|---|
//! | `entry` | the kinds of entries |
//! | `body`, `codec` | entries as bytes |
//! | `header`, `seal` | the head of a segment; encryption |
//! | `writer` | from entries to what must be written |
//! | `room` | how much of a file is zeros ahead of that |
//! | `scan` | from bytes to entries, past damage |
//! | `recover`, `damage` | from segments to what is still owed, and what is not as it should be |
//! | `fetch` | records of a backlog, read back |
//! | `walk` | a segment read in windows, for the tools |
//! | `survey` | what a segment holds, and how sound it is |
//! | `fates`, `life` | how records ended, in the words of the log |
//! | `session` | publishes that come once, readers that go on |

#![forbid(unsafe_code)]

mod body;
mod codec;
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
    Checkpoint, Chunk, Entry, FateEntry, FateRun, Footer, IndexPoint, LoggedRecord, StreamName,
    StreamPart, StreamState,
};
pub use self::error::{Defect, LogError};
pub use self::fetch::{Fetched, SegmentWindow, fetch};
pub use self::header::{COPY_AT, HEADER_MAX, Header, MAGIC, OpenedHeader, SEALED, TWICE};
pub use self::order::{Append, Fetch};
pub use self::outcomes::{Outcome, Outcomes};
pub use self::preallocation::preallocated_end;
pub use self::record_history::{DeliveryEnd, DeliveryHistory, RecordHistory};
pub use self::recover::{RecoveredStream, Recovery, SegmentBytes, begins_with_checkpoint, recover};
pub use self::runs::{RemovedRuns, Run, Runs};
pub use self::scan::{END, FRAME, RawEntry, Scanned, Scanner, find_footer, read_footer};
pub use self::seal::{Key, Keys, TAG_LENGTH};
pub use self::segment::{SegmentId, VERSION};
pub use self::segment_summary::SegmentSummary;
pub use self::session::{Released, SessionPosition, SessionState, Sessions};
pub use self::walk::{ReadPosition, Walked, walk};
pub use self::wall::WallTime;
pub use self::writer::{LogName, SegmentWrite, WriteError, Writer};
