//! A segment read window by window: memory for a window is enough, unless an entry or damage is larger.

use std::ops::ControlFlow;

use super::header::OpenedHeader;
use super::scan::{FRAME, Scanned, Scanner};

/// How far a reader of a segment has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadPosition {
    /// Bytes from the segment's beginning: where the next entry begins.
    pub offset: usize,
    /// Sequence of the entry before, if it is known; 0 before the first one. Behind damage it is not.
    last: Option<u64>,
}

impl ReadPosition {
    /// Before the first entry.
    pub fn first(opened: &OpenedHeader) -> Self {
        ReadPosition { offset: opened.length, last: Some(0) }
    }

    /// Where an entry begins, as a point of a footer says it.
    pub fn point(offset: usize) -> Self {
        ReadPosition { offset, last: None }
    }
}

/// Why a walk stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked<B> {
    /// It needs a window of so many bytes from its place on, or the rest of the segment.
    Needs(usize),
    /// The segment has nothing more.
    End,
    /// Who met the entries has enough.
    Stopped(B),
}

/// Meets the entries of a window, which begins at `place`, and the damage; moves the place on. `is_last`:
/// the segment ends with the window.
pub fn walk<'a, B>(
    opened: &OpenedHeader,
    place: &mut ReadPosition,
    bytes: &'a [u8],
    is_last: bool,
    mut meet: impl FnMut(Scanned<'a>) -> ControlFlow<B>,
) -> Walked<B> {
    let mut scanner = Scanner::resume(opened, place.offset, bytes, place.last);
    loop {
        let is_cut = scanner.claimed().is_none_or(|claimed| claimed > scanner.left());
        if is_cut && !is_last {
            // A length that no entry has is damage: then only more bytes tell how far it goes.
            let more = if scanner.left() < FRAME { FRAME } else { 2 * scanner.left() };
            return Walked::Needs(scanner.claimed().unwrap_or(more));
        }
        let left = scanner.left();
        let Some(found) = scanner.next() else {
            // Zeros up to the window's end may be a hole in what was written.
            return if is_last { Walked::End } else { Walked::Needs(2 * left.max(FRAME)) };
        };
        let offset = match found {
            Scanned::Damage { is_tail: true, .. } if !is_last => {
                return Walked::Needs(2 * left.max(FRAME));
            }
            Scanned::Damage { to, .. } => to,
            // It takes more bytes to see whether it stands in the place of something else.
            Scanned::Frame(frame) if frame.is_footer() && !is_last && !scanner.is_end(&frame) => {
                return Walked::Needs(2 * left.max(FRAME));
            }
            Scanned::Frame(frame) => frame.end(),
        };
        *place = ReadPosition { offset, last: scanner.before() };
        if let ControlFlow::Break(told) = meet(found) {
            return Walked::Stopped(told);
        }
        if matches!(found, Scanned::Frame(frame) if frame.is_footer()) {
            return Walked::End;
        }
    }
}
