//! What became of a camera's frames: kept beside them, for `tidegate explain`.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tidegate_frames::Rung;
use tidegate_frames::archive::{ArchivedFrame, scan};
use tidegate_log::Key;

use super::sealed::FileKey;

/// One frame's way to those who share a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameWay {
    /// Its number.
    pub frame: u64,
    /// The flow's.
    pub flow: u64,
    /// At which rung it left: `None` where it did not, or as it was taken.
    pub rung: Option<RungName>,
    /// Bytes that left; 0: it did not leave.
    pub bytes: u64,
    /// When it left, microseconds after it was taken.
    pub left_us: u64,
    /// When its end was known.
    pub ended_us: u64,
    /// How it ended, by the names of [`tidegate_frames::FrameResult`].
    pub result: String,
}

/// A rung, as people know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RungName {
    /// Eighths of width and height.
    pub eighths: u8,
    /// Of the JPEG.
    pub quality: u8,
    /// Without chroma.
    pub is_gray: bool,
    /// Accuracy by the ladder, in thousandths.
    pub accuracy: u16,
}

impl From<Rung> for RungName {
    fn from(rung: Rung) -> Self {
        let Rung { eighths, quality, is_gray, accuracy, .. } = rung;
        RungName { eighths, quality, is_gray, accuracy: (accuracy * 1e3).round() as u16 }
    }
}

/// What a camera's folder knows of a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameLife {
    /// Its bytes as it was taken; `None` where it is not there any more.
    pub taken: Option<u64>,
    /// Its ways, in the order of their ends.
    pub ways: Vec<FrameWay>,
}

/// Reads a frame's life from a camera's folder, whose node may be running.
///
/// # Errors
/// A file cannot be read, or no key opens it.
pub fn life(folder: &Path, keys: &[Key], frame: u64) -> io::Result<FrameLife> {
    let mut life = FrameLife::default();
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    for path in paths {
        let content = match fs::read(&path) {
            Ok(content) => content,
            // Its room was needed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let (entries, _) = scan(&content);
        if path.extension().is_some_and(|kind| kind == FRAMES) {
            let found = entries.iter().find(|entry| entry.number == frame);
            life.taken = life.taken.or(found.map(|found| found.length.into()));
            continue;
        }
        if path.extension().is_none_or(|kind| kind != WAYS) {
            continue;
        }
        life.ways.extend(read(&content, &entries, keys)?.filter(|way| way.frame == frame));
    }
    Ok(life)
}

/// The ways of one file.
pub(super) fn ways(path: &Path, keys: &[Key]) -> io::Result<Vec<FrameWay>> {
    let content = fs::read(path)?;
    let (entries, _) = scan(&content);
    Ok(read(&content, &entries, keys)?.collect())
}

fn read(
    content: &[u8],
    entries: &[ArchivedFrame],
    keys: &[Key],
) -> io::Result<impl Iterator<Item = FrameWay>> {
    let mut ways = Vec::new();
    let key = entries.first().map(|first| FileKey::find(keys, content, first)).transpose()?;
    for (entry, key) in entries.iter().zip(key.iter().cycle()) {
        let bytes = content[entry.offset as usize..][..entry.length as usize].to_vec();
        ways.extend(serde_json::from_slice::<FrameWay>(&key.open(entry.number, bytes)?).ok());
    }
    Ok(ways.into_iter())
}

/// What names of files of frames end with.
pub(super) const FRAMES: &str = "frames";
/// What names of files of ways end with.
pub(super) const WAYS: &str = "ways";
