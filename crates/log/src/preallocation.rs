//! How far a segment's file is filled with zeros ahead of what is written.
//!
//! A sync that makes a file longer, or gives it new blocks, also makes those facts safe: one more write to the
//! disk, after the first one. Behind zeros that were written before there is nothing but the bytes
//! themselves to make safe (`docs/decisions/0034-room-ahead.md`).

/// Writes like the present one that find room before more is made.
const WRITES: usize = 16;
/// The least and the most that is filled at once: a small write need not wait long, and nothing waits for
/// more than a large one would.
const AHEAD: (usize, usize) = (64 * 1024, 1024 * 1024);
/// From this length on a write gets no zeros behind it: they would be as many bytes again, and what they save, one small
/// write to the disk, is little beside it.
const LARGE: usize = 256 * 1024;

/// Where the zeros end that are to be written behind a write of `length` bytes: bytes beyond its own end.
pub fn preallocated_end(length: usize) -> usize {
    match length {
        LARGE.. => 0,
        _ => (length * WRITES).clamp(AHEAD.0, AHEAD.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_writes_find_room_for_many_and_large_ones_for_none() {
        assert_eq!(preallocated_end(1), 64 * 1024);
        assert_eq!(preallocated_end(24_000), 16 * 24_000);
        assert_eq!(preallocated_end(LARGE - 1), 1024 * 1024);
        assert_eq!([LARGE, usize::MAX].map(preallocated_end), [0, 0]);
    }
}
