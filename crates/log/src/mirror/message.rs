//! What owner and keeper of a log say, as bytes: each behind its length (four bytes, little-endian) and a
//! byte that tells its kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tidegate_types::codec::{Malformed, Reader, Sink, put_frame, take_frame};
use tidegate_types::units::Size;

use super::SegmentLengths;
use crate::SegmentId;

/// The version of these messages.
pub const VERSION: u8 = 1;
/// Bytes of a segment in one message.
pub const PIECE_MAX: usize = 256 * 1024;
/// Longest name of a node, and longest reason.
const TEXT_MAX: usize = 1024;
/// Segments that a message can name: more than any log has.
const SEGMENTS_MAX: usize = 20_000;
/// Bytes of the longest message of who has not said who it is.
pub const HELLO_MAX: usize = TEXT_MAX + 64;
/// Bytes of the longest message, its length aside.
const MESSAGE_MAX: usize = PIECE_MAX + 64;

/// What one says to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorMessage {
    /// The owner's first word.
    Hello {
        /// Its name.
        node: Arc<str>,
        /// Which life of its log.
        incarnation: u64,
    },
    /// The keeper's first word: what it has of that log, safe on its disk.
    Kept(SegmentLengths),
    /// Bytes of a segment.
    Piece {
        /// Which segment.
        segment: SegmentId,
        /// Where they begin.
        from: Size,
        /// At most `PIECE_MAX`.
        bytes: Bytes,
    },
    /// Segments that nothing needs any more.
    Released(Vec<SegmentId>),
    /// The owner lives.
    Alive,
    /// The keeper has a segment up to there, safe on its disk.
    Safe {
        /// Which segment.
        segment: SegmentId,
        /// How many bytes of it.
        upto: Size,
    },
    /// The keeper takes nothing, and why: the last word.
    Refused(Arc<str>),
    /// By which the keeper proves to others that it may bring the owner's records
    /// ([`tidegate_link::letter`]); behind the first word, to who has said that it reads them.
    Letters(Bytes),
}

/// The bytes are no message of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MirrorError {
    /// Another version wrote them.
    #[error(
        "the other node speaks version {0} of mirrors and this one {VERSION}: update the older one"
    )]
    Version(u8),
    /// They are nothing that a mirror writes.
    #[error("the other end is no mirror: {0}")]
    Malformed(#[from] Malformed),
}

impl MirrorMessage {
    fn kind(&self) -> u8 {
        match self {
            MirrorMessage::Hello { .. } => 1,
            MirrorMessage::Kept(_) => 2,
            MirrorMessage::Piece { .. } => 3,
            MirrorMessage::Released(_) => 4,
            MirrorMessage::Alive => 5,
            MirrorMessage::Safe { .. } => 6,
            MirrorMessage::Refused(_) => 7,
            MirrorMessage::Letters(_) => 8,
        }
    }

    /// Adds its bytes, length and all.
    pub fn put(&self, to: &mut BytesMut) {
        put_frame(to, |to| {
            to.u8(self.kind());
            match self {
                MirrorMessage::Hello { node, incarnation } => {
                    to.u8(VERSION);
                    to.u64(*incarnation);
                    to.put(node.as_bytes());
                }
                MirrorMessage::Kept(kept) => {
                    let kept = kept.iter().take(SEGMENTS_MAX);
                    kept.for_each(|(segment, length)| put_place(to, *segment, *length));
                }
                MirrorMessage::Piece { segment, from, bytes } => {
                    put_place(to, *segment, *from);
                    to.put(bytes);
                }
                MirrorMessage::Released(segments) => {
                    let segments = segments.iter().take(SEGMENTS_MAX);
                    segments.for_each(|segment| to.u32(segment.0));
                }
                MirrorMessage::Alive => {}
                MirrorMessage::Safe { segment, upto } => put_place(to, *segment, *upto),
                MirrorMessage::Refused(why) => to.put(why.as_bytes()),
                MirrorMessage::Letters(letters) => to.put(letters),
            }
        });
    }

    fn read(body: &Bytes) -> Result<MirrorMessage, MirrorError> {
        let mut from = Reader::new(body);
        let message = match from.u8()? {
            1 => {
                let version = from.u8()?;
                if version != VERSION {
                    return Err(MirrorError::Version(version));
                }
                MirrorMessage::Hello { incarnation: from.u64()?, node: text(&mut from)? }
            }
            2 => {
                let mut kept = BTreeMap::new();
                while !from.is_empty() {
                    let (segment, length) = place(&mut from)?;
                    let is_new = kept.insert(segment, length).is_none();
                    from.must(is_new, "each segment once")?;
                }
                MirrorMessage::Kept(kept)
            }
            3 => {
                let (segment, at) = place(&mut from)?;
                let bytes = from.rest();
                from.must(bytes.len() <= PIECE_MAX, "a shorter piece")?;
                MirrorMessage::Piece { segment, from: at, bytes: body.slice_ref(bytes) }
            }
            4 => {
                let mut segments = Vec::with_capacity(from.left().len() / 4);
                while !from.is_empty() {
                    segments.push(SegmentId(from.u32()?));
                }
                MirrorMessage::Released(segments)
            }
            5 => MirrorMessage::Alive,
            6 => {
                let (segment, upto) = place(&mut from)?;
                MirrorMessage::Safe { segment, upto }
            }
            7 => MirrorMessage::Refused(text(&mut from)?),
            8 => MirrorMessage::Letters(body.slice_ref(from.rest())),
            _ => return Err(from.malformed("a message of a known kind").into()),
        };
        from.end()?;
        Ok(message)
    }
}

fn text(from: &mut Reader<'_>) -> Result<Arc<str>, Malformed> {
    let text = from.rest_text()?;
    from.must(text.len() <= TEXT_MAX, "a shorter text")?;
    Ok(text.into())
}

fn put_place(to: &mut BytesMut, segment: SegmentId, place: Size) {
    to.u32(segment.0);
    to.u64(place.0);
}

/// A segment and a place in it.
fn place(from: &mut Reader<'_>) -> Result<(SegmentId, Size), Malformed> {
    Ok((SegmentId(from.u32()?), Size(from.u64()?)))
}

/// Takes one message off the front of what came; `None` where more must come first.
///
/// # Errors
/// [`MirrorError`]: then nothing that follows can be read either.
pub fn take(input: &mut BytesMut) -> Result<Option<MirrorMessage>, MirrorError> {
    take_within(input, MESSAGE_MAX)
}

/// The same where a message is at most so long: a longer one is refused by its first bytes.
///
/// # Errors
/// As [`take`].
pub fn take_within(
    input: &mut BytesMut,
    most: usize,
) -> Result<Option<MirrorMessage>, MirrorError> {
    let body = take_frame(input, most.min(MESSAGE_MAX))?;
    body.map(|body| MirrorMessage::read(&body)).transpose()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_types::codec::FRAME_HEAD;

    use super::*;

    fn messages() -> Vec<MirrorMessage> {
        let segment = SegmentId(7);
        vec![
            MirrorMessage::Hello { node: "gate-7".into(), incarnation: u64::MAX },
            MirrorMessage::Kept(BTreeMap::from([
                (segment, Size(5)),
                (SegmentId(9), Size(1 << 40)),
            ])),
            MirrorMessage::Kept(BTreeMap::new()),
            MirrorMessage::Piece { segment, from: Size(64), bytes: Bytes::from_static(b"entry") },
            MirrorMessage::Released(vec![segment, SegmentId(1)]),
            MirrorMessage::Alive,
            MirrorMessage::Safe { segment, upto: Size(69) },
            MirrorMessage::Refused("no room".into()),
            MirrorMessage::Letters("letters".into()),
        ]
    }

    #[test]
    fn what_is_said_is_heard_however_it_comes() {
        let mut bytes = BytesMut::new();
        messages().iter().for_each(|message| message.put(&mut bytes));
        let (mut input, mut heard) = (BytesMut::new(), Vec::new());
        for byte in bytes {
            input.extend_from_slice(&[byte]);
            heard.extend(take(&mut input).unwrap());
        }
        assert_eq!(heard, messages());
    }

    /// Version 1, byte by byte: both ends of a mirror may be of different releases.
    #[test]
    fn version_1_stays_as_it_is() {
        let expected = [
            "100000000101ffffffffffffffff676174652d37",
            "1900000002070000000500000000000000090000000000000000010000",
            "0100000002",
            "1200000003070000004000000000000000656e747279",
            "09000000040700000001000000",
            "0100000005",
            "0d00000006070000004500000000000000",
            "08000000076e6f20726f6f6d",
            "08000000086c657474657273",
        ];
        let hex = |message: &MirrorMessage| {
            let mut bytes = BytesMut::new();
            message.put(&mut bytes);
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        let found: Vec<String> = messages().iter().map(hex).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_version_that_is_not_ours_is_named() {
        let mut bytes = BytesMut::new();
        messages()[0].put(&mut bytes);
        bytes[5] = 9;
        assert_eq!(take(&mut bytes), Err(MirrorError::Version(9)));
    }

    #[test]
    fn lengths_that_no_message_has_are_refused_before_they_take_memory() {
        for length in [0, MESSAGE_MAX as u32 + 1, u32::MAX] {
            let mut bytes = BytesMut::from(&length.to_le_bytes()[..]);
            assert!(matches!(take(&mut bytes), Err(MirrorError::Malformed(_))));
        }
    }

    proptest! {
        /// Whatever comes, nothing panics, and what can be read says itself again in the same bytes.
        #[test]
        fn any_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 1..200)) {
            let mut input = BytesMut::from(&(body.len() as u32).to_le_bytes()[..]);
            input.extend_from_slice(&body);
            if let Ok(Some(message)) = take(&mut input) {
                let mut again = BytesMut::new();
                message.put(&mut again);
                let mut read = again.clone();
                prop_assert_eq!(take(&mut read), Ok(Some(message)));
                prop_assert_eq!(again.len(), body.len() + FRAME_HEAD);
            }
        }
    }
}
