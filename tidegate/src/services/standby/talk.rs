//! What the owner of a log and its keeper say to each other.

use bytes::BytesMut;
use tidegate_log::mirror::{HELLO_MAX, MirrorError, MirrorMessage, take_within};

use crate::support::talk::{self, Said};

/// A connection between an owner and its keeper.
pub(super) type Talk = talk::Talk<MirrorMessage>;

impl Said for MirrorMessage {
    type Malformed = MirrorError;
    const FIRST_MAX: usize = HELLO_MAX;

    fn put(&self, to: &mut BytesMut) {
        MirrorMessage::put(self, to);
    }

    fn take_within(from: &mut BytesMut, most: usize) -> Result<Option<Self>, MirrorError> {
        take_within(from, most)
    }
}
