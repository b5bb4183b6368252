//! Frames made smaller by libjpeg-turbo: decoded at a part of their size, and encoded anew from the planes of
//! luminance and colour, never by way of red, green and blue (docs/decisions/0060).

use std::sync::Arc;

use tidegate_frames::Rung;
use tidegate_frames::jpeg::JpegHeader;
use tidegate_frames::knobs::{self, Artifacts, Knobs};
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
    shrink_after(None, jpeg, head, rung)
}

/// The same of a frame that follows another one: what has not moved since that may be taken away.
///
/// # Errors
/// As [`shrink`]. One that cannot be read before it counts as none.
pub fn shrink_after(
    before: Option<&[u8]>,
    jpeg: &[u8],
    head: &JpegHeader,
    rung: &Rung,
) -> Result<Shrunk, CodecError> {
    let (mut decoder, source) = open(jpeg, head)?;
    let scale = ScalingFactor::new(rung.eighths.into(), 8);
    decoder.set_scaling_factor(scale)?;
    let (width, height) = (scale.scale(source.width), scale.scale(source.height));
    let mut encoder = Compressor::new()?;
    encoder.set_quality(rung.quality.into())?;
    let jpeg = if rung.is_gray || source.subsamp == Subsamp::Gray {
        let pixels = vec![0; width * height];
        let mut image = Image { pixels, width, pitch: width, height, format: PixelFormat::GRAY };
        decoder.decompress(jpeg, image.as_deref_mut())?;
        let luminance = (&mut image.pixels[..], width);
        turn(rung.knobs, rung.eighths, before.map(|jpeg| (jpeg, head)), luminance, None);
        encoder.set_subsamp(Subsamp::Gray)?;
        encoder.compress_to_vec(image.as_deref())?
    } else {
        let subsamp = source.subsamp;
        let pixels = vec![0; yuv_pixels_len(width, 1, height, subsamp)?];
        let mut image = YuvImage { pixels, width, align: 1, height, subsamp };
        decoder.decompress_to_yuv(jpeg, image.as_deref_mut())?;
        if !rung.knobs.is_none() {
            let ((wide, high), chroma) = (image.y_size(), image.uv_size());
            let (luminance, colours) = image.pixels.split_at_mut(wide * high);
            let before = before.map(|jpeg| (jpeg, head));
            turn(rung.knobs, rung.eighths, before, (luminance, wide), Some((colours, chroma)));
        }
        encoder.compress_yuv_to_vec(image.as_deref())?
    };
    Ok(Shrunk { jpeg, width: width as u32, height: height as u32 })
}

fn open(
    jpeg: &[u8],
    head: &JpegHeader,
) -> Result<(Decompressor, turbojpeg::DecompressHeader), CodecError> {
    let mut decoder = Decompressor::new()?;
    decoder.set_scan_limit(SCANS_MAX)?;
    let source = decoder.read_header(jpeg)?;
    if (source.width, source.height) != (usize::from(head.width), usize::from(head.height)) {
        let sizes = ((source.width, source.height), (head.width, head.height));
        return Err(CodecError::Size(sizes.0, sizes.1));
    }
    Ok((decoder, source))
}

/// Luminance at so many eighths of the size, and the width of it: at one, each pixel is the mean of 64.
///
/// # Errors
/// As [`shrink`].
pub(super) fn luminance(
    jpeg: &[u8],
    head: &JpegHeader,
    eighths: u8,
) -> Result<(Vec<u8>, usize), CodecError> {
    let (mut decoder, source) = open(jpeg, head)?;
    let scale = ScalingFactor::new(eighths.into(), 8);
    decoder.set_scaling_factor(scale)?;
    let (width, height) = (scale.scale(source.width), scale.scale(source.height));
    let pixels = vec![0; width * height];
    let mut image = Image { pixels, width, pitch: width, height, format: PixelFormat::GRAY };
    decoder.decompress(jpeg, image.as_deref_mut())?;
    Ok((image.pixels, width))
}

/// A plane, and the width of its rows, which may be longer than the picture is wide.
type Plane<'a> = (&'a mut [u8], usize);

/// Does what only the Mez paper does to a picture: to its luminance, and to its two planes of colour where it has some, which
/// stand one behind the other and have a size each.
fn turn(
    knobs: Knobs,
    eighths: u8,
    before: Option<(&[u8], &JpegHeader)>,
    (luminance_of, wide): Plane<'_>,
    colours: Option<(&mut [u8], (usize, usize))>,
) {
    let still = before.filter(|_| knobs.artifacts != Artifacts::Keep);
    let still = still.and_then(|(jpeg, head)| luminance(jpeg, head, eighths).ok());
    let mut planes = vec![(luminance_of, wide)];
    if let Some((colours, (width, height))) = colours {
        let (blue, red) = colours.split_at_mut(width * height);
        planes.extend([(blue, width), (&mut red[..width * height], width)]);
    }
    if let Some((then, narrow)) = still {
        let now = &planes[0];
        let rows = now.0.len() / wide.max(1);
        let picture: Vec<u8> = now
            .0
            .chunks_exact(wide.max(1))
            .flat_map(|row| &row[..narrow.min(wide)])
            .copied()
            .collect();
        let mask = knobs::moving(&picture, &then, narrow);
        let stays = match knobs.artifacts {
            Artifacts::Contours => knobs::outlines(&mask, narrow),
            _ => mask,
        };
        let is_outline = knobs.artifacts == Artifacts::Contours;
        for (place, (plane, width)) in planes.iter_mut().enumerate() {
            let high = plane.len() / (*width).max(1);
            for (at, pixel) in plane.iter_mut().enumerate() {
                let (column, row) = (at % *width * wide / *width, at / *width * rows / high);
                let moves = stays.get(row * narrow + column.min(narrow.saturating_sub(1)));
                // Black has no colour; outlines are white.
                *pixel = match (moves == Some(&true), place) {
                    (true, 0) if is_outline => u8::MAX,
                    (true, _) if !is_outline => *pixel,
                    (_, 0) => 0,
                    _ => 128,
                };
            }
        }
    }
    for (plane, width) in planes {
        let side = usize::from(knobs.blur) * usize::from(eighths) * width / (8 * wide.max(1));
        knobs::blur(plane, width, side);
    }
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
        before: Option<bytes::Bytes>,
        (jpeg, head): (bytes::Bytes, JpegHeader),
        rung: Rung,
    ) -> Result<Shrunk, CodecError> {
        self.run(move || shrink_after(before.as_deref(), &jpeg, &head, &rung)).await
    }

    /// What a frame shows at an eighth of its size, when a thread is free.
    ///
    /// # Errors
    /// As [`luminance`].
    pub(super) async fn outline(
        &self,
        jpeg: bytes::Bytes,
        head: JpegHeader,
    ) -> Result<Vec<u8>, CodecError> {
        self.run(move || luminance(&jpeg, &head, 1).map(|(pixels, _)| pixels)).await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, CodecError> + Send + 'static,
    ) -> Result<T, CodecError> {
        let permit = self.0.clone().acquire_owned().await.map_err(|_| CodecError::Stopping)?;
        let work = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
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
        let knobs = Knobs::default();
        Rung {
            eighths,
            quality,
            is_gray,
            knobs,
            bytes: 1.0,
            accuracy,
            accuracy_low: accuracy,
            cost,
        }
    }

    #[test]
    fn blur_and_black_backgrounds_make_smaller_pictures_of_the_same_size() {
        let source = test_picture(641, 363, 90);
        let head = JpegHeader::read(&source).unwrap();
        let plain = shrink(&source, &head, &rung(6, 60, false)).unwrap();
        let with = |knobs, is_gray, before: Option<&[u8]>| {
            let rung = Rung { knobs, ..rung(6, 60, is_gray) };
            let made = shrink_after(before, &source, &head, &rung).unwrap();
            assert_eq!((made.width, made.height), (plain.width, plain.height));
            made.jpeg
        };
        let blurred = with(Knobs { blur: 10, ..Knobs::default() }, false, None);
        assert!(blurred.len() < plain.jpeg.len(), "{}", blurred.len());
        for artifacts in [Artifacts::Background, Artifacts::Contours] {
            let knobs = Knobs { blur: 0, artifacts };
            assert_eq!(with(knobs, false, None), plain.jpeg, "nothing came before it");
            assert_eq!(with(knobs, false, Some(b"no picture")), plain.jpeg);
            for is_gray in [false, true] {
                // Nothing moved: all is black.
                let black = with(knobs, is_gray, Some(&source));
                let header = JpegHeader::read(&black).unwrap();
                let (pixels, _) = luminance(&black, &header, 8).unwrap();
                assert!(pixels.iter().all(|pixel| *pixel < 4), "{artifacts:?}");
            }
        }
    }

    /// A grey picture with a bright rectangle, or without.
    fn flat(has_rectangle: bool) -> Vec<u8> {
        let (width, height) = (640, 360);
        let is_bright = |x, y| has_rectangle && (208..304).contains(&x) && (96..176).contains(&y);
        let all = (0..width * height).map(|at| (at % width, at / width));
        let bytes = all.flat_map(|(x, y)| [if is_bright(x, y) { 220 } else { 90 }; 3]);
        let pixels: Vec<u8> = bytes.collect();
        let (pitch, format) = (3 * width, PixelFormat::RGB);
        let image = Image { pixels: &pixels[..], width, pitch, height, format };
        turbojpeg::compress(image, 95, Subsamp::Sub2x2).unwrap().to_vec()
    }

    #[test]
    fn what_moved_stays_where_it_is_and_all_around_it_is_black() {
        let (before, now) = (flat(false), flat(true));
        let head = JpegHeader::read(&now).unwrap();
        for (is_gray, eighths) in [(false, 8), (true, 8), (false, 4), (true, 4)] {
            let at = |artifacts| {
                let knobs = Knobs { blur: 0, artifacts };
                let rung = Rung { knobs, ..rung(eighths, 90, is_gray) };
                let made = shrink_after(Some(&before), &now, &head, &rung).unwrap();
                let header = JpegHeader::read(&made.jpeg).unwrap();
                let (pixels, _) = luminance(&made.jpeg, &header, 8).unwrap();
                let width = usize::from(header.width);
                let scale = usize::from(eighths);
                move |x: usize, y: usize| pixels[y * scale / 8 * width + x * scale / 8]
            };
            // The middle, inside of each edge, and outside of each, beyond what a block smears and what counts as moving.
            let inside = [(256, 136), (232, 136), (280, 136), (256, 120), (256, 152)];
            let outside = [(160, 136), (352, 136), (256, 48), (256, 224), (20, 20), (620, 340)];
            let is_dark = |look: &dyn Fn(usize, usize) -> u8, all: &[(usize, usize)]| {
                all.iter().all(|&(x, y)| look(x, y) < 30)
            };
            let look = at(Artifacts::Background);
            assert!(inside.iter().all(|&(x, y)| look(x, y) > 190), "{is_gray} {eighths}");
            assert!(is_dark(&look, &outside), "{is_gray} {eighths}");
            let look = at(Artifacts::Contours);
            assert!(is_dark(&look, &inside) && is_dark(&look, &outside), "{is_gray} {eighths}");
            // The outline is near each edge.
            let brightest = |xs: std::ops::Range<usize>, ys: std::ops::Range<usize>| {
                xs.flat_map(|x| ys.clone().map(move |y| (x, y))).map(|(x, y)| look(x, y)).max()
            };
            for near in [
                brightest(192..224, 130..140),
                brightest(288..320, 130..140),
                brightest(250..260, 80..112),
                brightest(250..260, 160..192),
            ] {
                assert!(near > Some(100), "{is_gray} {eighths} {near:?}");
            }
        }
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
