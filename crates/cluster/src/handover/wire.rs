//! What members of a group say, as bytes: each frame behind its length (four bytes, little-endian) and a byte that
//! tells its kind.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tidegate_types::codec::{Malformed, Reader, Sink, put_frame, take_frame};
use tidegate_types::record::{DropReason, RefuseReason};

pub use super::error::{MemberFrameError, VERSION};
use super::loads::MemberLoads;
use super::{GroupMessage, Member, PublishReply, UnitId, UnitOwner};

/// Bytes of the longest frame, its length aside: a record of the largest size, and what is around it.
pub const FRAME_MAX: usize = 264 << 20;
/// Bytes of the longest frame of who has not proven to be a member, or has nothing long to say: first words, answers
/// and commands.
pub const WORDS_MAX: usize = 4 * 1024;
/// Longest name of a node, and longest reason.
const TEXT_MAX: usize = 1024;

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

impl MemberFrame {
    /// Adds its bytes, length and all.
    pub fn put(&self, to: &mut BytesMut) {
        put_frame(to, |to| self.put_body(to));
    }

    fn put_body(&self, to: &mut BytesMut) {
        match self {
            MemberFrame::Hello { node, incarnation, digest } => {
                to.put(&[1, VERSION]);
                to.u64(*incarnation);
                to.u64(*digest);
                to.put(node.as_bytes());
            }
            MemberFrame::Welcome { incarnation, received } => {
                to.u8(2);
                to.u64(*incarnation);
                to.u64(*received);
            }
            MemberFrame::Refused(why) => put_text(to, 3, why),
            MemberFrame::Said(unit, message) => {
                to.u8(4);
                to.u32(unit.0);
                put(to, message);
            }
            MemberFrame::Greeted => to.u8(5),
            MemberFrame::Received(count) => {
                to.u8(6);
                to.u64(*count);
            }
            MemberFrame::Alive => to.u8(7),
            MemberFrame::Order { unit, to: member, seize, patient } => {
                // Who does not know the second bit reads neither.
                to.put(&[8, u8::from(*seize) | u8::from(*patient) << 1]);
                to.bytes(unit.as_bytes());
                to.put(member.as_bytes());
            }
            MemberFrame::Done(Ok(moved)) => to.put(&[9, u8::from(*moved)]),
            MemberFrame::Done(Err(why)) => put_text(to, 10, why),
            MemberFrame::Ask(member) => put_text(to, 11, member),
            MemberFrame::Tell => to.u8(12),
            MemberFrame::Loads(loads) => {
                to.u8(13);
                loads.put(to);
            }
            MemberFrame::Drain { is_over } => to.put(&[14, u8::from(*is_over)]),
        }
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
        let body = take_frame(from, most.min(FRAME_MAX))?;
        body.map(|body| MemberFrame::read(&body)).transpose()
    }

    fn read(body: &Bytes) -> Result<MemberFrame, MemberFrameError> {
        let mut from = Reader::new(body);
        let frame = match from.u8()? {
            1 => {
                let version = from.u8()?;
                if version != VERSION {
                    return Err(MemberFrameError::Version(version));
                }
                let (incarnation, digest) = (from.u64()?, from.u64()?);
                MemberFrame::Hello { node: rest_text(&mut from)?, incarnation, digest }
            }
            2 => MemberFrame::Welcome { incarnation: from.u64()?, received: from.u64()? },
            3 => MemberFrame::Refused(rest_text(&mut from)?),
            4 => MemberFrame::Said(UnitId(from.u32()?), said(&mut from, body)?),
            5 => MemberFrame::Greeted,
            6 => MemberFrame::Received(from.u64()?),
            7 => MemberFrame::Alive,
            8 => {
                let flags = from.u8()?;
                let unit = from.text()?;
                let unit = short(&from, unit)?;
                let to = rest_text(&mut from)?;
                MemberFrame::Order { unit, to, seize: flags & 1 != 0, patient: flags & 2 != 0 }
            }
            9 => MemberFrame::Done(Ok(from.u8()? == 1)),
            10 => MemberFrame::Done(Err(rest_text(&mut from)?)),
            11 => MemberFrame::Ask(rest_text(&mut from)?),
            12 => MemberFrame::Tell,
            13 => MemberFrame::Loads(Box::new(MemberLoads::take(&mut from)?)),
            14 => MemberFrame::Drain { is_over: from.u8()? == 1 },
            _ => return Err(from.malformed("a frame of a known kind").into()),
        };
        from.end()?;
        Ok(frame)
    }
}

fn put_text(to: &mut BytesMut, kind: u8, text: &str) {
    to.u8(kind);
    to.put(text.as_bytes());
}

fn rest_text(from: &mut Reader<'_>) -> Result<Arc<str>, Malformed> {
    let text = from.rest_text()?;
    short(from, text)
}

/// A name or a reason that was just read.
fn short(from: &Reader<'_>, text: &str) -> Result<Arc<str>, Malformed> {
    from.must(text.len() <= TEXT_MAX, "a shorter text").map(|()| text.into())
}

fn put(to: &mut BytesMut, message: &GroupMessage<Bytes>) {
    let mut begin = |kind: u8, all: &[u64]| {
        to.u8(kind);
        all.iter().for_each(|number| to.u64(*number));
    };
    match message {
        GroupMessage::Forward { round, seq, content } => {
            begin(1, &[*round, *seq]);
            to.put(content);
        }
        GroupMessage::Answered(seq, verdict) => {
            begin(2, &[*seq]);
            to.u8(code(*verdict));
        }
        GroupMessage::Refused { seq, owner, is_open } => {
            begin(3, &[*seq, owner.epoch, owner.member.0.into(), u64::from(*is_open)]);
        }
        GroupMessage::Result(epoch, content) => {
            begin(4, &[*epoch]);
            to.put(content);
        }
        GroupMessage::Ended(epoch) => begin(5, &[*epoch]),
        GroupMessage::Take(epoch, None) => begin(6, &[*epoch]),
        GroupMessage::Take(epoch, Some(state)) => {
            begin(7, &[*epoch]);
            to.put(state);
        }
        GroupMessage::Table { owner, is_open } => {
            begin(8, &[owner.epoch, owner.member.0.into(), u64::from(*is_open)]);
        }
    }
}

/// Contents share the memory of `body`.
fn said(from: &mut Reader<'_>, body: &Bytes) -> Result<GroupMessage<Bytes>, Malformed> {
    let kind = from.u8()?;
    let first = from.u64()?;
    Ok(match kind {
        1 => {
            let seq = from.u64()?;
            GroupMessage::Forward { round: first, seq, content: body.slice_ref(from.rest()) }
        }
        2 => GroupMessage::Answered(first, verdict(from.u8()?)),
        3 => {
            let (owner, is_open) = owner(from.u64()?, from)?;
            GroupMessage::Refused { seq: first, owner, is_open }
        }
        4 => GroupMessage::Result(first, body.slice_ref(from.rest())),
        5 => GroupMessage::Ended(first),
        6 => GroupMessage::Take(first, None),
        7 => GroupMessage::Take(first, Some(body.slice_ref(from.rest()))),
        8 => {
            let (owner, is_open) = owner(first, from)?;
            GroupMessage::Table { owner, is_open }
        }
        _ => return Err(from.malformed("a message of a known kind")),
    })
}

fn owner(epoch: u64, from: &mut Reader<'_>) -> Result<(UnitOwner, bool), Malformed> {
    let member = u16::try_from(from.u64()?).map_err(|_| from.malformed("a member"))?;
    let is_open = from.u64()? == 1;
    Ok((UnitOwner { epoch, member: Member(member) }, is_open))
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
