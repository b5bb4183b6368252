//! Recorded sizes of a film's chunks at six qualities.

use std::path::Path;

use anyhow::{Context, ensure};

/// Seconds of a chunk.
pub(super) const CHUNK_S: f64 = 4.0;
/// Lines of the picture and bits a second of each quality, lowest first.
pub(super) const RUNGS: [(u32, f64); 6] =
    [(240, 300e3), (360, 750e3), (480, 1200e3), (720, 1850e3), (1080, 2850e3), (1440, 4300e3)];
const FOLDER: &str = "video_sizes/pensieve_envivio";

/// See the file's header.
#[derive(Clone, Debug)]
pub(super) struct Ladder {
    /// Bytes of each chunk, by quality.
    sizes: Vec<Vec<u64>>,
}

impl Ladder {
    /// Reads them; `None` where they are not.
    pub(super) fn read(data: &Path) -> anyhow::Result<Option<Ladder>> {
        let mut sizes = Vec::new();
        for rung in 0..RUNGS.len() {
            let file = data.join(FOLDER).join(format!("video_size_{rung}"));
            let Ok(text) = std::fs::read_to_string(&file) else { return Ok(None) };
            let all = text.lines().map(|line| line.trim().parse::<u64>());
            let all: Vec<u64> =
                all.collect::<Result<_, _>>().with_context(|| file.display().to_string())?;
            sizes.push(all);
        }
        let count = sizes[0].len();
        ensure!(count > 0 && sizes.iter().all(|all| all.len() == count), "chunks are missing");
        Ok(Some(Ladder { sizes }))
    }

    /// What is said where they are not.
    pub(super) fn absent(data: &Path) -> String {
        let place = data.join(FOLDER);
        format!(
            "skipped: needs {} (sizes of a film's chunks) and recordings in net, not found: give --data",
            place.display()
        )
    }

    /// Bytes of a chunk; the film begins again after its last.
    pub(super) fn bytes(&self, rung: usize, chunk: u64) -> u64 {
        let all = &self.sizes[rung];
        all[chunk as usize % all.len()]
    }

    /// Bytes of a chunk in its smallest quality.
    pub(super) fn smallest(&self, chunk: u64) -> u64 {
        (0..RUNGS.len()).map(|rung| self.bytes(rung, chunk)).min().unwrap_or_default()
    }

    /// Every chunk has the size that its quality says.
    #[cfg(test)]
    pub(super) fn even() -> Ladder {
        Ladder { sizes: RUNGS.map(|(_, bits)| vec![(bits * CHUNK_S / 8.0) as u64]).to_vec() }
    }
}
