//! A record of which something was sent: its parts, and which of them have arrived.

use std::ops::Range;

use bytes::Bytes;
use tidegate_types::units::{Size, Time};

use super::packet::{LinkFrame, Parity, Piece};
use super::piece::piece_length;
use super::reassembly::RECORD_COST;
use super::{PATHS_MAX, erasure_code};

/// What one packet carries of a record: a piece of it, or a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Part {
    /// Data sequence number of the piece; for a repair that of the record's last piece.
    pub(super) dsn: u64,
    /// 0 for a piece; a repair's number and 1.
    pub(super) repair: u8,
}

impl Part {
    /// Behind all parts.
    pub(super) const LAST: Part = Part { dsn: u64::MAX, repair: u8::MAX };

    /// The piece of this data sequence number.
    pub(super) fn piece(dsn: u64) -> Self {
        Part { dsn, repair: 0 }
    }
}

/// How a record is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Protection {
    /// Repairs that are sent with it, at most `erasure_code::REPAIRS_MAX`.
    pub(super) repairs: u8,
    /// Whether each piece goes by two paths.
    pub(super) is_doubled: bool,
    /// When what has not arrived goes by another path as well.
    pub(super) hedge: Option<Time>,
}

/// A record that has begun.
#[derive(Clone, Debug)]
pub(super) struct OutgoingRecord {
    pub(super) token: u64,
    pub(super) stream: u64,
    pub(super) deadline: Time,
    /// When it is given up; `None`: never, or something of it was sent.
    pub(super) expires: Option<Time>,
    pub(super) protection: Protection,
    /// Parts that may be lost, which wait until it is hedged.
    pub(super) doubted: Vec<Part>,
    /// What had not arrived at its time went by another path as well.
    pub(super) is_hedged: bool,
    /// The peer has said that it answers for it.
    pub(super) is_held: bool,
    /// Data sequence number of its first piece: its name on this link.
    record: u64,
    after: u64,
    size: u32,
    pieces: u32,
    /// Emptied when all of it has arrived.
    content: Bytes,
    /// Bit set of the parts that have arrived, the pieces first.
    arrived: Vec<u64>,
    /// Parts that are missing until the peer has all of it.
    missing: u32,
    /// Pieces that the peer's window has room for, the first ones; repairs go when it has for all.
    open: u32,
    /// Bytes of pieces that have not arrived.
    held: Size,
    /// Parts that failed and are not to be sent again yet: there may be enough without them.
    parked: Vec<Part>,
    /// Parts that went by each path.
    gone: [u8; PATHS_MAX],
}

/// What begins.
#[derive(Clone, Debug)]
pub(super) struct FirstSend {
    pub(super) token: u64,
    pub(super) stream: u64,
    pub(super) deadline: Time,
    pub(super) expires: Option<Time>,
    pub(super) after: u64,
    pub(super) content: Bytes,
    pub(super) pieces: u32,
    pub(super) protection: Protection,
}

impl OutgoingRecord {
    /// Nothing of it has arrived. `record` is the data sequence number of its first piece.
    pub(super) fn new(record: u64, beginning: FirstSend) -> Self {
        let FirstSend { token, stream, deadline, expires, after, content, pieces, protection } =
            beginning;
        let size = content.len() as u32;
        let parts = pieces as usize + usize::from(protection.repairs);
        OutgoingRecord {
            token,
            stream,
            deadline,
            expires,
            protection,
            doubted: Vec::new(),
            is_hedged: false,
            is_held: false,
            record,
            after,
            size,
            pieces,
            content,
            arrived: vec![0; parts.div_ceil(64)],
            missing: pieces,
            open: pieces,
            held: Size(u64::from(size)),
            parked: Vec::new(),
            gone: [0; PATHS_MAX],
        }
    }

    /// A part goes by this path.
    pub(super) fn goes_by(&mut self, path: usize) {
        self.gone[path] = self.gone[path].saturating_add(1);
    }

    /// The set of paths by which parts of it went: a bit each.
    pub(super) fn paths(&self) -> u32 {
        let went = self.gone.iter().enumerate().filter(|(_, parts)| **parts > 0);
        went.fold(0, |set, (path, _)| set | 1 << path)
    }

    /// How many of its parts went by this path: up to 255 are counted.
    pub(super) fn gone_by(&self, path: usize) -> u8 {
        self.gone[path]
    }

    /// Whether this data sequence number is one of its pieces.
    pub(super) fn has(&self, dsn: u64) -> bool {
        (self.record..self.record + u64::from(self.pieces)).contains(&dsn)
    }

    /// All of its parts, in the order in which they are sent.
    pub(super) fn parts(&self) -> impl Iterator<Item = Part> + use<> {
        let end = self.record + u64::from(self.pieces);
        let repairs =
            (1..=self.protection.repairs).map(move |repair| Part { dsn: end - 1, repair });
        (self.record..end).map(Part::piece).chain(repairs)
    }

    /// Those of them that the peer's window has room for.
    pub(super) fn open_parts(&self) -> impl Iterator<Item = Part> + use<> {
        let (end, is_open) = (self.record + u64::from(self.open), self.is_open());
        self.parts().filter(move |part| is_open || part.dsn < end && part.repair == 0)
    }

    /// Whether the peer's window has room for all of it.
    pub(super) fn is_open(&self) -> bool {
        self.open == self.pieces
    }

    /// The peer's window has room for so many pieces.
    pub(super) fn open(&mut self, pieces: u32) {
        self.open = pieces.min(self.pieces);
    }

    /// The piece that the window must have room for next.
    pub(super) fn next_piece(&self) -> Option<Part> {
        (!self.is_open()).then(|| Part::piece(self.record + u64::from(self.open)))
    }

    /// The peer's window has room for another piece.
    pub(super) fn open_next(&mut self) {
        self.open(self.open + 1);
    }

    /// Its bytes.
    pub(super) fn size(&self) -> u32 {
        self.size
    }

    /// Parts that the peer needs to have all of it.
    pub(super) fn missing(&self) -> usize {
        self.missing as usize
    }

    /// How many pieces there are.
    pub(super) fn pieces(&self) -> u32 {
        self.pieces
    }

    /// The record that comes before it in its stream; 0 for none.
    pub(super) fn after(&self) -> u64 {
        self.after
    }

    /// What it takes of the peer's window.
    pub(super) fn opened_cost(&self) -> Size {
        Size(u64::from(self.size)) - self.closed() + RECORD_COST
    }

    /// Bytes of pieces that the window has no room for yet.
    pub(super) fn closed(&self) -> Size {
        Size(u64::from(self.size)) - Size(self.span(self.open as usize).start as u64)
    }

    fn place(&self, part: Part) -> usize {
        match part.repair {
            0 => (part.dsn - self.record) as usize,
            repair => self.pieces as usize + usize::from(repair) - 1,
        }
    }

    /// Where a piece stands in the record.
    fn span(&self, place: usize) -> Range<usize> {
        let (size, length) = (self.size as usize, piece_length(self.size, self.pieces));
        let start = (place * length).min(size);
        start..(start + length).min(size)
    }

    /// Bytes of a part.
    pub(super) fn length(&self, part: Part) -> Size {
        let length = match part.repair {
            0 => self.span(self.place(part)).len(),
            _ => piece_length(self.size, self.pieces),
        };
        Size(length as u64)
    }

    /// Whether the peer has all of it.
    pub(super) fn is_whole(&self) -> bool {
        self.missing == 0
    }

    /// Whether the peer needs this part no more.
    pub(super) fn is_done(&self, part: Part) -> bool {
        let place = self.place(part);
        let word = self.arrived.get(place / 64).copied().unwrap_or(u64::MAX);
        self.is_whole() || word >> (place % 64) & 1 == 1
    }

    /// A part has arrived. Answers the bytes that need not be kept any more.
    pub(super) fn arrived(&mut self, part: Part) -> Size {
        if self.is_done(part) {
            return Size::ZERO;
        }
        let place = self.place(part);
        self.arrived[place / 64] |= 1 << (place % 64);
        self.parked.retain(|&parked| parked != part);
        self.missing -= 1;
        if self.is_whole() {
            return self.finish();
        }
        let freed = if part.repair == 0 { self.length(part) } else { Size::ZERO };
        self.held -= freed;
        freed
    }

    /// The peer has all of it. Answers the bytes that need not be kept any more.
    pub(super) fn finish(&mut self) -> Size {
        self.missing = 0;
        self.content = Bytes::new();
        (self.parked, self.doubted) = (Vec::new(), Vec::new());
        std::mem::take(&mut self.held)
    }

    /// A part failed. Answers what must be sent again: what is neither lost nor arrived may be enough.
    pub(super) fn failed(&mut self, part: Part) -> Vec<Part> {
        if self.is_done(part) {
            return Vec::new();
        }
        if !self.parked.contains(&part) {
            self.parked.push(part);
        }
        let parts = self.pieces as usize + usize::from(self.protection.repairs);
        let alive = parts - self.parked.len();
        let short = (self.pieces as usize).saturating_sub(alive);
        self.parked.drain(..short).collect()
    }

    /// Writes the frame of a part.
    pub(super) fn encode(&self, part: Part, to: &mut Vec<u8>) {
        let OutgoingRecord { record, size, pieces, after, .. } = *self;
        if part.repair == 0 {
            let place = self.place(part);
            let data = &self.content[self.span(place)];
            let place = place as u32;
            LinkFrame::Piece(Piece { record, place, pieces, size, after, data }).encode(to);
        } else {
            let data = (0..pieces as usize).map(|place| &self.content[self.span(place)]);
            let number = part.repair - 1;
            let length = piece_length(size, pieces);
            let data = &erasure_code::repair(data, usize::from(number), length);
            LinkFrame::Repair(Parity { record, number, pieces, size, after, data }).encode(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Record 10 of 2500 bytes in three pieces, with so many repairs.
    fn begun(repairs: u8) -> OutgoingRecord {
        let protection = Protection { repairs, ..Protection::default() };
        let content = (0..2500).map(|byte| byte as u8).collect();
        let beginning = FirstSend {
            token: 7,
            stream: 1,
            deadline: Time::ZERO,
            expires: None,
            after: 4,
            content,
            pieces: 3,
            protection,
        };
        OutgoingRecord::new(10, beginning)
    }

    fn repair(number: u8) -> Part {
        Part { dsn: 12, repair: number + 1 }
    }

    #[test]
    fn its_parts_are_its_pieces_and_then_its_repairs() {
        let begun = begun(2);
        let parts: Vec<Part> = begun.parts().collect();
        assert_eq!(parts[..3], [Part::piece(10), Part::piece(11), Part::piece(12)]);
        assert_eq!(parts[3..], [repair(0), repair(1)]);
        assert!(parts.is_sorted());
        let lengths: Vec<u64> = parts.iter().map(|&part| begun.length(part).0).collect();
        assert_eq!(lengths, [834, 834, 832, 834, 834]);
        assert!(begun.has(10) && begun.has(12) && !begun.has(13));
    }

    #[test]
    fn as_many_parts_as_pieces_are_the_whole() {
        let mut begun = begun(2);
        assert_eq!(begun.arrived(Part::piece(11)), Size(834));
        assert_eq!(begun.arrived(repair(1)), Size::ZERO);
        assert_eq!(begun.arrived(repair(1)), Size::ZERO, "once");
        assert!(!begun.is_whole() && !begun.is_done(Part::piece(10)));
        assert_eq!(begun.arrived(repair(0)), Size(834 + 832));
        assert!(begun.is_whole() && begun.is_done(Part::piece(10)));
    }

    #[test]
    fn what_failed_goes_again_only_if_the_rest_is_not_enough() {
        let mut plain = begun(0);
        assert_eq!(plain.failed(Part::piece(12)), [Part::piece(12)]);
        assert_eq!(plain.failed(Part::piece(12)), [Part::piece(12)], "and again");
        let mut coded = begun(2);
        assert_eq!(coded.failed(Part::piece(11)), []);
        assert_eq!(coded.failed(Part::piece(11)), [], "its second copy");
        assert_eq!(coded.failed(repair(0)), []);
        // Three of five must arrive: of the parts that failed, the first goes again.
        assert_eq!(coded.failed(Part::piece(10)), [Part::piece(11)]);
        coded.arrived(repair(0));
        coded.arrived(Part::piece(12));
        assert_eq!(coded.failed(Part::piece(11)), [], "the last repair may still come");
        assert_eq!(coded.failed(repair(1)), [Part::piece(10)]);
        coded.finish();
        assert_eq!(coded.failed(Part::piece(10)), []);
    }
}
