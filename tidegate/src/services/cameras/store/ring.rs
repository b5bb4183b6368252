//! The same files, written by the thread of who has them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use tidegate_log::Key;

use super::super::camera::Shot;
use super::super::ways::{FrameWay, WAYS, ways};
use super::writer::{Writer, remove};
use super::{Index, StoreReader, Work, lock};

/// A folder's files. What is written is there when the call ends.
#[derive(Debug)]
pub(in super::super) struct Ring {
    writer: Writer,
    index: Arc<Mutex<Index>>,
}

impl Ring {
    /// Opens a folder, as a store does.
    ///
    /// # Errors
    /// The folder or a file cannot be used, or no key opens one.
    pub(in super::super) fn open(folder: &Path, room: u64, keys: &[Key]) -> io::Result<Ring> {
        let index = Arc::new(Mutex::new(Index::open(folder, keys)?));
        let writer = Writer::new(folder, room, keys, index.clone(), Arc::new(AtomicUsize::new(0)));
        Ok(Ring { writer, index })
    }

    /// Writes one, and what is said of it. Answers whether it is there; what is wrong with the disk is told.
    pub(in super::super) fn write(&mut self, shot: Shot, way: FrameWay) -> bool {
        let number = shot.number;
        self.writer.take(Work::Frame(Arc::new(shot)));
        let is_written = self.newest() == Some(number);
        if is_written {
            // Where this cannot be written the entry itself is read instead.
            self.writer.note(way);
        }
        is_written
    }

    /// Number of the oldest one.
    pub(in super::super) fn oldest(&self) -> Option<u64> {
        lock(&self.index).oldest()
    }

    /// Number of the newest one.
    pub(in super::super) fn newest(&self) -> Option<u64> {
        lock(&self.index).newest()
    }

    /// Numbers of all.
    pub(in super::super) fn numbers(&self) -> Vec<u64> {
        let index = lock(&self.index);
        let all = index.segments.iter().flat_map(|segment| &segment.frames);
        all.map(|one| one.number).collect()
    }

    /// Bytes of all files.
    pub(in super::super) fn bytes(&self) -> u64 {
        lock(&self.index).segments.iter().map(|segment| segment.bytes).sum()
    }

    /// When the newest file was written last.
    pub(in super::super) fn written_at(&self) -> Option<SystemTime> {
        let path = lock(&self.index).segments.back()?.path.clone();
        path.metadata().and_then(|of| of.modified()).ok()
    }

    /// The oldest file goes. Answers whether there is another one.
    pub(in super::super) fn drop_oldest(&mut self) -> io::Result<bool> {
        let (gone, is_last) = {
            let mut index = lock(&self.index);
            (index.segments.pop_front(), index.segments.is_empty())
        };
        if is_last {
            self.writer.close();
        }
        gone.map_or(Ok(()), |segment| remove(&segment.path)).map(|()| !is_last)
    }

    /// What is said of each entry that is there, as far as it can be read.
    pub(in super::super) fn ways(&self, keys: &[Key]) -> Vec<FrameWay> {
        let paths: Vec<PathBuf> =
            lock(&self.index).segments.iter().map(|of| of.path.clone()).collect();
        let read = paths.iter().map(|path| ways(&path.with_extension(WAYS), keys));
        read.filter_map(Result::ok).flatten().collect()
    }

    /// Who reads it.
    pub(in super::super) fn reader(&self) -> StoreReader {
        StoreReader { index: self.index.clone(), open: None }
    }
}
