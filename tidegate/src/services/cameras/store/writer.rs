//! What the thread of a camera's store does: writes entries, begins files, and removes the oldest.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate_frames::archive::{ArchivedFrame, HEAD, SALT, TAG};
use tidegate_log::Key;

use super::super::camera::Shot;
use super::super::sealed::FileKey;
use super::super::ways::{FRAMES, FrameWay, WAYS};
use super::{Index, Segment, Work, lock};

/// Files that a camera's room is divided into: with the oldest one goes so much of it.
const FILES: u64 = 16;
/// Smallest file: a few frames.
const FILE_MIN: u64 = 1 << 20;
/// How long no file is begun after one could not be written: a full disk is none the fuller, nor is its log.
const PAUSE: Duration = Duration::from_secs(1);
/// What follows the name of a file that cannot be read.
pub(in crate::services::cameras) const UNREADABLE: &str = "unreadable";

/// Removes a file of frames, and first that of their ways, which nobody would find without it.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let gone = |path: &Path| match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    gone(&path.with_extension(WAYS)).and(gone(path))
}

/// Keeps a file that cannot be read, and that of its ways, under names that nobody here reads.
pub(super) fn set_aside(path: &Path) -> io::Result<()> {
    for kind in [WAYS, FRAMES] {
        let aside = path.with_extension(format!("{kind}.{UNREADABLE}"));
        match fs::rename(path.with_extension(kind), aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    tracing::error!(
        "no frame of {} can be read: it is damaged, or of another version; it is kept as *.{UNREADABLE}",
        path.display()
    );
    Ok(())
}

/// The file of ways that is written.
#[derive(Debug)]
struct WaysFile {
    file: File,
    key: FileKey,
    last: u64,
}

/// The thread's part.
#[derive(Debug)]
pub(super) struct Writer {
    folder: PathBuf,
    room: u64,
    keys: Vec<Key>,
    pub(super) file: Option<File>,
    ways: Option<WaysFile>,
    index: Arc<Mutex<Index>>,
    /// Ways that wait.
    waiting: Arc<AtomicUsize>,
    /// No file is begun before.
    pub(super) begins_at: Option<Instant>,
    pub(super) is_failing: bool,
}

impl Writer {
    pub(super) fn new(
        folder: &Path,
        room: u64,
        keys: &[Key],
        index: Arc<Mutex<Index>>,
        waiting: Arc<AtomicUsize>,
    ) -> Self {
        let (folder, keys) = (folder.into(), keys.to_vec());
        let (file, ways, begins_at, is_failing) = (None, None, None, false);
        Writer { folder, room, keys, file, ways, index, waiting, begins_at, is_failing }
    }

    pub(super) fn run(mut self, work: &Receiver<Work>) {
        while let Ok(work) = work.recv() {
            self.take(work);
        }
    }

    pub(super) fn take(&mut self, work: Work) {
        let is_frame = matches!(work, Work::Frame(_));
        let written = match work {
            Work::Frame(shot) => self.write(&shot),
            Work::Way(way) => {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                self.write_way(&way)
            }
        };
        match written {
            // A way for which no file is open says nothing of the disk.
            Ok(is_written) => {
                lock(&self.index).missed += u64::from(is_frame && !is_written);
                self.is_failing &= !is_written;
            }
            Err(error) => {
                lock(&self.index).missed += u64::from(is_frame);
                self.give_up();
                if !std::mem::replace(&mut self.is_failing, true) {
                    let folder = self.folder.display();
                    tracing::error!("frames cannot be stored in {folder}: {error}");
                }
            }
        }
    }

    /// What becomes of an entry is written, if a file is open and the disk takes it.
    pub(super) fn note(&mut self, way: FrameWay) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        self.take(Work::Way(way));
    }

    /// The file that is written has been taken away.
    pub(super) fn close(&mut self) {
        (self.file, self.ways) = (None, None);
    }

    /// A file with half a frame at its end is left as it is; one without any other is removed.
    fn give_up(&mut self) {
        let had_file = self.file.take().is_some();
        self.ways = None;
        self.begins_at = Some(Instant::now() + PAUSE);
        let mut index = lock(&self.index);
        if had_file && index.segments.back().is_some_and(|segment| segment.frames.is_empty()) {
            let begun = index.segments.pop_back();
            drop(index);
            // What stays of it is found, and removed, at the next start.
            begun.iter().for_each(|segment| drop(remove(&segment.path)));
        }
    }

    /// Answers whether it was written: it is not while no file may be begun.
    pub(super) fn write(&mut self, shot: &Shot) -> io::Result<bool> {
        let file_max = (self.room / FILES).max(FILE_MIN);
        let size = lock(&self.index).segments.back().map_or(0, |segment| segment.bytes);
        let begins = self.file.is_none() || size >= file_max;
        if begins && self.begins_at.is_some_and(|at| Instant::now() < at) {
            return Ok(false);
        }
        let most = shot.jpeg.len() + HEAD + TAG + if begins { 2 * (8 + SALT) } else { 0 };
        self.trim(most as u64, usize::from(!begins))?;
        if begins {
            self.begin(shot.number)?;
        }
        let file = self.file.as_mut().expect("it was begun");
        let key = lock(&self.index).segments.back().expect("it was begun").key.clone();
        let bytes = key.entry(shot.number, &shot.jpeg)?;
        let at = file.stream_position()?;
        file.write_all(&bytes)?;
        let mut index = lock(&self.index);
        let segment = index.segments.back_mut().expect("it was begun");
        let (offset, length) = (at + HEAD as u64, (bytes.len() - HEAD) as u32);
        segment.frames.push(ArchivedFrame { number: shot.number, offset, length });
        segment.bytes += bytes.len() as u64;
        Ok(true)
    }

    /// The oldest files go for so many bytes that come; so many files stay.
    fn trim(&self, coming: u64, stay: usize) -> io::Result<()> {
        let mut index = lock(&self.index);
        let mut all: u64 = index.segments.iter().map(|segment| segment.bytes).sum();
        let mut gone = Vec::new();
        while all + coming > self.room && index.segments.len() > stay {
            let Some(oldest) = index.segments.pop_front() else { break };
            all -= oldest.bytes;
            gone.push(oldest.path);
        }
        drop(index);
        // One that cannot be removed keeps none of the others.
        gone.iter().map(|path| remove(path)).fold(Ok(()), io::Result::and)
    }

    /// What became of a frame stands beside the frames that were taken when its end was known.
    pub(super) fn write_way(&mut self, way: &FrameWay) -> io::Result<bool> {
        let Some(ways) = &mut self.ways else { return Ok(false) };
        ways.last += 1;
        let bytes = ways.key.entry(ways.last, &serde_json::to_vec(way)?)?;
        ways.file.write_all(&bytes)?;
        if let Some(segment) = lock(&self.index).segments.back_mut() {
            segment.bytes += bytes.len() as u64;
        }
        Ok(true)
    }

    pub(super) fn begin(&mut self, number: u64) -> io::Result<()> {
        let path = self.folder.join(format!("{number:020}.{FRAMES}"));
        let begun = self.create(&path);
        if begun.is_err() {
            // It is in no list yet.
            let _ = remove(&path);
        }
        begun
    }

    fn create(&mut self, path: &Path) -> io::Result<()> {
        let create = |path: &Path| {
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
        };
        (self.file, self.ways) = (None, None);
        let mut frames = create(path)?;
        let (key, mut bytes) = FileKey::begin(&self.keys, &mut frames)?;
        let mut file = create(&path.with_extension(WAYS))?;
        let (of_ways, head) = FileKey::begin(&self.keys, &mut file)?;
        self.file = Some(frames);
        self.ways = Some(WaysFile { file, key: of_ways, last: 0 });
        bytes += head;
        let segment = Segment { path: path.into(), bytes, frames: Vec::new(), key };
        lock(&self.index).segments.push_back(segment);
        Ok(())
    }
}
