//! What members of a group say, as bytes: each frame behind its length (four bytes, little-endian) and a byte that
//! tells its kind.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use tidegate_types::record::{DropReason, RefuseReason};

pub use super::error::{MemberFrameError, VERSION};
use super::loads::MemberLoads;
use super::{GroupMessage, Member, Owner, PublishReply, UnitId};

/// Bytes of the longest frame, its length aside: a record of the largest size, and what is around it.
pub const FRAME_MAX: usize = 264 << 20;
/// Bytes of the longest frame of who has not proven to be a member, or has nothing long to say: first words, answers
/// and commands.
pub const WORDS_MAX: usize = 4 * 1024;
/// Longest name of a node, and longest reason.
const TEXT_MAX: usize = 1024;
/// Bytes before a frame's body: its length.
const HEAD: usize = 4;

/// What one says to the other.
#[derive(Clone, Debug, PartialEq)]
pub enum MemberFrame {
    /// The first word of who has dialed.
    Hello {
        /// Its name; empty for a command that is no member.
        node: Arc<str>,
        /// Which life of it.
        incarnation: u64,
        /// The names of all members and units: those of both ends must be the same.
        digest: u64,
    },
    /// The answer: which life it is, and how many frames of this life of the dialer it has.
    Welcome {
        /// Which life.
        incarnation: u64,
        /// How many frames.
        received: u64,
    },
    /// Nothing is taken, and why: the last word.
    Refused(Arc<str>),
    /// Something about a unit; counted.
    Said(UnitId, GroupMessage<Bytes>),
    /// All that is known was told; counted.
    Greeted,
    /// So many of the counted frames have come.
    Received(u64),
    /// Whoever speaks lives.
    Alive,
    /// A command: this unit is to go to this member, by force if it must be.
    Order {
        /// Name of the unit.
        unit: Arc<str>,
        /// Name of the member.
        to: Arc<str>,
        /// Whether the owner is gone for good.
        seize: bool,
        /// Whether the owner may take long to end what it has: it is late already.
        patient: bool,
    },
    /// The answer to a command: whether anything was to be moved, or what is wrong.
    Done(Result<bool, Arc<str>>),
    /// The answer to a command of which another member knows more.
    Ask(Arc<str>),
    /// A command: say what you know of your loads.
    Tell,
    /// The answer to that.
    Loads(Box<MemberLoads>),
    /// A command: own nothing from now on, or what you are given as before. The answer to it is [`MemberFrame::MemberLoads`].
    Drain {
        /// Whether it may own again.
        is_over: bool,
    },
}

use MemberFrameError::Malformed;

impl MemberFrame {
    /// Adds its bytes, length and all.
    pub fn put(&self, to: &mut BytesMut) {
        let begin = to.len();
        to.extend_from_slice(&[0; HEAD]);
        match self {
            MemberFrame::Hello { node, incarnation, digest } => {
                to.extend_from_slice(&[1, VERSION]);
                numbers(to, &[*incarnation, *digest]);
                to.extend_from_slice(node.as_bytes());
            }
            MemberFrame::Welcome { incarnation, received } => {
                to.extend_from_slice(&[2]);
                numbers(to, &[*incarnation, *received]);
            }
            MemberFrame::Refused(why) => text(to, 3, why),
            MemberFrame::Said(unit, message) => {
                to.extend_from_slice(&[4]);
                to.extend_from_slice(&unit.0.to_le_bytes());
                put(to, message);
            }
            MemberFrame::Greeted => to.extend_from_slice(&[5]),
            MemberFrame::Received(count) => {
                to.extend_from_slice(&[6]);
                numbers(to, &[*count]);
            }
            MemberFrame::Alive => to.extend_from_slice(&[7]),
            MemberFrame::Order { unit, to: member, seize, patient } => {
                // Who does not know the second bit reads neither.
                to.extend_from_slice(&[8, u8::from(*seize) | u8::from(*patient) << 1]);
                to.extend_from_slice(&(unit.len() as u32).to_le_bytes());
                to.extend_from_slice(unit.as_bytes());
                to.extend_from_slice(member.as_bytes());
            }
            MemberFrame::Done(Ok(moved)) => to.extend_from_slice(&[9, u8::from(*moved)]),
            MemberFrame::Done(Err(why)) => text(to, 10, why),
            MemberFrame::Ask(member) => text(to, 11, member),
            MemberFrame::Tell => to.extend_from_slice(&[12]),
            MemberFrame::Loads(loads) => {
                to.extend_from_slice(&[13]);
                loads.put(to);
            }
            MemberFrame::Drain { is_over } => to.extend_from_slice(&[14, u8::from(*is_over)]),
        }
        let length = (to.len() - begin - HEAD) as u32;
        to[begin..begin + HEAD].copy_from_slice(&length.to_le_bytes());
    }

    /// Takes a whole frame from the front of `from`; `None` while more bytes are needed.
    ///
    /// # Errors
    /// See [`MemberFrameError`].
    pub fn take(from: &mut BytesMut) -> Result<Option<MemberFrame>, MemberFrameError> {
        MemberFrame::take_within(from, FRAME_MAX)
    }

    /// The same where a frame is at most so long: a longer one is refused by its first bytes.
    ///
    /// # Errors
    /// See [`MemberFrameError`].
    pub fn take_within(
        from: &mut BytesMut,
        most: usize,
    ) -> Result<Option<MemberFrame>, MemberFrameError> {
        let Some(head) = from.first_chunk::<HEAD>() else { return Ok(None) };
        let length = u32::from_le_bytes(*head) as usize;
        if length == 0 || length > most.min(FRAME_MAX) {
            return Err(Malformed("length"));
        }
        if from.len() < HEAD + length {
            return Ok(None);
        }
        from.advance(HEAD);
        let mut body = from.split_to(length).freeze();
        let kind = body.get_u8();
        MemberFrame::read(kind, body).map(Some)
    }

    fn read(kind: u8, mut body: Bytes) -> Result<MemberFrame, MemberFrameError> {
        let frame = match kind {
            1 => {
                let version = byte(&mut body)?;
                if version != VERSION {
                    return Err(MemberFrameError::Version(version));
                }
                let [incarnation, digest] = [number(&mut body)?, number(&mut body)?];
                return Ok(MemberFrame::Hello { node: words(&body)?, incarnation, digest });
            }
            2 => MemberFrame::Welcome {
                incarnation: number(&mut body)?,
                received: number(&mut body)?,
            },
            3 => return Ok(MemberFrame::Refused(words(&body)?)),
            4 => {
                let unit = UnitId(body.try_get_u32_le().map_err(|_| Malformed("unit"))?);
                return Ok(MemberFrame::Said(unit, said(body)?));
            }
            5 => MemberFrame::Greeted,
            6 => MemberFrame::Received(number(&mut body)?),
            7 => MemberFrame::Alive,
            8 => {
                let flags = byte(&mut body)?;
                let (seize, patient) = (flags & 1 != 0, flags & 2 != 0);
                let length = body.try_get_u32_le().map_err(|_| Malformed("order"))? as usize;
                if length > body.len() {
                    return Err(Malformed("order"));
                }
                let unit = words(&body.split_to(length))?;
                return Ok(MemberFrame::Order { unit, to: words(&body)?, seize, patient });
            }
            9 => MemberFrame::Done(Ok(byte(&mut body)? == 1)),
            10 => return Ok(MemberFrame::Done(Err(words(&body)?))),
            11 => return Ok(MemberFrame::Ask(words(&body)?)),
            12 => MemberFrame::Tell,
            13 => return Ok(MemberFrame::Loads(Box::new(MemberLoads::take(body)?))),
            14 => MemberFrame::Drain { is_over: byte(&mut body)? == 1 },
            _ => return Err(Malformed("kind")),
        };
        if body.is_empty() { Ok(frame) } else { Err(Malformed("end")) }
    }
}

fn numbers(to: &mut BytesMut, numbers: &[u64]) {
    numbers.iter().for_each(|number| to.extend_from_slice(&number.to_le_bytes()));
}

fn text(to: &mut BytesMut, kind: u8, words: &str) {
    to.extend_from_slice(&[kind]);
    to.extend_from_slice(words.as_bytes());
}

fn byte(body: &mut Bytes) -> Result<u8, MemberFrameError> {
    body.try_get_u8().map_err(|_| Malformed("end"))
}

fn number(body: &mut Bytes) -> Result<u64, MemberFrameError> {
    body.try_get_u64_le().map_err(|_| Malformed("number"))
}

fn words(body: &Bytes) -> Result<Arc<str>, MemberFrameError> {
    let text = std::str::from_utf8(body).ok().filter(|text| text.len() <= TEXT_MAX);
    text.map(Into::into).ok_or(Malformed("text"))
}

fn put(to: &mut BytesMut, message: &GroupMessage<Bytes>) {
    let mut begin = |kind: u8, all: &[u64]| {
        to.extend_from_slice(&[kind]);
        numbers(to, all);
    };
    match message {
        GroupMessage::Forward { round, seq, content } => {
            begin(1, &[*round, *seq]);
            to.extend_from_slice(content);
        }
        GroupMessage::Answered(seq, verdict) => {
            begin(2, &[*seq]);
            to.extend_from_slice(&[code(*verdict)]);
        }
        GroupMessage::Refused { seq, owner, is_open } => {
            begin(3, &[*seq, owner.epoch, owner.member.0.into(), u64::from(*is_open)]);
        }
        GroupMessage::Result(epoch, content) => {
            begin(4, &[*epoch]);
            to.extend_from_slice(content);
        }
        GroupMessage::Ended(epoch) => begin(5, &[*epoch]),
        GroupMessage::Take(epoch, None) => begin(6, &[*epoch]),
        GroupMessage::Take(epoch, Some(state)) => {
            begin(7, &[*epoch]);
            to.extend_from_slice(state);
        }
        GroupMessage::Table { owner, is_open } => {
            begin(8, &[owner.epoch, owner.member.0.into(), u64::from(*is_open)]);
        }
    }
}

fn said(mut body: Bytes) -> Result<GroupMessage<Bytes>, MemberFrameError> {
    let kind = byte(&mut body)?;
    let first = number(&mut body)?;
    let message = match kind {
        1 => {
            let seq = number(&mut body)?;
            return Ok(GroupMessage::Forward { round: first, seq, content: body });
        }
        2 => GroupMessage::Answered(first, verdict(byte(&mut body)?)),
        3 => {
            let (owner, is_open) = owner(number(&mut body)?, &mut body)?;
            GroupMessage::Refused { seq: first, owner, is_open }
        }
        4 => return Ok(GroupMessage::Result(first, body)),
        5 => GroupMessage::Ended(first),
        6 => GroupMessage::Take(first, None),
        7 => return Ok(GroupMessage::Take(first, Some(body))),
        8 => {
            let (owner, is_open) = owner(first, &mut body)?;
            GroupMessage::Table { owner, is_open }
        }
        _ => return Err(Malformed("message")),
    };
    if body.is_empty() { Ok(message) } else { Err(Malformed("end")) }
}

fn owner(epoch: u64, body: &mut Bytes) -> Result<(Owner, bool), MemberFrameError> {
    let member = u16::try_from(number(body)?).map_err(|_| Malformed("member"))?;
    let is_open = number(body)? == 1;
    Ok((Owner { epoch, member: Member(member) }, is_open))
}

/// Why a record was refused, in a byte: the publisher hears one of these.
fn code(verdict: PublishReply) -> u8 {
    match verdict {
        Ok(()) => 0,
        Err(RefuseReason::Full) => 1,
        Err(RefuseReason::TooManyStreams) => 2,
        Err(RefuseReason::Storage) => 3,
        Err(RefuseReason::NoRule) => 4,
        Err(RefuseReason::Forbidden) => 5,
        Err(RefuseReason::Oversize) => 6,
        Err(RefuseReason::Stopping) => 7,
        Err(RefuseReason::Dropped(_)) => 8,
    }
}

fn verdict(code: u8) -> PublishReply {
    Err(match code {
        0 => return Ok(()),
        1 => RefuseReason::Full,
        2 => RefuseReason::TooManyStreams,
        3 => RefuseReason::Storage,
        4 => RefuseReason::NoRule,
        5 => RefuseReason::Forbidden,
        6 => RefuseReason::Oversize,
        7 => RefuseReason::Stopping,
        _ => RefuseReason::Dropped(DropReason::Refused),
    })
}

/// A number that is the same for the same texts in the same order (FNV-1a, 64 bits).
pub fn digest<'t>(texts: impl Iterator<Item = &'t str>) -> u64 {
    let bytes = texts.flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
