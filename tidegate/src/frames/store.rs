//! A camera's frames on disk: a ring of files, of which the oldest goes. One thread writes.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tidegate_frames::archive::{ArchivedFrame, MAGIC, head, scan};

use super::camera::Shot;

/// Files that a camera's room is divided into: with the oldest one goes so much of it.
const FILES: u64 = 16;
/// Smallest file: a few frames.
const FILE_MIN: u64 = 1 << 20;
/// Frames that may wait for the disk; one that finds no room is not stored.
const WAITING_MAX: usize = 32;

/// A file, and the frames in it, by rising number.
#[derive(Debug)]
struct Segment {
    path: PathBuf,
    bytes: u64,
    frames: Vec<ArchivedFrame>,
}

/// What is stored, and what was not.
#[derive(Debug, Default)]
struct Index {
    segments: VecDeque<Segment>,
    missed: u64,
}

/// A camera's frames. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Store {
    index: Arc<Mutex<Index>>,
    sender: SyncSender<Arc<Shot>>,
}

fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens a camera's folder, which is made if it is missing, with every whole frame that is there.
    ///
    /// # Errors
    /// The folder or a file cannot be used.
    pub(super) fn open(folder: &Path, room: u64) -> io::Result<Store> {
        fs::create_dir_all(folder)?;
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        paths.retain(|path| path.extension().is_some_and(|ending| ending == "frames"));
        paths.sort();
        let mut index = Index::default();
        for path in paths {
            let (frames, right) = scan(&fs::read(&path)?);
            match frames.is_empty() {
                true => fs::remove_file(&path)?,
                false => index.segments.push_back(Segment { path, bytes: right as u64, frames }),
            }
        }
        let index = Arc::new(Mutex::new(index));
        let (sender, shots) = sync_channel(WAITING_MAX);
        let writer = Writer { folder: folder.into(), room, file: None, index: index.clone() };
        std::thread::Builder::new().name("frames".into()).spawn(move || writer.run(&shots))?;
        Ok(Store { index, sender })
    }

    /// Stores a frame soon. Never waits.
    pub(super) fn append(&self, shot: Arc<Shot>) {
        if let Err(TrySendError::Full(_)) = self.sender.try_send(shot) {
            lock(&self.index).missed += 1;
        }
    }

    /// Number of the oldest frame.
    pub(super) fn oldest(&self) -> Option<u64> {
        let index = lock(&self.index);
        index.segments.front().and_then(|segment| segment.frames.first()).map(|one| one.number)
    }

    /// Number of the newest frame.
    pub(super) fn newest(&self) -> Option<u64> {
        let index = lock(&self.index);
        index.segments.back().and_then(|segment| segment.frames.last()).map(|one| one.number)
    }

    /// Frames that could not be stored.
    pub(super) fn missed(&self) -> u64 {
        lock(&self.index).missed
    }

    /// The first frame whose number is at least this.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub(super) fn read_from(&self, number: u64) -> io::Result<Option<(u64, Bytes)>> {
        let (path, stored) = {
            let index = lock(&self.index);
            let has = |segment: &&Segment| {
                segment.frames.last().is_some_and(|last| last.number >= number)
            };
            let Some(segment) = index.segments.iter().find(has) else { return Ok(None) };
            let at = segment.frames.partition_point(|stored| stored.number < number);
            (segment.path.clone(), segment.frames[at])
        };
        let mut bytes = vec![0; stored.length as usize];
        File::open(path)?.read_exact_at(&mut bytes, stored.offset)?;
        Ok(Some((stored.number, bytes.into())))
    }
}

/// The thread's part.
struct Writer {
    folder: PathBuf,
    room: u64,
    file: Option<File>,
    index: Arc<Mutex<Index>>,
}

impl Writer {
    fn run(mut self, shots: &Receiver<Arc<Shot>>) {
        let mut is_failing = false;
        while let Ok(shot) = shots.recv() {
            let written = self.write(&shot);
            if let Err(error) = &written {
                // A file with half a frame at its end is left as it is.
                self.file = None;
                lock(&self.index).missed += 1;
                if !is_failing {
                    let folder = self.folder.display();
                    tracing::error!("frames cannot be stored in {folder}: {error}");
                }
            }
            is_failing = written.is_err();
        }
    }

    fn write(&mut self, shot: &Shot) -> io::Result<()> {
        let file_max = (self.room / FILES).max(FILE_MIN);
        let size = lock(&self.index).segments.back().map_or(0, |segment| segment.bytes);
        if self.file.is_none() || size >= file_max {
            self.begin(shot.number)?;
        }
        let file = self.file.as_mut().expect("it was begun");
        let mut bytes = head(shot.number, &shot.jpeg).to_vec();
        let head = bytes.len() as u64;
        bytes.extend_from_slice(&shot.jpeg);
        file.write_all(&bytes)?;
        let mut index = lock(&self.index);
        let segment = index.segments.back_mut().expect("it was begun");
        let (offset, length) = (segment.bytes + head, shot.jpeg.len() as u32);
        segment.frames.push(ArchivedFrame { number: shot.number, offset, length });
        segment.bytes += bytes.len() as u64;
        let mut all: u64 = index.segments.iter().map(|segment| segment.bytes).sum();
        let mut gone = Vec::new();
        while all > self.room && index.segments.len() > 1 {
            let Some(oldest) = index.segments.pop_front() else { break };
            all -= oldest.bytes;
            gone.push(oldest.path);
        }
        drop(index);
        gone.iter().try_for_each(fs::remove_file)
    }

    fn begin(&mut self, number: u64) -> io::Result<()> {
        let path = self.folder.join(format!("{number:020}.frames"));
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path)?;
        file.write_all(&MAGIC)?;
        self.file = Some(file);
        let segment = Segment { path, bytes: MAGIC.len() as u64, frames: Vec::new() };
        lock(&self.index).segments.push_back(segment);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_frames::jpeg::JpegHeader;
    use tidegate_types::units::Time;

    use super::*;

    const HEAD: JpegHeader = JpegHeader { width: 8, height: 8, components: 3 };

    fn folder(name: &str) -> PathBuf {
        let name = format!("tidegate-frames-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn shot(number: u64, length: usize) -> Arc<Shot> {
        Arc::new(Shot::new(number, Time::ZERO, HEAD, vec![number as u8; length].into()))
    }

    /// A writer that works in this thread.
    fn writer(folder: &Path, room: u64) -> (Writer, Store) {
        let store = Store::open(folder, room).unwrap();
        let index = store.index.clone();
        (Writer { folder: folder.into(), room, file: None, index }, store)
    }

    #[test]
    fn frames_are_read_back_after_a_crash_in_the_middle_of_one() {
        let folder = folder("crash");
        let (mut writer, store) = writer(&folder, 1 << 30);
        (1..=3).for_each(|number| writer.write(&shot(number * 10, 1000)).unwrap());
        assert_eq!((store.oldest(), store.newest()), (Some(10), Some(30)));
        let path = lock(&store.index).segments[0].path.clone();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let store = Store::open(&folder, 1 << 30).unwrap();
        assert_eq!((store.oldest(), store.newest()), (Some(10), Some(20)));
        let read = |number| store.read_from(number).unwrap().map(|(number, _)| number);
        assert_eq!([0, 10, 11, 21].map(read), [Some(10), Some(10), Some(20), None]);
        assert_eq!(store.read_from(11).unwrap().unwrap().1, vec![20; 1000]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_oldest_file_goes_when_there_is_no_room() {
        let folder = folder("room");
        let (mut writer, store) = writer(&folder, 3 << 20);
        for number in 1..=60 {
            writer.write(&shot(number, 100_000)).unwrap();
        }
        let all: u64 = lock(&store.index).segments.iter().map(|one| one.bytes).sum();
        assert!(all <= 3 << 20, "{all}");
        assert_eq!(store.newest(), Some(60));
        let files = fs::read_dir(&folder).unwrap().count();
        assert_eq!(files, lock(&store.index).segments.len());
        fs::remove_dir_all(&folder).unwrap();
    }
}
