//! The packet: what one datagram on a path holds, byte by byte.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | magic (high four bits) and version (low four) |
//! | 1 | features: bits that a reader must know; none is defined yet |
//! | 4 | incarnation of the sender's link |
//! | 4 | incarnation of the link that it is meant for; 0 while that is not known |
//! | 1-10 | packet sequence number on this path, from 0 |
//! | rest | frames |
//!
//! Numbers are varints where no width is given. A packet that is broken anywhere counts for nothing.
//!
//! Version 1 is the frames 1 to 6 as [`LinkFrame`] has them, and custody codes up to the drop reasons of `crates/types/src/record.rs`.
//! Frame 7 goes only to who has agreed to hear of marks when the connection was made (docs/decisions/0155).
//! Nothing else is negotiated: a frame, a code or a rule that a reader of version 1 does not have needs another version,
//! or a feature bit where only who uses it must have it. A reader that lacks either says which
//! ([`WireError::Version`], [`WireError::Feature`]) and takes nothing of the packet.

use std::ops::RangeInclusive;

use tidegate_types::codec::{Malformed, Reader, Sink};
use tidegate_types::record::{DropReason, Fate};
use tidegate_types::units::Size;

pub use super::piece::{PIECE_MIN, Parity, Piece};
use super::{PATHS_MAX, WireError};

/// The version that this code writes, and the only one that it reads.
pub const VERSION: u8 = 1;
/// High bits of the first byte, so that a stray datagram is seen to be one.
const MAGIC: u8 = 0x70;
/// Runs of one acknowledgement: at 10 % loss about 640 packets.
pub const ACK_RUNS_MAX: usize = 64;
/// Longest packet header.
pub(super) const HEAD_MAX: usize = 10 + 10;
/// Bytes of a piece's frame beside its data, at most: five numbers that are rarely long.
pub(super) const PIECE_HEAD_MAX: usize = 1 + 10 + 5 + 5 + 5 + 10;
/// Longest frame of a fate.
pub(super) const FATE_MAX: usize = 1 + 10 + 1;
/// Longest frame of a ping without padding.
pub(super) const PING_MAX: usize = 1 + 3;
/// Longest acknowledgement, and the count of marks before it: their numbers are rarely long.
pub(super) const ACK_MAX: usize = 2 + 4 * 10 + 1 + ACK_RUNS_MAX * 6;
const PING: u8 = 1;
const ACK: u8 = 2;
const PIECE: u8 = 3;
const WINDOW: u8 = 4;
const CUSTODY: u8 = 5;
const REPAIR: u8 = 6;
const MARKS: u8 = 7;

/// The head of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// Incarnation of the sender's link, never 0.
    pub from: u32,
    /// Incarnation of the receiver's link as the sender knows it; 0 while it does not.
    pub to: u32,
    /// Packet sequence number on this path.
    pub psn: u64,
}

/// One thing that a packet says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkFrame<'a> {
    /// Asks for an acknowledgement, no more. So many zeros follow, which make the packet larger.
    Ping {
        /// How many.
        padding: usize,
    },
    /// What came by a path.
    Ack(SelectiveAck),
    /// What came marked by the path of the acknowledgement behind it.
    Marks(MarkCount),
    /// A part of a record.
    Piece(Piece<'a>),
    /// What stands for any piece of a record that is lost.
    Repair(Parity<'a>),
    /// How much may be sent.
    Window(ReceiveWindow),
    /// Who answers for a record now.
    Custody {
        /// The record: the data sequence number of its first piece.
        record: u64,
        /// What became of it.
        custody: Custody,
    },
}

/// Packets that came by a path, and when the newest of them did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectiveAck {
    /// The path whose packets are acknowledged; it need not be the one that carries this.
    pub path: u8,
    /// When the packet `largest` came, microseconds of the receiver's clock. Less the time at which it
    /// was sent this is the arrival delay, but for a constant (FD-MVQS Eq. 14).
    pub received_at: u64,
    /// Microseconds between `received_at` and this acknowledgement.
    pub delay: u64,
    /// Packets that came, newest run first: descending, with a gap between two runs; never empty, at
    /// most `ACK_RUNS_MAX`.
    pub runs: Vec<RangeInclusive<u64>>,
}

/// Packets that came by a path with a mark of congestion (CE), since the receiver's link began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkCount {
    /// The path.
    pub path: u8,
    /// How many.
    pub packets: u64,
}

impl SelectiveAck {
    /// The newest packet that came.
    pub fn largest(&self) -> u64 {
        self.runs.first().map_or(0, |run| *run.end())
    }
}

/// How much the receiver takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveWindow {
    /// Sum of the costs of all records that may be begun, since the link began.
    pub limit: Size,
    /// What a single record may cost at most.
    pub record_max: Size,
}

/// Who answers for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Custody {
    /// The receiving node has accepted it as its own; its final fate may follow.
    Held,
    /// Its fate at the end of all hops, as far as the receiving node knows: nothing follows.
    Final(Fate),
}

impl PacketHeader {
    /// Writes the head of a packet.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&[MAGIC | VERSION, 0]);
        to.extend_from_slice(&self.from.to_le_bytes());
        to.extend_from_slice(&self.to.to_le_bytes());
        to.varint(self.psn);
    }

    /// Reads a packet: its head, and its frames, all of which are sound.
    ///
    /// # Errors
    /// [`WireError`]: what is wrong first.
    pub fn decode(packet: &[u8]) -> Result<(PacketHeader, Vec<LinkFrame<'_>>), WireError> {
        let mut reader = Reader::new(packet);
        let first = reader.u8()?;
        reader.must(first & 0xf0 == MAGIC, "a packet of a link")?;
        if first & 0x0f != VERSION {
            return Err(WireError::Version(first & 0x0f));
        }
        let features = reader.u8()?;
        if features != 0 {
            return Err(WireError::Feature(features));
        }
        let from = reader.u32()?;
        reader.must(from != 0, "an incarnation, not 0")?;
        let head = PacketHeader { from, to: reader.u32()?, psn: reader.varint()? };
        let mut frames = Vec::new();
        while !reader.is_empty() {
            frames.push(LinkFrame::decode(&mut reader)?);
        }
        Ok((head, frames))
    }
}

impl<'a> LinkFrame<'a> {
    /// Writes the frame.
    pub fn encode(&self, to: &mut Vec<u8>) {
        match self {
            LinkFrame::Ping { padding } => {
                to.push(PING);
                to.varint(*padding as u64);
                to.resize(to.len() + padding, 0);
            }
            LinkFrame::Ack(ack) => ack.encode(to),
            LinkFrame::Marks(marks) => {
                to.extend_from_slice(&[MARKS, marks.path]);
                to.varint(marks.packets);
            }
            LinkFrame::Piece(piece) => {
                to.push(PIECE);
                piece.encode(to);
            }
            LinkFrame::Repair(repair) => {
                to.push(REPAIR);
                repair.encode(to);
            }
            LinkFrame::Window(window) => {
                to.push(WINDOW);
                to.varint(window.limit.0);
                to.varint(window.record_max.0);
            }
            LinkFrame::Custody { record, custody } => {
                to.push(CUSTODY);
                to.varint(*record);
                to.push(custody.code());
            }
        }
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        match reader.u8()? {
            PING => {
                let padding = reader.varint_bytes()?;
                reader.must(padding.iter().all(|&byte| byte == 0), "a padding of zeros")?;
                Ok(LinkFrame::Ping { padding: padding.len() })
            }
            ACK => SelectiveAck::decode(reader).map(LinkFrame::Ack),
            MARKS => {
                let path = reader.u8()?;
                reader.must(usize::from(path) < PATHS_MAX, "a path that a link can have")?;
                Ok(LinkFrame::Marks(MarkCount { path, packets: reader.varint()? }))
            }
            PIECE => Piece::decode(reader).map(LinkFrame::Piece),
            REPAIR => Parity::decode(reader).map(LinkFrame::Repair),
            WINDOW => Ok(LinkFrame::Window(ReceiveWindow {
                limit: Size(reader.varint()?),
                record_max: Size(reader.varint()?),
            })),
            CUSTODY => {
                let record = reader.varint()?;
                let custody = Custody::from_code(reader.u8()?);
                let custody = custody.ok_or_else(|| reader.malformed("a known custody"))?;
                Ok(LinkFrame::Custody { record, custody })
            }
            _ => Err(reader.malformed("a frame of a known kind")),
        }
    }
}

impl SelectiveAck {
    fn encode(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&[ACK, self.path]);
        to.varint(self.received_at);
        to.varint(self.delay);
        to.varint(self.largest());
        to.push(self.runs.len() as u8);
        let mut above = None;
        for run in &self.runs {
            if let Some(above) = above {
                // Two runs without a gap would be one: the distance is at least 2.
                to.varint(above - run.end() - 2);
            }
            to.varint(run.end() - run.start());
            above = Some(*run.start());
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        const RUN: &str = "a run below the one before";
        let path = reader.u8()?;
        reader.must(usize::from(path) < PATHS_MAX, "a path that a link can have")?;
        let (received_at, delay) = (reader.varint()?, reader.varint()?);
        let mut end = reader.varint()?;
        let count = usize::from(reader.u8()?);
        reader.must((1..=ACK_RUNS_MAX).contains(&count), "as many runs as one frame may have")?;
        let mut runs: Vec<RangeInclusive<u64>> = Vec::with_capacity(count);
        for _ in 0..count {
            if let Some(above) = runs.last() {
                let gap = reader.varint()?;
                let below = above.start().checked_sub(2).and_then(|end| end.checked_sub(gap));
                end = below.ok_or_else(|| reader.malformed(RUN))?;
            }
            let start = end.checked_sub(reader.varint()?);
            let start = start.ok_or_else(|| reader.malformed(RUN))?;
            runs.push(start..=end);
        }
        Ok(SelectiveAck { path, received_at, delay, runs })
    }
}

impl Custody {
    fn code(self) -> u8 {
        match self {
            Custody::Held => 0,
            Custody::Final(Fate::Confirmed) => 1,
            Custody::Final(Fate::Dropped(reason)) => 2 + reason.index() as u8,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Custody::Held),
            1 => Some(Custody::Final(Fate::Confirmed)),
            code => {
                let reason = DropReason::ALL.get(usize::from(code) - 2);
                reason.map(|&reason| Custody::Final(Fate::Dropped(reason)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encode(head: PacketHeader, frames: &[LinkFrame<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        head.encode(&mut bytes);
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        bytes
    }

    const HEAD: PacketHeader = PacketHeader { from: 7, to: 9, psn: 300 };

    #[test]
    fn a_packet_comes_back_as_it_was() {
        let piece =
            Piece { record: 500, place: 1, pieces: 2, size: 603, after: 497, data: &[5; 301] };
        assert_eq!((piece.dsn(), piece.offset()), (501, 302));
        let frames = [
            LinkFrame::Ping { padding: 0 },
            LinkFrame::Ping { padding: 300 },
            LinkFrame::Ack(SelectiveAck {
                path: 3,
                received_at: 1 << 40,
                delay: 250,
                runs: vec![90..=99, 88..=88, 0..=5],
            }),
            LinkFrame::Marks(MarkCount { path: 3, packets: 1 << 20 }),
            LinkFrame::Piece(piece),
            LinkFrame::Piece(Piece {
                record: 1,
                place: 0,
                pieces: 1,
                size: 0,
                after: 0,
                data: &[],
            }),
            LinkFrame::Repair(Parity {
                record: 500,
                number: 127,
                pieces: 2,
                size: 603,
                after: 497,
                data: &[6; 302],
            }),
            LinkFrame::Window(ReceiveWindow { limit: Size(1 << 50), record_max: Size(128) }),
            LinkFrame::Custody { record: 500, custody: Custody::Held },
        ];
        let bytes = encode(HEAD, &frames);
        assert_eq!(PacketHeader::decode(&bytes), Ok((HEAD, frames.to_vec())));
    }

    /// Version 1 as bytes, by hand: what is written today must be read by every later one.
    #[test]
    fn version_1_stays_as_it_is() {
        let piece = Piece { record: 300, place: 0, pieces: 1, size: 3, after: 298, data: b"abc" };
        let ack = SelectiveAck { path: 1, received_at: 1000, delay: 5, runs: vec![8..=9, 2..=4] };
        let repair = Parity { record: 300, number: 1, pieces: 1, size: 3, after: 0, data: b"xyz" };
        let frames = [
            LinkFrame::Ping { padding: 2 },
            LinkFrame::Ack(ack),
            LinkFrame::Piece(piece),
            LinkFrame::Window(ReceiveWindow { limit: Size(200), record_max: Size(100) }),
            LinkFrame::Custody { record: 300, custody: Custody::Final(Fate::Confirmed) },
            LinkFrame::Repair(repair),
        ];
        let bytes = [
            &[0x71, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0xac, 0x02][..],
            &[1, 2, 0, 0],
            // Runs of 2 and 3 numbers with 5, 6 and 7 between them.
            &[2, 1, 0xe8, 0x07, 5, 9, 2, 1, 2, 2],
            &[3, 0xac, 0x02, 0, 1, 3, 2, b'a', b'b', b'c'],
            &[4, 0xc8, 0x01, 100],
            &[5, 0xac, 0x02, 1],
            &[6, 0xac, 0x02, 1, 1, 3, 0, b'x', b'y', b'z'],
        ];
        assert_eq!(encode(HEAD, &frames), bytes.concat());
    }

    /// Of those who have agreed on it.
    #[test]
    fn marks_are_frame_7() {
        let marks = LinkFrame::Marks(MarkCount { path: 1, packets: 300 });
        let head = [0x71, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0xac, 0x02];
        assert_eq!(encode(HEAD, &[marks]), [&head[..], &[7, 1, 0xac, 0x02]].concat());
    }

    #[test]
    fn every_custody_has_its_code() {
        let reasons = DropReason::ALL.map(|reason| Custody::Final(Fate::Dropped(reason)));
        for custody in [Custody::Held, Custody::Final(Fate::Confirmed)].into_iter().chain(reasons) {
            assert_eq!(Custody::from_code(custody.code()), Some(custody));
        }
        assert_eq!(Custody::from_code(2 + DropReason::ALL.len() as u8), None);
    }

    #[test]
    fn a_newer_version_and_an_unknown_feature_are_told_apart_from_damage() {
        let mut bytes = encode(HEAD, &[]);
        bytes[0] += 1;
        assert_eq!(PacketHeader::decode(&bytes), Err(WireError::Version(2)));
        bytes[0] -= 1;
        bytes[1] = 4;
        assert_eq!(PacketHeader::decode(&bytes), Err(WireError::Feature(4)));
        bytes[0] = 0;
        let expected = Malformed { expected: "a packet of a link", at: 0 };
        assert_eq!(PacketHeader::decode(&bytes), Err(WireError::Malformed(expected)));
    }

    #[test]
    fn a_record_in_more_pieces_than_its_size_pays_for_is_refused() {
        let sized = |size, pieces, length| {
            let data = &[1; 600][..length];
            let piece = Piece { record: 9, place: 0, pieces, size, after: 0, data };
            PacketHeader::decode(&encode(HEAD, &[LinkFrame::Piece(piece)])).is_ok()
        };
        assert!(sized(600, 1, 600) && sized(600, 3, 200));
        assert!(!sized(600, 4, 150), "600 bytes pay for three pieces");
        assert!(!sized(600, 0, 1), "no piece");
        assert!(!sized(u32::MAX, u32::MAX, 1));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_and_what_is_read_encodes_to_itself(
            begins in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let head = if begins { encode(HEAD, &[]) } else { Vec::new() };
            let packet = [head, bytes].concat();
            if let Ok((head, frames)) = PacketHeader::decode(&packet) {
                prop_assert_eq!(encode(head, &frames), packet);
            }
        }
    }
}
