//! JPEGs out of a stream of bytes: one after the other, with anything between them.
//! Source: own; the markers are those of ITU-T T.81, annex B.
//! Inputs: bytes as they come. Outputs: whole JPEGs. O(bytes).
//! Deviations: none.
//! Limits: `FRAME_MAX` of `piece.rs`: what grows beyond it is left out.
//!
//! What is between frames (headers of multipart, lengths, blank lines) is skipped unread, so it serves for
//! MJPEG over HTTP whatever its boundary, and for what programs write into a pipe. A picture within a
//! picture (a thumbnail) is in a segment with a length, and not taken for the end.

use super::piece::FRAME_MAX;

/// Where in a JPEG the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before one: nothing of FF D8 was seen, or its FF.
    Outside { has_ff: bool },
    /// A marker's FF is to come, or its second byte.
    Marker { has_ff: bool },
    /// The two bytes of a segment's length; the first of them, and whether it is a scan's.
    Length { first: Option<u8>, is_scan: bool },
    /// In a segment: so many bytes to go.
    Segment { left: usize, is_scan: bool },
    /// In the picture, after its FF or not.
    Picture { has_ff: bool },
}

/// Finds the frames.
#[derive(Clone, Debug)]
pub struct Splitter {
    place: Place,
    frame: Vec<u8>,
    /// Frames that were broken off or too large.
    left_out: u64,
}

impl Default for Splitter {
    fn default() -> Self {
        Splitter { place: Place::Outside { has_ff: false }, frame: Vec::new(), left_out: 0 }
    }
}

impl Splitter {
    /// The first whole frame that ends in these bytes, and how many of them it took; nothing where all
    /// were taken and none has ended.
    pub fn push(&mut self, bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
        for (at, &byte) in bytes.iter().enumerate() {
            if self.step(byte) {
                return Some((std::mem::take(&mut self.frame), at + 1));
            }
        }
        None
    }

    /// Frames that were broken off or too large, so far.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether this byte is the last of a frame.
    fn step(&mut self, byte: u8) -> bool {
        if let Place::Outside { has_ff } = self.place {
            self.place = Place::Outside { has_ff: byte == 0xFF };
            if has_ff && byte == 0xD8 {
                self.frame.extend([0xFF, 0xD8]);
                self.place = Place::Marker { has_ff: false };
            }
            return false;
        }
        if self.frame.len() >= FRAME_MAX {
            self.give_up();
            return false;
        }
        self.frame.push(byte);
        match (self.place, byte) {
            (Place::Marker { has_ff: false } | Place::Picture { .. }, 0xFF) => {
                self.place = match self.place {
                    Place::Marker { .. } => Place::Marker { has_ff: true },
                    _ => Place::Picture { has_ff: true },
                };
            }
            (Place::Marker { has_ff: true }, 0xFF) => {}
            (Place::Marker { has_ff: false }, _) => self.give_up(),
            (Place::Marker { has_ff: true } | Place::Picture { has_ff: true }, 0xD9) => {
                self.place = Place::Outside { has_ff: false };
                return true;
            }
            // A stuffed zero and restarts belong to the picture.
            (Place::Picture { has_ff: true }, 0 | 0xD0..=0xD7) => {
                self.place = Place::Picture { has_ff: false };
            }
            // A picture that begins anew: what was before was broken off.
            (Place::Marker { has_ff: true } | Place::Picture { has_ff: true }, 0xD8) => {
                self.give_up();
                self.frame.extend([0xFF, 0xD8]);
                self.place = Place::Marker { has_ff: false };
            }
            (Place::Marker { has_ff: true } | Place::Picture { has_ff: true }, marker) => {
                self.place = Place::Length { first: None, is_scan: marker == 0xDA };
            }
            (Place::Picture { has_ff: false }, _) | (Place::Outside { .. }, _) => {}
            (Place::Length { first: None, is_scan }, high) => {
                self.place = Place::Length { first: Some(high), is_scan };
            }
            (Place::Length { first: Some(high), is_scan }, low) => {
                let length = usize::from(u16::from_be_bytes([high, low]));
                match length.checked_sub(2) {
                    Some(0) => self.after_segment(is_scan),
                    Some(left) => self.place = Place::Segment { left, is_scan },
                    None => self.give_up(),
                }
            }
            (Place::Segment { left: 1, is_scan }, _) => self.after_segment(is_scan),
            (Place::Segment { left, is_scan }, _) => {
                self.place = Place::Segment { left: left - 1, is_scan };
            }
        }
        false
    }

    fn after_segment(&mut self, is_scan: bool) {
        self.place = match is_scan {
            true => Place::Picture { has_ff: false },
            false => Place::Marker { has_ff: false },
        };
    }

    fn give_up(&mut self) {
        self.left_out += 1;
        self.frame = Vec::new();
        self.place = Place::Outside { has_ff: false };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame with a thumbnail in a segment, two scans, stuffed bytes and a restart.
    const FRAME: &[u8] = &[
        0xFF, 0xD8, 0xFF, 0xE1, 0, 6, 0xFF, 0xD8, 0xFF, 0xD9, 0xFF, 0xFF, 0xDA, 0, 3, 1, 7, 0xFF,
        0, 8, 0xFF, 0xD3, 9, 0xFF, 0xDA, 0, 2, 5, 0xFF, 0xD9,
    ];

    fn split(splitter: &mut Splitter, mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some((frame, taken)) = splitter.push(bytes) {
            frames.push(frame);
            bytes = &bytes[taken..];
        }
        frames
    }

    #[test]
    fn frames_are_found_among_headers() {
        let mut stream = b"--b\r\nContent-Type: image/jpeg\r\n\r\n".to_vec();
        stream.extend(FRAME);
        stream.extend(b"\r\n--b\r\nContent-Length: 2\r\n\r\n");
        stream.extend(FRAME);
        let mut splitter = Splitter::default();
        assert_eq!(split(&mut splitter, &stream), [FRAME, FRAME]);
        assert_eq!(splitter.left_out(), 0);
    }

    #[test]
    fn what_is_broken_off_costs_only_itself() {
        let mut stream = FRAME[..FRAME.len() - 6].to_vec();
        stream.extend(FRAME);
        let mut splitter = Splitter::default();
        assert_eq!(split(&mut splitter, &stream), [FRAME]);
        assert_eq!(splitter.left_out(), 1);
    }

    #[test]
    fn what_grows_without_end_is_left_out() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.push(&[0xFF, 0xD8, 0xFF, 0xDA, 0, 2]), None);
        for _ in 0..=FRAME_MAX / 65_536 {
            assert_eq!(splitter.push(&[1; 65_536]), None);
        }
        assert_eq!(splitter.left_out(), 1);
        assert_eq!(split(&mut splitter, FRAME), [FRAME]);
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_bytes_come(
            cuts in prop::collection::vec(0_usize..100, 0..10),
            noise in prop::collection::vec(0_u8..0xFF, 0..20),
        ) {
            let mut stream = noise;
            stream.extend(FRAME);
            stream.extend(FRAME);
            let mut splitter = Splitter::default();
            let mut frames = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts {
                let (now, later) = rest.split_at(cut.min(rest.len()));
                frames.extend(split(&mut splitter, now));
                rest = later;
            }
            frames.extend(split(&mut splitter, rest));
            prop_assert_eq!(frames, [FRAME, FRAME]);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            split(&mut Splitter::default(), &bytes);
        }
    }
}
