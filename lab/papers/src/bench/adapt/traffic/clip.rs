//! The road clip and what detectors saw in it, as `scripts/detections.sh` left them.

use std::path::Path;

use anyhow::{Context, ensure};
use bytes::Bytes;
use serde::Deserialize;

/// See the file's header.
#[derive(Clone, Debug, Default)]
pub(super) struct Clip {
    pub(super) frames_per_second: f64,
    /// JPEG of each frame at full and at half resolution.
    pub(super) full: Vec<Bytes>,
    pub(super) half: Vec<Bytes>,
    pub(super) seen: Seen,
}

/// Vehicles of each frame that each detector found, of those that the strong one finds at full resolution.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Seen {
    frames_per_second: f64,
    pub(super) strong_full: Vec<u64>,
    pub(super) strong_half: Vec<u64>,
    pub(super) weak_full: Vec<u64>,
}

impl Clip {
    /// Reads a folder; `None` where there is none.
    pub(super) fn read(folder: &Path) -> anyhow::Result<Option<Clip>> {
        let file = folder.join("detections.json");
        let Ok(text) = std::fs::read_to_string(&file) else { return Ok(None) };
        let place = || file.display().to_string();
        let seen: Seen = serde_json::from_str(&text).with_context(place)?;
        let count = seen.strong_full.len();
        let is_whole = [&seen.strong_half, &seen.weak_full].iter().all(|all| all.len() == count);
        ensure!(is_whole && count > 0, "{}: lists of different lengths", place());
        let frames = |name: &str| {
            let read = |number: usize| {
                let file = folder.join(name).join(format!("{number:03}.jpg"));
                let bytes = std::fs::read(&file);
                bytes.map(Bytes::from).with_context(|| file.display().to_string())
            };
            (0..count).map(read).collect::<anyhow::Result<Vec<Bytes>>>()
        };
        let frames_per_second = seen.frames_per_second;
        Ok(Some(Clip { frames_per_second, full: frames("full")?, half: frames("half")?, seen }))
    }

    /// Frames; the clip begins again after them.
    pub(super) fn len(&self) -> usize {
        self.full.len()
    }

    /// Bits a second of the clip at full resolution.
    pub(super) fn rate(&self) -> f64 {
        let bytes: usize = self.full.iter().map(Bytes::len).sum();
        bytes as f64 * 8.0 * self.frames_per_second / self.len() as f64
    }

    /// Whether a frame came at half of its resolution.
    pub(super) fn is_half(&self, number: usize, body: &Bytes) -> bool {
        self.half[number % self.len()] == body
    }
}
