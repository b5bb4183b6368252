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
//! | `body`, `codec`, `crc` | entries as bytes |
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

mod body;
mod codec;
mod crc;
mod damage;
mod entry;
mod fates;
mod fetch;
mod header;
mod life;
mod order;
mod recover;
mod room;
mod runs;
mod scan;
mod seal;
mod session;
mod survey;
mod walk;
mod writer;

use std::fmt;

pub use self::crc::crc32c;
pub use self::damage::{Damage, Verdict};
pub use self::entry::{
    Checkpoint, Chunk, Destinations, Entry, FateRun, Fated, Footer, IndexPoint, LoggedRecord,
    StreamName, StreamPart, StreamState, WallTime,
};
pub use self::fates::{Ending, Fates};
pub use self::fetch::{Fetched, Window, fetch};
pub use self::header::{
    COPY_AT, HEADER_MAX, Header, MAGIC, OWNERS, Opened, SEALED, TWICE, VERSION,
};
pub use self::life::{Delivery, End, Life};
pub use self::order::{Append, Fetch};
pub use self::recover::{Part, RecoveredStream, Recovery, begins_with_checkpoint, recover};
pub use self::room::room;
pub use self::runs::{Run, Runs, Taken};
pub use self::scan::{END, FRAME, Found, Frame, Scanner, find_footer, read_footer};
pub use self::seal::{Key, Keys, TAG_LENGTH};
pub use self::session::{Released, SessionOwner, SessionPosition, SessionState, Sessions};
pub use self::survey::Survey;
pub use self::walk::{Place, Walked, walk};
pub use self::writer::{LogName, Write, WriteError, Writer};

/// A segment's number: rising, and never given twice in the life of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u32);

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {}", self.0)
    }
}

/// What is wrong with the head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// Its bytes are not what was written, or not all of them are there.
    #[error("its header is damaged")]
    Damaged,
    /// A later version of this software wrote it.
    #[error(
        "it is of version {version} with features {features:#x}, and this software reads \
         version {VERSION}: use the newer software, or another folder"
    )]
    Newer {
        /// Its version.
        version: u16,
        /// Its feature bits.
        features: u16,
    },
    /// It is sealed, and no key is configured.
    #[error("it is encrypted and no key is configured")]
    NoKey,
    /// It is sealed with none of the keys.
    #[error("it is encrypted with another key than the configured ones")]
    WrongKey,
}

/// Why a log must not be used. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// A segment that this process must not touch.
    #[error("{segment} cannot be used")]
    Unusable {
        /// Which one.
        segment: SegmentId,
        /// Why.
        source: Defect,
    },
    /// Segments of two logs in one folder.
    #[error("{segment} belongs to another log: {found}, not {expected}")]
    Foreign {
        /// Which one.
        segment: SegmentId,
        /// Whose it is: node and incarnation.
        found: String,
        /// Whose the others are.
        expected: String,
    },
}
