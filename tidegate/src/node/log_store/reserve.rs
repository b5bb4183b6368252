//! A little of the disk, kept back for the log itself.
//!
//! A segment goes when a later checkpoint is on disk. On a disk that the log has filled no checkpoint
//! finds room, so nothing would ever go, though all records are delivered. The reserve is the room for
//! that one checkpoint.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::support::disk::{Disk, How};

/// Room for the checkpoint of some thousand streams.
const RESERVE: usize = 256 * 1024;

/// The file that keeps the room.
#[derive(Debug)]
pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl Reserve {
    /// The reserve that is this file, or will be.
    pub(crate) fn new(disk: Arc<dyn Disk>, path: PathBuf) -> Self {
        Reserve { disk, path }
    }

    /// Keeps room back, where there is so much: for a word of so many bytes at least. What else stands under its name, a
    /// link above all, is removed and never written to.
    pub(crate) fn keep(&self, word: usize) {
        let room = word.next_power_of_two().max(RESERVE);
        if self.is_kept(room) {
            return;
        }
        self.remove();
        let fill = || self.disk.open(&self.path, How::New)?.write_at(&vec![0; room], 0);
        if fill().is_err() {
            // Less would be of no use, and others want it.
            self.remove();
        }
    }

    /// Gives the room away, if `error` says that there is no other: the next write may succeed.
    pub(crate) fn give(&self, error: &io::Error) {
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            self.remove();
        }
    }

    fn is_kept(&self, room: usize) -> bool {
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return false;
        };
        let all = self.disk.list(folder).unwrap_or_default();
        let is_it = |known: &crate::support::disk::Listed| {
            *known.name == *name && known.is_file && known.size == room as u64
        };
        all.iter().any(is_it)
    }

    fn remove(&self) {
        // It may not be there.
        let _ = self.disk.remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::support::disk::Real;

    fn folder(name: &str) -> PathBuf {
        let name = format!("tidegate-reserve-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn room_is_given_to_who_found_none() {
        let folder = folder("given");
        let path = folder.join("reserve");
        let reserve = Reserve::new(Arc::new(Real), path.clone());
        reserve.keep(0);
        reserve.give(&io::ErrorKind::ReadOnlyFilesystem.into());
        assert_eq!(fs::metadata(&path).unwrap().len(), RESERVE as u64);
        reserve.give(&io::ErrorKind::StorageFull.into());
        assert!(!path.exists());
        Reserve::new(Arc::new(Real), path.join("no-folder")).keep(0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_in_place_of_the_reserve_is_not_followed() {
        let folder = folder("link");
        let (path, other) = (folder.join("reserve"), folder.join("precious"));
        // What it leads to may be there, of any size, or not.
        for content in [Some(vec![7; RESERVE]), Some(b"precious".to_vec()), None] {
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(&other);
            content.iter().for_each(|content| fs::write(&other, content).unwrap());
            symlink(&other, &path).unwrap();
            Reserve::new(Arc::new(Real), path.clone()).keep(0);
            assert_eq!(fs::read(&other).ok(), content, "another file was written");
            let known = fs::symlink_metadata(&path).unwrap();
            assert!(known.is_file() && known.len() == RESERVE as u64);
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
