//! A node's log, kept a second time by a neighbour: what the two say to each other, and what is copied next.
//!
//! A segment only grows until it is finished, and its bytes never change once a commit holds them. So a
//! copy is a prefix of every segment, whoever stopped when, and how far each has got is all that both
//! sides need to know. Fates are in the log too: a copy knows what is still owed, as its owner would after
//! a crash.
//!
//! | file | what |
//! |---|---|
//! | `message` | what is said, as bytes |
//! | `copying` | the owner's part: which bytes go next |

mod copying;
mod message;

pub use self::copying::{CopyProgress, CopyStep};
pub use self::message::{
    HELLO_MAX, MirrorError, MirrorMessage, PIECE_MAX, VERSION, take, take_within,
};

use std::collections::BTreeMap;

use tidegate_types::units::Size;

use crate::SegmentId;

/// Segments, and how many bytes there are of each, from its beginning.
pub type SegmentLengths = BTreeMap<SegmentId, Size>;
