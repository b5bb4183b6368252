//! From the bytes of a segment to its entries, past whatever is damaged.
//!
//! The salt says that an entry was written for this segment, and its sequence says when. Behind damage it does not say
//! where: a disk may have written a sector to another place, and then entries of later or earlier places stand among
//! the others. So behind damage every entry of the segment counts, in any order, once.

use std::collections::BTreeMap;

use tidegate_types::codec::Reader;
use tidegate_types::crc::crc32c;
use tidegate_types::limits::LOG_ENTRY_MAX;

use super::entry::{Entry, Footer};
use super::header::OpenedHeader;

/// Bytes of an entry before its body: checksum, length, sequence, kind.
pub const FRAME: usize = 17;
/// The kinds of entries that there are.
const KINDS: std::ops::RangeInclusive<u8> = 1..=9;
const FOOTER: u8 = 8;
const FATES: [u8; 2] = [2, 4];
/// Footers have a sequence of their own, beside that of the last entry: no nonce is used twice.
pub(super) const FOOTER_BIT: u64 = 1 << 63;
/// What ends a finished segment, after its footer: this, the footer's offset, a checksum.
pub(super) const END_MAGIC: [u8; 8] = *b"tidefoot";
/// Bytes of that end.
pub const END: usize = 16;
/// How many times the bytes at hand the search for an entry behind damage may sum up in all, so that
/// hostile payloads cannot make recovery endless.
const SEARCH_FACTOR: usize = 16;

/// An entry whose checksum holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEntry<'a> {
    /// Where it begins, in bytes from the beginning of the segment.
    pub offset: usize,
    /// Its place in the log.
    pub sequence: u64,
    /// Its kind.
    pub kind: u8,
    /// The bytes that the checksum is not about: length, sequence and kind.
    head: &'a [u8],
    /// The body as it is stored.
    body: &'a [u8],
}

impl RawEntry<'_> {
    /// Where it ends, in bytes from the beginning of the segment.
    pub fn end(&self) -> usize {
        self.offset + FRAME + self.body.len()
    }

    /// Whether it is the last entry of a finished segment.
    pub fn is_footer(&self) -> bool {
        self.kind == FOOTER
    }

    /// Whether it may tell how records ended: it holds fates, or is a checkpoint.
    pub fn is_about_fates(&self) -> bool {
        FATES.contains(&self.kind)
    }

    /// Its sequence, without the bit that a footer has.
    pub fn number(&self) -> u64 {
        self.sequence & !FOOTER_BIT
    }

    /// The entry; `None` if its body does not open or is not of its kind, though its checksum holds:
    /// damage that somebody made.
    pub fn entry(&self, opened: &OpenedHeader) -> Option<Entry> {
        let Some(key) = &opened.key else { return Entry::decode(self.kind, self.body).ok() };
        let body = key.unseal(self.sequence, self.head, self.body)?;
        Entry::decode(self.kind, &body).ok()
    }
}

/// What a scan finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned<'a> {
    /// An entry.
    Frame(RawEntry<'a>),
    /// Bytes that are no entry.
    Damage {
        /// Where they begin, in bytes from the beginning of the segment.
        from: usize,
        /// Where the next entry begins, or the room or the bytes end.
        to: usize,
        /// Whether no entry comes behind them.
        is_tail: bool,
    },
}

impl Scanned<'_> {
    /// Where it ends, in bytes from the beginning of the segment; a footer with the end behind it.
    pub fn end(&self) -> usize {
        match self {
            Scanned::Frame(frame) if frame.is_footer() => frame.end() + END,
            Scanned::Frame(frame) => frame.end(),
            Scanned::Damage { to, .. } => *to,
        }
    }
}

/// Reads the entries of a segment in order. It ends with the footer, or with the bytes, or where nothing
/// but zeros is left: that is room into which nothing was written yet, for no entry begins with zeros
/// up to its kind. A reader that has only a part of the segment looks at `left` and reads on: zeros may be a
/// hole, and entries come behind it.
#[derive(Clone, Debug)]
pub struct Scanner<'a> {
    salt: u32,
    bytes: &'a [u8],
    /// Place of the first of the bytes in the segment.
    base: usize,
    at: usize,
    /// Sequence of the entry before, if it is known; 0 before the first one.
    last: Option<u64>,
    /// Whether entries may be missing before this place, or stand in another: then their order says nothing.
    is_in_doubt: bool,
    /// Sequences of the entries that were met: the first one of each run, and the last one.
    met: BTreeMap<u64, u64>,
    /// The entry behind the damage just told.
    behind: Option<RawEntry<'a>>,
    /// Bytes that the search may still sum up.
    budget: usize,
}

impl<'a> Scanner<'a> {
    /// Over a whole segment.
    pub fn new(opened: &OpenedHeader, segment: &'a [u8]) -> Self {
        let bytes = segment.get(opened.length..).unwrap_or_default();
        Scanner::resume(opened, opened.length, bytes, Some(0))
    }

    /// Over some bytes of a segment, of which the first stands at `base` and begins an entry.
    pub fn within(opened: &OpenedHeader, base: usize, bytes: &'a [u8]) -> Self {
        Scanner::resume(opened, base, bytes, None)
    }

    /// The same, behind an entry of a known sequence.
    pub(super) fn resume(
        opened: &OpenedHeader,
        base: usize,
        bytes: &'a [u8],
        last: Option<u64>,
    ) -> Self {
        let budget = bytes.len().saturating_mul(SEARCH_FACTOR);
        let (salt, is_in_doubt, met) = (opened.salt, last.is_none(), BTreeMap::new());
        Scanner { salt, bytes, base, at: 0, last, is_in_doubt, met, behind: None, budget }
    }

    /// How many bytes, from the present place, the entry there claims to have, a footer with the end behind it: for
    /// a reader that has only a part of the segment.
    pub fn claimed(&self) -> Option<usize> {
        let mut reader = Reader::new(self.bytes.get(self.at + 4..)?);
        let length = reader.u32().ok()? as usize;
        let is_footer = self.bytes.get(self.at + FRAME - 1) == Some(&FOOTER);
        let end = if is_footer { END } else { 0 };
        (length <= LOG_ENTRY_MAX).then_some(FRAME + length + end)
    }

    /// Sequence of the entry before the present place, if it must be the one before the next entry's.
    pub(super) fn before(&self) -> Option<u64> {
        self.last.filter(|_| !self.is_in_doubt)
    }

    /// Bytes from the present place to the end.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The frame at a place, if there is one. `is_search`: an entry should have begun before.
    fn frame_at(&mut self, at: usize, is_search: bool) -> Option<RawEntry<'a>> {
        let bytes = &self.bytes[at..];
        let mut reader = Reader::new(bytes);
        let crc = reader.u32().ok()?;
        let length = reader.u32().ok()? as usize;
        let sequence = reader.u64().ok()?;
        let kind = reader.u8().ok()?;
        let is_in_turn = match self.last {
            None | Some(0) => true,
            Some(last) if is_search || self.is_in_doubt => self.may_follow(last, sequence, kind),
            Some(last) if kind == FOOTER => sequence & !FOOTER_BIT >= last,
            Some(last) => sequence == last + 1,
        };
        if !KINDS.contains(&kind) || length > LOG_ENTRY_MAX || !is_in_turn {
            return None;
        }
        let (head, rest) = bytes[4..].split_at(FRAME - 4);
        let body = rest.get(..length)?;
        if is_search {
            self.budget = self.budget.checked_sub(length)?;
        }
        if crc32c(self.salt, &bytes[4..FRAME + length]) != crc {
            return None;
        }
        Some(RawEntry { offset: self.base + at, sequence, kind, head, body })
    }

    /// Whether behind a footer stands the end of a segment that says where this footer is.
    pub(super) fn is_end(&self, footer: &RawEntry<'_>) -> bool {
        let end = self.bytes.get(footer.end() - self.base..).and_then(<[u8]>::first_chunk);
        end.is_some_and(|end| footer_before(self.salt, end) == Some(footer.offset))
    }

    /// Whether entries come behind a footer: it stands in the place of something else.
    fn goes_on(&mut self, footer: &RawEntry<'_>) -> bool {
        let from = footer.end() - self.base;
        let written = from + without_room(&self.bytes[from..]);
        !self.is_end(footer) && (from..written).any(|at| self.frame_at(at, true).is_some())
    }

    /// Whether an entry of this segment that was not met yet can have this sequence. A footer can always be.
    fn may_follow(&self, last: u64, sequence: u64, kind: u8) -> bool {
        let most = ((self.base + self.bytes.len()) / FRAME) as u64;
        let is_met = || {
            let run = self.met.range(..=sequence).next_back();
            run.is_some_and(|(_, &end)| sequence <= end)
        };
        kind == FOOTER || (last.abs_diff(sequence) <= most && !is_met())
    }

    fn meet(&mut self, frame: &RawEntry<'_>) {
        let number = frame.number();
        self.last = Some(number);
        match self.met.range_mut(..=number).next_back() {
            Some((_, end)) if *end + 1 >= number => *end = number.max(*end),
            _ => _ = self.met.insert(number, number),
        }
    }
}

impl<'a> Iterator for Scanner<'a> {
    type Item = Scanned<'a>;

    fn next(&mut self) -> Option<Scanned<'a>> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let frame = self.behind.take();
        let frame = frame.or_else(|| self.frame_at(self.at, false));
        if let Some(frame) = frame.filter(|frame| !frame.is_footer() || !self.goes_on(frame)) {
            self.meet(&frame);
            self.at = match frame.kind {
                // What stands behind a footer is the segment's end.
                FOOTER => self.bytes.len(),
                _ => frame.end() - self.base,
            };
            return Some(Scanned::Frame(frame));
        }
        let from = self.at;
        let written = from + without_room(&self.bytes[from..]);
        if written == from {
            return None;
        }
        self.behind = (from + 1..written).find_map(|at| self.frame_at(at, true));
        self.is_in_doubt = true;
        self.at = self.behind.map_or(written, |frame| frame.offset - self.base);
        let (from, to) = (self.base + from, self.base + self.at);
        Some(Scanned::Damage { from, to, is_tail: self.behind.is_none() })
    }
}

/// How many bytes there are up to the last one that is not zero.
fn without_room(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1)
}

/// Where the footer of a finished segment begins, by the segment's last bytes; `None` if it is not
/// finished, or its end is damaged.
pub fn find_footer(opened: &OpenedHeader, last: &[u8]) -> Option<usize> {
    footer_before(opened.salt, last.last_chunk()?)
}

/// Where the footer before this end of a segment begins; `None` if it is no whole end.
fn footer_before(salt: u32, end: &[u8; END]) -> Option<usize> {
    let (rest, crc) = end.split_last_chunk::<4>()?;
    let offset = rest.strip_prefix(&END_MAGIC)?;
    let is_whole = crc32c(salt, rest) == u32::from_le_bytes(*crc);
    let offset = Reader::new(offset).u32().ok()?;
    is_whole.then_some(offset as usize)
}

/// The footer of a finished segment, from the bytes that begin at its offset.
pub fn read_footer(opened: &OpenedHeader, offset: usize, bytes: &[u8]) -> Option<Footer> {
    let found = Scanner::within(opened, offset, bytes).next()?;
    let Scanned::Frame(frame) = found else { return None };
    match frame.entry(opened)? {
        Entry::Footer(footer) => Some(footer),
        _ => None,
    }
}
