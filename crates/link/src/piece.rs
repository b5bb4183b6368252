//! Parts of a record on the wire: pieces, and repairs that stand for any piece that is lost.

use tidegate_types::codec::{Malformed, Reader, Sink};

use super::erasure_code;

/// A piece that is not its record's last has at least so many bytes, so that no record makes more of
/// them than its size pays for.
pub const PIECE_MIN: usize = 256;

/// A part of a record. All parts but the last have the same length, which follows from the record's size
/// and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Data sequence number of the record's first piece, which is also the record's name on this link;
    /// from 1. This piece's own one is `record + place`.
    pub record: u64,
    /// Which piece, from 0.
    pub place: u32,
    /// How many there are, at least 1.
    pub pieces: u32,
    /// Bytes of the whole record.
    pub size: u32,
    /// The record that must be delivered before, the one before it in its stream; 0 for none.
    pub after: u64,
    /// The bytes.
    pub data: &'a [u8],
}

impl Piece<'_> {
    /// Where its bytes begin in the record.
    pub fn offset(&self) -> usize {
        self.place as usize * piece_length(self.size, self.pieces)
    }

    /// Its data sequence number.
    pub fn dsn(&self) -> u64 {
        self.record + u64::from(self.place)
    }
}

/// A sum over the pieces of a record: of its pieces and its repairs, as many as there are pieces give all of it
/// (`crates/link/src/erasure_code.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity<'a> {
    /// The record, as in [`Piece`].
    pub record: u64,
    /// Which repair, from 0.
    pub number: u8,
    /// How many pieces there are, at least 1 and at most 128.
    pub pieces: u32,
    /// Bytes of the whole record.
    pub size: u32,
    /// The record that must be delivered before; 0 for none.
    pub after: u64,
    /// The sum, as long as the record's first piece.
    pub data: &'a [u8],
}

/// Length of each piece but the last of a record of so many bytes in so many pieces (at least 1).
pub(super) fn piece_length(size: u32, pieces: u32) -> usize {
    size.div_ceil(pieces) as usize
}

/// What a piece and a repair say before their data.
#[derive(Clone, Copy, Debug)]
struct Described {
    record: u64,
    place: u32,
    pieces: u32,
    size: u32,
    after: u64,
}

fn put_part(to: &mut Vec<u8>, described: Described, data: &[u8]) {
    let Described { record, place, pieces, size, after } = described;
    to.varint(record);
    for number in [place, pieces, size] {
        to.varint(u64::from(number));
    }
    // As a distance the number is short. No record is its own predecessor: 0 is free.
    to.varint(if after == 0 { 0 } else { record - after });
    to.extend_from_slice(data);
}

/// Reads and checks all but the place.
fn described(reader: &mut Reader<'_>) -> Result<Described, Malformed> {
    let record = reader.varint()?;
    let mut short = || {
        let number = u32::try_from(reader.varint()?);
        number.map_err(|_| reader.malformed("a number of 32 bits"))
    };
    let (place, pieces, size) = (short()?, short()?, short()?);
    let distance = reader.varint()?;
    let most = (size as usize / PIECE_MIN + 1) as u32;
    // The last data sequence number of the record must be a number, too.
    let is_sound = record > 0 && record.checked_add(u64::from(pieces)).is_some();
    let is_sound = is_sound && (1..=most).contains(&pieces) && distance < record;
    let is_full = |pieces: u32| {
        let last = (pieces - 1) as usize * piece_length(size, pieces);
        last == 0 || last < size as usize
    };
    reader.must(is_sound && is_full(pieces), "a part that its record can have")?;
    let after = if distance == 0 { 0 } else { record - distance };
    Ok(Described { record, place, pieces, size, after })
}

impl<'a> Piece<'a> {
    /// Writes all behind the frame's type.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        let Piece { record, place, pieces, size, after, data } = *self;
        put_part(to, Described { record, place, pieces, size, after }, data);
    }

    /// Reads what `encode` writes.
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let Described { record, place, pieces, size, after } = described(reader)?;
        reader.must(place < pieces, "a piece of its record")?;
        let length = piece_length(size, pieces);
        let offset = place as usize * length;
        let data = reader.take(length.min(size as usize - offset))?;
        Ok(Piece { record, place, pieces, size, after, data })
    }
}

impl<'a> Parity<'a> {
    /// Writes all behind the frame's type.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        let Parity { record, number, pieces, size, after, data } = *self;
        put_part(to, Described { record, place: u32::from(number), pieces, size, after }, data);
    }

    /// Reads what `encode` writes.
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let Described { record, place, pieces, size, after } = described(reader)?;
        let is_sound = (place as usize) < erasure_code::REPAIRS_MAX
            && pieces as usize <= erasure_code::PIECES_MAX;
        reader.must(is_sound, "a repair of its record")?;
        let (number, data) = (place as u8, reader.take(piece_length(size, pieces))?);
        Ok(Parity { record, number, pieces, size, after, data })
    }
}
