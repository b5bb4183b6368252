//! Frames made smaller by libjpeg-turbo: decoded at a part of their size, and encoded anew from the planes of
//! luminance and colour, never by way of red, green and blue (docs/decisions/0060).

use std::sync::Arc;

use tidegate_frames::Rung;
use tidegate_frames::jpeg::JpegHeader;
use tokio::sync::Semaphore;
use turbojpeg::{
    Compressor, Decompressor, Image, PixelFormat, ScalingFactor, Subsamp, YuvImage, yuv_pixels_len,
};

/// Passes over a progressive picture: cameras write ten, and each costs as much as a whole picture.
const SCANS_MAX: u32 = 64;

/// A frame at a rung.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// The JPEG.
    pub jpeg: Vec<u8>,
    /// Its pixels.
    pub width: u32,
    /// The same.
    pub height: u32,
}

/// Why a frame cannot be encoded anew.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The library says so.
    #[error("the JPEG cannot be decoded: {0}")]
    Library(#[from] turbojpeg::Error),
    /// The library reads another size than its header says.
    #[error("the JPEG has {} x {} pixels and says {} x {}", .0.0, .0.1, .1.0, .1.1)]
    Size((usize, usize), (u16, u16)),
    /// The process is stopping.
    #[error("no thread to encode it on")]
    Stopping,
}

/// Encodes a frame to a rung.
///
/// # Errors
/// The bytes are no picture that the library reads whole.
pub fn shrink(jpeg: &[u8], head: &JpegHeader, rung: &Rung) -> Result<Shrunk, CodecError> {
    let mut decoder = Decompressor::new()?;
    decoder.set_scan_limit(SCANS_MAX)?;
    let source = decoder.read_header(jpeg)?;
    if (source.width, source.height) != (usize::from(head.width), usize::from(head.height)) {
        let sizes = ((source.width, source.height), (head.width, head.height));
        return Err(CodecError::Size(sizes.0, sizes.1));
    }
    let scale = ScalingFactor::new(rung.eighths.into(), 8);
    decoder.set_scaling_factor(scale)?;
    let (width, height) = (scale.scale(source.width), scale.scale(source.height));
    let mut encoder = Compressor::new()?;
    encoder.set_quality(rung.quality.into())?;
    let jpeg = if rung.is_gray || source.subsamp == Subsamp::Gray {
        let pixels = vec![0; width * height];
        let mut image = Image { pixels, width, pitch: width, height, format: PixelFormat::GRAY };
        decoder.decompress(jpeg, image.as_deref_mut())?;
        encoder.set_subsamp(Subsamp::Gray)?;
        encoder.compress_to_vec(image.as_deref())?
    } else {
        let subsamp = source.subsamp;
        let pixels = vec![0; yuv_pixels_len(width, 1, height, subsamp)?];
        let mut image = YuvImage { pixels, width, align: 1, height, subsamp };
        decoder.decompress_to_yuv(jpeg, image.as_deref_mut())?;
        encoder.compress_yuv_to_vec(image.as_deref())?
    };
    Ok(Shrunk { jpeg, width: width as u32, height: height as u32 })
}

/// Threads that encode: as many at once as there are permits, none of them the scheduler's.
#[derive(Clone, Debug)]
pub(super) struct Workers(Arc<Semaphore>);

impl Workers {
    /// So many at once.
    pub(super) fn new(threads: usize) -> Self {
        Workers(Arc::new(Semaphore::new(threads.max(1))))
    }

    /// Encodes a frame to a rung when a thread is free.
    ///
    /// # Errors
    /// As [`shrink`].
    pub(super) async fn shrink(
        &self,
        jpeg: bytes::Bytes,
        head: JpegHeader,
        rung: Rung,
    ) -> Result<Shrunk, CodecError> {
        let permit = self.0.clone().acquire_owned().await.map_err(|_| CodecError::Stopping)?;
        let work = tokio::task::spawn_blocking(move || {
            let shrunk = shrink(&jpeg, &head, &rung);
            drop(permit);
            shrunk
        });
        work.await.map_err(|_| CodecError::Stopping)?
    }
}

/// A picture to test with: a gradient with some noise, so that it has something to shrink.
#[doc(hidden)]
pub fn test_picture(width: usize, height: usize, quality: i32) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(3 * width * height);
    let mut noise = 1_u32;
    for y in 0..height {
        for x in 0..width {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let grain = (noise >> 28) as usize;
            let stripe = if (x / 16 + y / 16) % 2 == 0 { 60 } else { 0 };
            pixels.extend([(x + stripe + grain) as u8, (y + grain) as u8, (x + y) as u8]);
        }
    }
    let image =
        Image { pixels: &pixels[..], width, pitch: 3 * width, height, format: PixelFormat::RGB };
    let encoded = turbojpeg::compress(image, quality, Subsamp::Sub2x2);
    encoded.expect("any pixels make a picture").to_vec()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn rung(eighths: u8, quality: u8, is_gray: bool) -> Rung {
        let (accuracy, cost) = (0.9, Duration::ZERO);
        Rung { eighths, quality, is_gray, bytes: 1.0, accuracy, accuracy_low: accuracy, cost }
    }

    #[test]
    fn every_scale_and_gray_make_smaller_pictures() {
        let source = test_picture(641, 363, 90);
        let head = JpegHeader::read(&source).unwrap();
        for (eighths, width, height) in
            [(8, 641, 363), (6, 481, 273), (4, 321, 182), (3, 241, 137), (2, 161, 91), (1, 81, 46)]
        {
            let shrunk = shrink(&source, &head, &rung(eighths, 60, false)).unwrap();
            assert_eq!((shrunk.width, shrunk.height), (width, height));
            let read = JpegHeader::read(&shrunk.jpeg).unwrap();
            assert_eq!((u32::from(read.width), u32::from(read.height)), (width, height));
            assert_eq!(read.components, 3);
            assert!(shrunk.jpeg.len() < source.len(), "{eighths}");
            let gray = shrink(&source, &head, &rung(eighths, 60, true)).unwrap();
            assert_eq!(JpegHeader::read(&gray.jpeg).unwrap().components, 1);
            assert!(gray.jpeg.len() < shrunk.jpeg.len());
        }
    }

    #[test]
    fn damaged_pictures_are_errors() {
        let source = test_picture(320, 240, 80);
        let head = JpegHeader::read(&source).unwrap();
        let middle = source.len() / 2;
        let mut cut = source[..middle].to_vec();
        cut.extend([0xFF, 0xD9]);
        assert!(JpegHeader::read(&cut).is_ok(), "its markers are right");
        assert!(shrink(&cut, &head, &rung(4, 50, false)).is_err());
        let lie = JpegHeader { width: 640, ..head };
        let error = shrink(&source, &lie, &rung(4, 50, false)).unwrap_err();
        assert_eq!(error.to_string(), "the JPEG has 320 x 240 pixels and says 640 x 240");
    }

    #[test]
    fn no_change_of_bytes_makes_it_panic() {
        let source = test_picture(64, 48, 70);
        let head = JpegHeader::read(&source).unwrap();
        for at in 0..source.len() {
            for with in [0, 0x7F, 0xFF] {
                let mut bytes = source.clone();
                bytes[at] = with;
                let _ = shrink(&bytes, &head, &rung(4, 50, at % 2 == 0));
            }
        }
    }
}
