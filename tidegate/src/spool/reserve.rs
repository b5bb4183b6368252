//! A little of the disk, kept back for the log itself.
//!
//! A segment goes when a later checkpoint is on disk. On a disk that the log has filled no checkpoint
//! finds room, so nothing would ever go, though all records are delivered. The reserve is the room for
//! that one checkpoint.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

/// Room for the checkpoint of some thousand streams.
const RESERVE: usize = 256 * 1024;

/// The file that keeps the room.
#[derive(Debug)]
pub(super) struct Reserve(PathBuf);

impl Reserve {
    /// The reserve that is this file, or will be.
    pub(super) fn new(path: PathBuf) -> Self {
        Reserve(path)
    }

    /// Keeps the room back, where there is so much.
    pub(super) fn keep(&self) {
        let is_kept = fs::metadata(&self.0).is_ok_and(|known| known.len() == RESERVE as u64);
        let fill = || File::create(&self.0)?.write_all(&[0; RESERVE]);
        if !is_kept && fill().is_err() {
            // Less would be of no use, and others want it.
            let _ = fs::remove_file(&self.0);
        }
    }

    /// Gives the room away, if `error` says that there is no other: the next write may succeed.
    pub(super) fn give(&self, error: &io::Error) {
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            let _ = fs::remove_file(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_to_who_found_none() {
        let name = format!("tidegate-reserve-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let reserve = Reserve::new(path.clone());
        reserve.keep();
        reserve.give(&io::ErrorKind::ReadOnlyFilesystem.into());
        assert_eq!(fs::metadata(&path).unwrap().len(), RESERVE as u64);
        reserve.give(&io::ErrorKind::StorageFull.into());
        assert!(!path.exists());
        Reserve::new(path.join("no-folder")).keep();
    }
}
