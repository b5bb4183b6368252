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
//! | `body` | entries as bytes |
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
mod damage;
mod destinations;
mod entry;
mod error;
mod fates;
mod fetch;
mod header;
mod life;
pub mod mirror;
mod order;
mod recover;
mod room;
mod runs;
mod scan;
mod seal;
mod segment;
mod session;
mod survey;
mod walk;
mod wall;
mod writer;

pub use self::damage::{Damage, Verdict};
pub use self::destinations::Destinations;
pub use self::entry::{
    Checkpoint, Chunk, Entry, FateRun, Fated, Footer, IndexPoint, LoggedRecord, StreamName,
    StreamPart, StreamState,
};
pub use self::error::{Defect, LogError};
pub use self::fates::{Ending, Fates};
pub use self::fetch::{Fetched, Window, fetch};
pub use self::header::{COPY_AT, HEADER_MAX, Header, MAGIC, OWNERS, Opened, SEALED, TWICE};
pub use self::life::{Delivery, End, Life};
pub use self::order::{Append, Fetch};
pub use self::recover::{Part, RecoveredStream, Recovery, begins_with_checkpoint, recover};
pub use self::room::room;
pub use self::runs::{Run, Runs, Taken};
pub use self::scan::{END, FRAME, Found, Frame, Scanner, find_footer, read_footer};
pub use self::seal::{Key, Keys, TAG_LENGTH};
pub use self::segment::{SegmentId, VERSION};
pub use self::session::{Released, SessionOwner, SessionPosition, SessionState, Sessions};
pub use self::survey::Survey;
pub use self::walk::{Place, Walked, walk};
pub use self::wall::WallTime;
pub use self::writer::{LogName, Write, WriteError, Writer};
