//! Records of a backlog, read back from a segment in the order of writing.

use std::collections::BTreeSet;

use tidegate_types::record::StreamId;
use tidegate_types::units::Size;

use super::entry::{Entry, LoggedRecord};
use super::header::OpenedHeader;
use super::scan::{Scanned, Scanner};

/// Some bytes of a segment.
#[derive(Clone, Copy, Debug)]
pub struct SegmentWindow<'a> {
    /// Where they begin, in bytes from the segment's beginning: where an entry does, or in the header.
    pub from: u32,
    /// They themselves.
    pub bytes: &'a [u8],
    /// Whether the segment ends with them.
    pub is_last: bool,
}

/// What a window holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fetched {
    /// Records of the wanted streams.
    pub records: Vec<LoggedRecord>,
    /// Where to go on, in bytes from the segment's beginning.
    pub next: u32,
    /// Whether the segment has nothing more.
    pub is_end: bool,
    /// Set where the window holds not even one entry: how many bytes the next one needs.
    pub needs: Option<usize>,
    /// The first bytes that hold nothing though entries stand behind them, from the segment's beginning.
    pub damaged: Option<(u32, u32)>,
}

/// The records of some streams in a window, until their payloads sum up to `most`.
///
/// A window that ends within an entry is read up to there; one that is the segment's last is read past
/// all damage.
pub fn fetch(
    opened: &OpenedHeader,
    window: SegmentWindow<'_>,
    streams: &BTreeSet<StreamId>,
    most: Size,
) -> Fetched {
    // The header is no entry.
    let skipped = opened.length.saturating_sub(window.from as usize).min(window.bytes.len());
    let from = window.from as usize + skipped;
    let mut scanner = Scanner::within(opened, from, &window.bytes[skipped..]);
    let mut fetched = Fetched { next: from as u32, ..Fetched::default() };
    let mut size = Size::ZERO;
    while size < most {
        let is_cut = scanner.claimed().is_none_or(|claimed| claimed > scanner.left());
        if is_cut && !window.is_last && scanner.left() > 0 {
            let is_nothing = fetched.next == from as u32;
            // A length that no entry has is damage: then only more bytes tell how far it goes.
            let needs = || scanner.claimed().map_or(2 * window.bytes.len(), |size| skipped + size);
            fetched.needs = is_nothing.then(|| needs().max(skipped + super::FRAME));
            return fetched;
        }
        let Some(found) = scanner.next() else {
            fetched.is_end = window.is_last;
            // Zeros up to the window's end may be a hole: it takes more bytes to see where it ends.
            let is_hole = !window.is_last && scanner.left() > 0 && fetched.next == from as u32;
            fetched.needs = is_hole.then(|| 2 * window.bytes.len());
            return fetched;
        };
        let frame = match found {
            Scanned::Frame(frame) => frame,
            // An entry that the window cuts may stand in it: it takes more bytes to see where this ends.
            Scanned::Damage { from: begin, is_tail: true, .. } if !window.is_last => {
                fetched.next = begin as u32;
                fetched.needs = (begin == from).then(|| 2 * window.bytes.len());
                return fetched;
            }
            Scanned::Damage { from, to, is_tail } => {
                if !is_tail {
                    fetched.damaged.get_or_insert((from as u32, to as u32));
                }
                fetched.next = to as u32;
                continue;
            }
        };
        if frame.is_footer() && !window.is_last && !scanner.is_end(&frame) {
            // It takes more bytes to see whether it stands in the place of something else.
            fetched.needs = (fetched.next == from as u32).then(|| 2 * window.bytes.len());
            return fetched;
        }
        fetched.next = frame.end() as u32;
        match frame.entry(opened) {
            Some(Entry::Record(record)) if streams.contains(&record.stream) => {
                size += record.size();
                fetched.records.push(*record);
            }
            Some(Entry::Footer(_)) => {
                fetched.is_end = true;
                return fetched;
            }
            // Its checksum holds, and it is none.
            None => _ = fetched.damaged.get_or_insert((frame.offset as u32, frame.end() as u32)),
            _ => {}
        }
    }
    fetched
}
