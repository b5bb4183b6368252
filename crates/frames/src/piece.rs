//! A frame in pieces, each of which is a record: what is late of it can be given up on the way, and each
//! piece that arrives tells how fast the channel is.
//! Source: own.
//! Inputs: the bytes of a frame; pieces as they come. Outputs: pieces; whole frames. O(bytes).
//! Deviations: none.
//! Limits: `FRAME_MAX`, `PIECES_MAX`.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tidegate_types::units::Time;

/// Most bytes of a frame as it travels: a picture of [`super::jpeg::PIXELS_MAX`] pixels at top quality has fewer.
pub const FRAME_MAX: usize = 32 << 20;
/// Most pieces of one.
pub const PIECES_MAX: usize = 8192;
/// The format of pieces.
const VERSION: u8 = 1;
/// Bytes of a piece before its part of the frame.
pub const HEAD: usize = 1 + 8 + 8 + 2 + 2;

/// A part of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramePiece {
    /// For whom: the receiver's own number.
    pub flow: u64,
    /// Which frame; later ones have larger numbers.
    pub frame: u64,
    /// Its place, from 0.
    pub index: u16,
    /// How many there are, at least 1.
    pub count: u16,
    /// Its part of the bytes.
    pub bytes: Bytes,
}

/// Why bytes are no piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PieceError {
    /// Too short.
    #[error("a piece of a frame has at least {HEAD} bytes, this one has {0}")]
    Short(usize),
    /// Of a format that is not known here.
    #[error("a piece of format {0}: this node reads format {VERSION}")]
    Version(u8),
    /// A place that cannot be.
    #[error("piece {index} of {count}: that cannot be")]
    Place {
        /// Its place.
        index: u16,
        /// How many there are said to be.
        count: u16,
    },
}

impl FramePiece {
    /// A frame cut into pieces of at most `size` bytes.
    ///
    /// # Panics
    /// A size of 0, or so small that there are more than [`PIECES_MAX`].
    pub fn cut(flow: u64, frame: u64, bytes: &Bytes, size: usize) -> Vec<FramePiece> {
        let count = bytes.len().div_ceil(size).max(1);
        assert!(count <= PIECES_MAX, "{count} pieces of {size} bytes");
        let piece = |index: usize| {
            let bytes = bytes.slice(index * size..bytes.len().min((index + 1) * size));
            FramePiece { flow, frame, index: index as u16, count: count as u16, bytes }
        };
        (0..count).map(piece).collect()
    }

    /// As it travels.
    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(HEAD + self.bytes.len());
        self.put_head(&mut bytes);
        bytes.put_slice(&self.bytes);
        bytes.freeze()
    }

    /// The head of a frame that goes in one piece: its bytes follow.
    pub fn whole(flow: u64, frame: u64, to: &mut BytesMut) {
        FramePiece { flow, frame, index: 0, count: 1, bytes: Bytes::new() }.put_head(to);
    }

    fn put_head(&self, to: &mut BytesMut) {
        to.put_u8(VERSION);
        to.put_u64(self.flow);
        to.put_u64(self.frame);
        to.put_u16(self.index);
        to.put_u16(self.count);
    }

    /// What came.
    ///
    /// # Errors
    /// See [`PieceError`].
    pub fn decode(mut bytes: Bytes) -> Result<FramePiece, PieceError> {
        if bytes.len() < HEAD {
            return Err(PieceError::Short(bytes.len()));
        }
        let version = bytes.get_u8();
        if version != VERSION {
            return Err(PieceError::Version(version));
        }
        let (flow, frame) = (bytes.get_u64(), bytes.get_u64());
        let (index, count) = (bytes.get_u16(), bytes.get_u16());
        if index >= count || usize::from(count) > PIECES_MAX {
            return Err(PieceError::Place { index, count });
        }
        Ok(FramePiece { flow, frame, index, count, bytes })
    }
}

/// Frames of a flow that may be in the making at once: where pieces go by several ways, those of one frame come among
/// those of the next ones.
const OPEN_MAX: usize = 8;

/// What came of one flow's frames that are not complete.
#[derive(Debug, Default)]
pub struct FrameAssembly {
    /// By rising number.
    open: Vec<OpenFrame>,
    /// The newest frame that is complete, or given up: older ones are nothing any more.
    done: Option<u64>,
    broken: u64,
}

#[derive(Debug)]
struct OpenFrame {
    frame: u64,
    /// When something of it came first.
    began_at: Time,
    parts: Vec<Option<Bytes>>,
    /// Parts that came, and their bytes.
    got: (usize, usize),
}

impl FrameAssembly {
    /// Takes a piece. Answers its frame if that was the last one of it, and when something of it came first. Older ones
    /// are nothing any more then; nor are those that together have more bytes than a frame may have, or than `OPEN_MAX`
    /// are newer.
    pub fn push(&mut self, now: Time, piece: FramePiece) -> Option<(Time, Bytes)> {
        let FramePiece { frame, index, count, bytes, .. } = piece;
        if self.done.is_some_and(|done| frame <= done) {
            return None;
        }
        let at = self.open.partition_point(|open| open.frame < frame);
        if self.open.get(at).is_none_or(|open| open.frame != frame) {
            let parts = vec![None; usize::from(count)];
            self.open.insert(at, OpenFrame { frame, began_at: now, parts, got: (0, 0) });
        }
        let open = &mut self.open[at];
        if open.parts.len() != usize::from(count) {
            return None;
        }
        let slot = &mut open.parts[usize::from(index)];
        if slot.is_none() {
            open.got = (open.got.0 + 1, open.got.1 + bytes.len());
            *slot = Some(bytes);
        }
        if open.got.0 == open.parts.len() {
            let (began_at, whole) = (open.began_at, open.join());
            self.broken += at as u64;
            self.open.drain(..=at);
            self.done = Some(frame);
            return Some((began_at, whole));
        }
        let all = |open: &[OpenFrame]| open.iter().map(|open| open.got.1).sum::<usize>();
        while self.open.len() > OPEN_MAX || all(&self.open) > FRAME_MAX {
            self.done = Some(self.open.remove(0).frame);
            self.broken += 1;
        }
        None
    }

    /// Frames of which not every piece came.
    pub fn broken(&self) -> u64 {
        self.broken
    }
}

impl OpenFrame {
    fn join(&mut self) -> Bytes {
        if let [Some(only)] = &mut self.parts[..] {
            return std::mem::take(only);
        }
        let mut whole = BytesMut::with_capacity(self.got.1);
        self.parts.iter_mut().filter_map(Option::take).for_each(|part| whole.put_slice(&part));
        whole.freeze()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Time = Time::from_millis(9);

    fn frame(length: usize) -> Bytes {
        (0..length).map(|at| at as u8).collect::<Vec<u8>>().into()
    }

    #[test]
    fn a_piece_travels_as_these_bytes() {
        let piece = FramePiece { flow: 1, frame: 258, index: 2, count: 3, bytes: Bytes::from("x") };
        let bytes = piece.encode();
        let head = [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2, 0, 2, 0, 3, b'x'];
        assert_eq!(&bytes[..], head);
        assert_eq!(FramePiece::decode(bytes), Ok(piece));
        let mut whole = BytesMut::new();
        FramePiece::whole(1, 258, &mut whole);
        assert_eq!(whole.freeze(), FramePiece::cut(1, 258, &Bytes::new(), 9)[0].encode());
    }

    #[test]
    fn what_is_no_piece_is_told_why() {
        assert_eq!(FramePiece::decode(Bytes::from_static(&[1; 20])), Err(PieceError::Short(20)));
        assert_eq!(FramePiece::decode(Bytes::from_static(&[2; 21])), Err(PieceError::Version(2)));
        let place =
            |index, count| FramePiece { flow: 0, frame: 0, index, count, bytes: Bytes::new() };
        for (index, count) in [(0, 0), (3, 3), (0, 9000)] {
            let error = FramePiece::decode(place(index, count).encode());
            assert_eq!(error, Err(PieceError::Place { index, count }));
        }
    }

    #[test]
    fn a_newer_frame_that_is_complete_ends_one_of_which_pieces_are_missing() {
        let mut assembly = FrameAssembly::default();
        let old = FramePiece::cut(7, 1, &frame(250), 100);
        let new = FramePiece::cut(7, 2, &frame(150), 100);
        assert_eq!(assembly.push(Time::ZERO, old[0].clone()), None);
        assert_eq!(assembly.push(Time::from_millis(5), new[0].clone()), None);
        assert_eq!(assembly.push(NOW, old[1].clone()), None, "there is still time");
        assert_eq!(assembly.push(NOW, new[1].clone()), Some((Time::from_millis(5), frame(150))));
        assert_eq!(assembly.push(NOW, new[1].clone()), None, "once");
        assert_eq!(assembly.push(NOW, old[2].clone()), None, "too old");
        assert_eq!(assembly.broken(), 1);
    }

    #[test]
    fn frames_whose_pieces_come_among_each_others_are_whole() {
        let mut assembly = FrameAssembly::default();
        let cut = |number: u64| FramePiece::cut(7, number, &frame(150 + number as usize), 100);
        let [first, second]: [Vec<FramePiece>; 2] = [1, 2].map(cut);
        assert_eq!(assembly.push(NOW, first[0].clone()), None);
        assert_eq!(assembly.push(NOW, second[0].clone()), None);
        assert_eq!(assembly.push(NOW, first[1].clone()), Some((NOW, frame(151))));
        assert_eq!(assembly.push(NOW, second[1].clone()), Some((NOW, frame(152))));
        assert_eq!(assembly.broken(), 0);
        // Of many that are begun the oldest ones are given up.
        for number in 3..=12 {
            assert_eq!(assembly.push(NOW, cut(number)[0].clone()), None);
        }
        assert_eq!(assembly.push(NOW, cut(4)[1].clone()), None);
        assert_eq!(assembly.push(NOW, cut(5)[1].clone()), Some((NOW, frame(155))));
        assert_eq!(assembly.broken(), 2);
    }

    #[test]
    fn a_frame_that_grows_beyond_its_bound_is_given_up() {
        let mut assembly = FrameAssembly::default();
        let part = frame(FRAME_MAX / 2 + 1);
        for index in 0..3 {
            let piece = FramePiece { flow: 0, frame: 1, index, count: 3, bytes: part.clone() };
            assert_eq!(assembly.push(NOW, piece), None);
        }
        assert_eq!(assembly.broken(), 1);
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_make_the_frame(
            length in 0_usize..2000, size in 1_usize..500, seed in any::<u64>(),
        ) {
            let mut pieces = FramePiece::cut(1, 5, &frame(length), size.max(length / PIECES_MAX + 1));
            let count = pieces.len();
            for at in (1..count).rev() {
                pieces.swap(at, (seed as usize).wrapping_mul(at + 7) % (at + 1));
            }
            let mut assembly = FrameAssembly::default();
            let mut wholes = pieces.into_iter().filter_map(|piece| assembly.push(NOW, piece));
            prop_assert_eq!(wholes.next(), Some((NOW, frame(length))));
            prop_assert_eq!(wholes.next(), None);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(piece) = FramePiece::decode(bytes.into()) {
                let _ = FrameAssembly::default().push(NOW, piece);
            }
        }
    }
}
