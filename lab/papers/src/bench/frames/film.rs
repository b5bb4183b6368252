//! What cameras see: a clip of real life, or a picture that is made.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use bytes::Bytes;
use tidegate::services::cameras::test_picture;

/// The usual clip, below the folder of clips: few people, large.
pub(super) const CLIP: &str = "one-by-one-person-detection.mp4";
/// Below the folder of the data.
const CLIPS: &str = "vision/clips";
/// Frames of it, from this second on: people are in it.
const FRAMES: usize = 100;
const FROM: &str = "5";
/// Of every frame: what cameras have.
const SIZE: (usize, usize) = (1920, 1080);

/// Frames that a camera takes in turn.
#[derive(Debug)]
pub(super) struct Film {
    frames: Vec<Bytes>,
    /// Where they come from, in words.
    pub(super) source: String,
}

impl Film {
    /// A clip in the folder of the data, scaled to 1920 x 1080; a picture that is made where there is no clip, or
    /// no ffmpeg to decode it. `scratch`: a folder for the frames meanwhile.
    pub(super) fn load(data: &Path, clip: &str, scratch: &Path) -> Film {
        match decoded(&data.join(CLIPS).join(clip), scratch) {
            Ok(frames) => {
                let source = format!("{} frames of {CLIPS}/{clip}", frames.len());
                Film { frames, source }
            }
            Err(error) => {
                Film { source: format!("a picture that is made ({error:#})"), ..made(80) }
            }
        }
    }

    /// One picture of at least so many bytes.
    pub(super) fn of_size(bytes: usize) -> Film {
        let qualities = 50..=100;
        let large = qualities.map(made).find(|film| film.mean() >= bytes as f64);
        large.unwrap_or_else(|| made(100))
    }

    /// The frame with this number.
    pub(super) fn frame(&self, number: usize) -> Bytes {
        self.frames[self.place(number)].clone()
    }

    /// Which of its frames that is, for they come again.
    pub(super) fn place(&self, number: usize) -> usize {
        number % self.frames.len()
    }

    /// Mean of a frame's bytes.
    pub(super) fn mean(&self) -> f64 {
        let all: usize = self.frames.iter().map(Bytes::len).sum();
        all as f64 / self.frames.len() as f64
    }
}

fn made(quality: i32) -> Film {
    let frames = vec![test_picture(SIZE.0, SIZE.1, quality).into()];
    Film { frames, source: format!("a picture that is made, quality {quality}") }
}

fn decoded(clip: &Path, scratch: &Path) -> anyhow::Result<Vec<Bytes>> {
    ensure!(clip.is_file(), "no {}", clip.display());
    let scale = format!("scale={}:{}", SIZE.0, SIZE.1);
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-ss", FROM, "-i"]).arg(clip);
    command.args(["-vf", &scale, "-frames:v", &FRAMES.to_string(), "-qmin", "1", "-q:v", "1"]);
    command.arg(scratch.join("%03d.jpg")).stdin(Stdio::null());
    let status = command.status().context("ffmpeg")?;
    ensure!(status.success(), "ffmpeg ended with {status}");
    let files = (1..=FRAMES).map(|number| scratch.join(format!("{number:03}.jpg")));
    let frames: Vec<Bytes> =
        files.map_while(|file| std::fs::read(file).ok()).map(Bytes::from).collect();
    ensure!(!frames.is_empty(), "ffmpeg wrote no frames");
    Ok(frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::scratch::Scratch;

    #[test]
    fn without_a_clip_a_picture_is_made() {
        let scratch = Scratch::new().unwrap();
        let film = Film::load(Path::new("nowhere"), CLIP, scratch.path());
        assert!(film.source.contains("no nowhere/vision"), "{}", film.source);
        assert_eq!(film.frame(0), film.frame(7));
        assert_eq!(&film.frame(0)[..2], [0xFF, 0xD8]);
    }
}
