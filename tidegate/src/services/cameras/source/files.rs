//! JPEGs of a folder, by name, again and again. The folder is looked at anew each time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use tidegate_frames::piece::FRAME_MAX;
use tokio::time::{MissedTickBehavior, interval};

use super::Taker;
use crate::support::files;

/// Between two frames where nothing is said.
const APART: Duration = Duration::from_millis(200);

/// Reads until a file cannot be read.
pub(super) async fn read(folder: &Path, taker: &mut Taker) -> anyhow::Result<()> {
    let mut ticks = interval(taker.apart.unwrap_or(APART));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The ticks keep the rate.
    taker.apart = None;
    loop {
        let all = jpegs(folder)?;
        ensure!(!all.is_empty(), "{}: no file *.jpg or *.jpeg is in it", folder.display());
        for file in all {
            ticks.tick().await;
            let read = move || files::read(&file, FRAME_MAX as u64);
            // A file that is gone meanwhile is left out, and so is what is no file, or no frame by its length.
            if let Ok(Ok(jpeg)) = tokio::task::spawn_blocking(read).await {
                taker.frame(jpeg);
            }
        }
    }
}

/// JPEGs of a folder, by name.
pub(crate) fn jpegs(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        let kind = path.extension().and_then(|kind| kind.to_str()).unwrap_or_default();
        if kind.eq_ignore_ascii_case("jpg") || kind.eq_ignore_ascii_case("jpeg") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
