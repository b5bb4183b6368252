//! What a JPEG says of itself, read without decoding it: the first look at a frame that somebody sent.
//! Source: own; the markers are those of ITU-T T.81, annex B.
//! Inputs: the bytes of a file. Outputs: width, height and components, or why it is none. O(bytes).
//! Deviations: none.
//! Limits: `SIDE_MAX`, `PIXELS_MAX`.

/// Longest side of a frame, pixels.
pub const SIDE_MAX: u16 = 16_384;
/// Most pixels of a frame: 8K cameras have fewer. A decoder takes three bytes for each at most.
pub const PIXELS_MAX: u64 = 36_000_000;
/// Fewest bytes for so many pixels that any picture has: each block of 8 x 8 takes two bits and more.
const PIXELS_A_BYTE_MAX: u64 = 256;

/// What the header of a JPEG says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JpegHeader {
    /// Pixels of a row.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// 1 is gray, 3 is colour.
    pub components: u8,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JpegError {
    /// It begins like something else.
    #[error("this is no JPEG: it does not begin with FF D8")]
    NoJpeg,
    /// A marker leads beyond the end.
    #[error("the JPEG is cut off: what begins at byte {at} leads beyond its end")]
    CutOff {
        /// Where the last whole marker is.
        at: usize,
    },
    /// Bytes between markers that belong to none.
    #[error("the JPEG is damaged: no marker at byte {at}")]
    NoMarker {
        /// Where one should be.
        at: usize,
    },
    /// Lossless, arithmetic, hierarchical: no camera writes it, and no decoder here reads it.
    #[error(
        "the JPEG is of a kind that is not read (marker FF {marker:02X}): send baseline or progressive ones"
    )]
    Kind {
        /// The second byte of its frame header's marker.
        marker: u8,
    },
    /// Samples of other than 8 bits, or 2 or 4 components.
    #[error("the JPEG has {components} components of {bits} bits: 1 or 3 of 8 bits are read")]
    Samples {
        /// Colour components.
        components: u8,
        /// Bits of each.
        bits: u8,
    },
    /// No size that a frame has.
    #[error(
        "the JPEG says that it has {width} x {height} pixels: 1 to {SIDE_MAX} each way, and at most {PIXELS_MAX} together"
    )]
    Size {
        /// As the header says.
        width: u16,
        /// As the header says.
        height: u16,
    },
    /// Two frame headers: which one holds?
    #[error("the JPEG has two frame headers")]
    Twice,
    /// No frame header before the picture, or no picture.
    #[error("the JPEG has no picture")]
    Empty,
    /// Far too few bytes for what the header says.
    #[error(
        "the JPEG says that it has {width} x {height} pixels, and has {bytes} bytes: no picture is so small"
    )]
    Hollow {
        /// As the header says.
        width: u16,
        /// As the header says.
        height: u16,
        /// Bytes in all.
        bytes: usize,
    },
}

impl JpegHeader {
    /// What these bytes say, from the first marker to the beginning of the picture, and that they end as a
    /// JPEG does.
    ///
    /// # Errors
    /// See [`JpegError`].
    pub fn read(bytes: &[u8]) -> Result<JpegHeader, JpegError> {
        if !bytes.starts_with(&[0xFF, 0xD8]) {
            return Err(JpegError::NoJpeg);
        }
        let mut head = None;
        let mut at = 2;
        loop {
            let marker = marker(bytes, &mut at)?;
            if marker == 0xD9 {
                return Err(JpegError::Empty);
            }
            let body = segment(bytes, at)?;
            match marker {
                0xC0..=0xC2 if head.is_some() => return Err(JpegError::Twice),
                0xC0..=0xC2 => head = Some(JpegHeader::of(body, at)?),
                0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                    return Err(JpegError::Kind { marker });
                }
                0xDA => break,
                _ => {}
            }
            at += 2 + body.len();
        }
        let head = head.ok_or(JpegError::Empty)?;
        let JpegHeader { width, height, .. } = head;
        if (bytes.len() as u64) < head.pixels() / PIXELS_A_BYTE_MAX {
            return Err(JpegError::Hollow { width, height, bytes: bytes.len() });
        }
        // Some cameras fill up with zeros.
        let end = bytes.iter().rposition(|&byte| byte != 0).unwrap_or(0);
        if end <= at || bytes[end - 1..=end] != [0xFF, 0xD9] {
            return Err(JpegError::CutOff { at });
        }
        Ok(head)
    }

    /// Pixels of the whole frame.
    pub fn pixels(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height)
    }

    fn of(body: &[u8], at: usize) -> Result<JpegHeader, JpegError> {
        let &[bits, h1, h0, w1, w0, components, ..] = body else {
            return Err(JpegError::CutOff { at });
        };
        let (width, height) = (u16::from_be_bytes([w1, w0]), u16::from_be_bytes([h1, h0]));
        if bits != 8 || !matches!(components, 1 | 3) {
            return Err(JpegError::Samples { components, bits });
        }
        let head = JpegHeader { width, height, components };
        let fits = |side: u16| (1..=SIDE_MAX).contains(&side);
        if !fits(width) || !fits(height) || head.pixels() > PIXELS_MAX {
            return Err(JpegError::Size { width, height });
        }
        Ok(head)
    }
}

/// The second byte of the next marker that has a length; `at` is behind it then.
fn marker(bytes: &[u8], at: &mut usize) -> Result<u8, JpegError> {
    loop {
        match bytes.get(*at..*at + 2) {
            None => return Err(JpegError::CutOff { at: *at }),
            // Any number of FF may stand before a marker.
            Some(&[0xFF, 0xFF]) => *at += 1,
            // Restarts and the like have no length.
            Some(&[0xFF, 0x01 | 0xD0..=0xD8]) => *at += 2,
            Some(&[0xFF, marker]) if marker != 0 => {
                *at += 2;
                return Ok(marker);
            }
            Some(_) => return Err(JpegError::NoMarker { at: *at }),
        }
    }
}

/// What a marker's length covers, without the length itself.
fn segment(bytes: &[u8], at: usize) -> Result<&[u8], JpegError> {
    let cut_off = JpegError::CutOff { at };
    let &[high, low] = bytes.get(at..at + 2).ok_or(cut_off)? else { return Err(cut_off) };
    let length = usize::from(u16::from_be_bytes([high, low]));
    bytes.get(at + 2..at + length.max(2)).ok_or(cut_off)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The markers of a picture of this size, with so many bytes of scan.
    fn jpeg(sof: u8, width: u16, height: u16, scan: usize) -> Vec<u8> {
        let [h1, h0] = height.to_be_bytes();
        let [w1, w0] = width.to_be_bytes();
        let mut bytes = vec![0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 1, 2];
        bytes.extend([0xFF, sof, 0, 17, 8, h1, h0, w1, w0, 3]);
        bytes.extend([1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1]);
        bytes.extend([0xFF, 0xDA, 0, 2]);
        bytes.extend(vec![0x55; scan]);
        bytes.extend([0xFF, 0xD9]);
        bytes
    }

    #[test]
    fn the_size_is_read_of_baseline_and_progressive_pictures() {
        for sof in [0xC0, 0xC1, 0xC2] {
            let head = JpegHeader::read(&jpeg(sof, 1920, 1080, 20_000)).unwrap();
            assert_eq!(head, JpegHeader { width: 1920, height: 1080, components: 3 });
        }
        let mut padded = jpeg(0xC0, 64, 48, 100);
        padded.extend([0; 9]);
        assert!(JpegHeader::read(&padded).is_ok());
    }

    #[test]
    fn what_is_no_frame_is_told_why() {
        let good = jpeg(0xC0, 64, 48, 100);
        assert_eq!(JpegHeader::read(b"\x89PNG"), Err(JpegError::NoJpeg));
        assert_eq!(JpegHeader::read(b""), Err(JpegError::NoJpeg));
        assert_eq!(JpegHeader::read(&good[..6]), Err(JpegError::CutOff { at: 4 }));
        let cut = JpegHeader::read(&good[..good.len() - 1]).unwrap_err();
        assert!(matches!(cut, JpegError::CutOff { .. }), "{cut}");
        assert_eq!(JpegHeader::read(&[0xFF, 0xD8, 0xFF, 0xD9]), Err(JpegError::Empty));
        assert_eq!(JpegHeader::read(&[0xFF, 0xD8, 7, 7]), Err(JpegError::NoMarker { at: 2 }));
        let kind = JpegHeader::read(&jpeg(0xC3, 64, 48, 100));
        assert_eq!(kind, Err(JpegError::Kind { marker: 0xC3 }));
        let mut twice = good[..27].to_vec();
        twice.extend(&good[8..]);
        assert_eq!(JpegHeader::read(&twice), Err(JpegError::Twice));
    }

    #[test]
    fn headers_that_lie_about_the_size_cost_no_memory() {
        for (width, height) in [(0, 10), (10, 0), (65_535, 65_535), (16_000, 16_000)] {
            let read = JpegHeader::read(&jpeg(0xC0, width, height, 100));
            assert_eq!(read, Err(JpegError::Size { width, height }));
        }
        let read = JpegHeader::read(&jpeg(0xC0, 6000, 5000, 100));
        assert!(matches!(read, Err(JpegError::Hollow { .. })), "{read:?}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            at in 0_usize..140, with in any::<u8>(), cut in 0_usize..140, junk in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut bytes = jpeg(0xC0, 64, 48, 100);
            let place = at % bytes.len();
            bytes[place] = with;
            bytes.truncate(cut);
            let _ = JpegHeader::read(&bytes);
            let mut bytes = vec![0xFF, 0xD8];
            bytes.extend(junk);
            let _ = JpegHeader::read(&bytes);
        }
    }
}
