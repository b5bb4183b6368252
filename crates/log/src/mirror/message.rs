//! What owner and keeper of a log say, as bytes: each behind its length (four bytes, little-endian) and a
//! byte that tells its kind.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
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
/// Bytes before a message's body: its length.
const HEAD: usize = 4;

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
    #[error("the other end is no mirror: malformed {0}")]
    Malformed(&'static str),
}

use MirrorError::Malformed;

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
        let begin = to.len();
        to.extend_from_slice(&[0; HEAD]);
        to.extend_from_slice(&[self.kind()]);
        match self {
            MirrorMessage::Hello { node, incarnation } => {
                to.extend_from_slice(&[VERSION]);
                to.extend_from_slice(&incarnation.to_le_bytes());
                to.extend_from_slice(node.as_bytes());
            }
            MirrorMessage::Kept(kept) => {
                for (segment, length) in kept.iter().take(SEGMENTS_MAX) {
                    to.extend_from_slice(&segment.0.to_le_bytes());
                    to.extend_from_slice(&length.0.to_le_bytes());
                }
            }
            MirrorMessage::Piece { segment, from, bytes } => {
                to.extend_from_slice(&segment.0.to_le_bytes());
                to.extend_from_slice(&from.0.to_le_bytes());
                to.extend_from_slice(bytes);
            }
            MirrorMessage::Released(segments) => {
                let segments = segments.iter().take(SEGMENTS_MAX);
                segments.for_each(|segment| to.extend_from_slice(&segment.0.to_le_bytes()));
            }
            MirrorMessage::Alive => {}
            MirrorMessage::Safe { segment, upto } => {
                to.extend_from_slice(&segment.0.to_le_bytes());
                to.extend_from_slice(&upto.0.to_le_bytes());
            }
            MirrorMessage::Refused(why) => to.extend_from_slice(why.as_bytes()),
            MirrorMessage::Letters(letters) => to.extend_from_slice(letters),
        }
        let length = (to.len() - begin - HEAD) as u32;
        to[begin..begin + HEAD].copy_from_slice(&length.to_le_bytes());
    }

    fn read(kind: u8, mut body: Bytes) -> Result<MirrorMessage, MirrorError> {
        let is_rest = |message, body: &Bytes| match body.is_empty() {
            true => Ok(message),
            false => Err(Malformed("end")),
        };
        match kind {
            1 => {
                let version = body.try_get_u8().map_err(|_| Malformed("hello"))?;
                if version != VERSION {
                    return Err(MirrorError::Version(version));
                }
                let incarnation = body.try_get_u64_le().map_err(|_| Malformed("hello"))?;
                Ok(MirrorMessage::Hello { node: text(&body)?, incarnation })
            }
            2 => {
                let mut kept = BTreeMap::new();
                while !body.is_empty() {
                    let (segment, length) = place(&mut body)?;
                    if kept.insert(segment, length).is_some() {
                        return Err(Malformed("segment"));
                    }
                }
                Ok(MirrorMessage::Kept(kept))
            }
            3 => {
                let (segment, from) = place(&mut body)?;
                if body.len() > PIECE_MAX {
                    return Err(Malformed("piece"));
                }
                Ok(MirrorMessage::Piece { segment, from, bytes: body })
            }
            4 => {
                let mut segments = Vec::with_capacity(body.len() / 4);
                while !body.is_empty() {
                    let segment = body.try_get_u32_le().map_err(|_| Malformed("segment"))?;
                    segments.push(SegmentId(segment));
                }
                Ok(MirrorMessage::Released(segments))
            }
            5 => is_rest(MirrorMessage::Alive, &body),
            6 => {
                let (segment, upto) = place(&mut body)?;
                is_rest(MirrorMessage::Safe { segment, upto }, &body)
            }
            7 => Ok(MirrorMessage::Refused(text(&body)?)),
            8 => Ok(MirrorMessage::Letters(body)),
            _ => Err(Malformed("kind")),
        }
    }
}

fn text(body: &Bytes) -> Result<Arc<str>, MirrorError> {
    let text = std::str::from_utf8(body).ok().filter(|text| text.len() <= TEXT_MAX);
    Ok(text.ok_or(Malformed("text"))?.into())
}

/// A segment and a place in it.
fn place(body: &mut Bytes) -> Result<(SegmentId, Size), MirrorError> {
    let segment = body.try_get_u32_le().map_err(|_| Malformed("segment"))?;
    let place = body.try_get_u64_le().map_err(|_| Malformed("segment"))?;
    Ok((SegmentId(segment), Size(place)))
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
    let Some(head) = input.first_chunk::<HEAD>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head) as usize;
    if length == 0 || length > most.min(MESSAGE_MAX) {
        return Err(Malformed("length"));
    }
    if input.len() < HEAD + length {
        return Ok(None);
    }
    input.advance(HEAD);
    let mut body = input.split_to(length).freeze();
    MirrorMessage::read(body.get_u8(), body).map(Some)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            assert_eq!(take(&mut bytes), Err(Malformed("length")));
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
                prop_assert_eq!(again.len(), body.len() + HEAD);
            }
        }
    }
}
