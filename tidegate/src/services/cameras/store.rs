//! A camera's frames on disk, and what became of each: a ring of files, of which the oldest goes. One thread writes.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tidegate_frames::archive::{ArchivedFrame, HEAD, scan};
use tidegate_log::Key;

use super::camera::Shot;
use super::sealed::FileKey;
use super::ways::{FRAMES, FrameWay, WAYS};

/// Files that a camera's room is divided into: with the oldest one goes so much of it.
const FILES: u64 = 16;
/// Smallest file: a few frames.
const FILE_MIN: u64 = 1 << 20;
/// Frames and ways that may wait for the disk; one that finds no room is not stored.
const WAITING_MAX: usize = 64;

/// Where frames are kept.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// A folder, in which each camera has one.
    pub directory: PathBuf,
    /// Bytes of each camera's.
    pub room: u64,
    /// What seals them: the first; each of them opens. None: nothing is sealed.
    pub keys: Vec<Key>,
}

/// A file, and the frames in it, by rising number.
#[derive(Debug)]
struct Segment {
    path: PathBuf,
    /// With its ways.
    bytes: u64,
    frames: Vec<ArchivedFrame>,
    key: FileKey,
}

/// What is stored, and what was not.
#[derive(Debug, Default)]
struct Index {
    segments: VecDeque<Segment>,
    missed: u64,
}

/// What the thread is given.
#[derive(Debug)]
enum Work {
    Frame(Arc<Shot>),
    Way(FrameWay),
}

/// A camera's frames. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Store {
    index: Arc<Mutex<Index>>,
    sender: SyncSender<Work>,
}

fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Opens a camera's folder, which is made if it is missing, with every whole frame that is there.
    ///
    /// # Errors
    /// The folder or a file cannot be used, or no key opens one.
    pub(super) fn open(folder: &Path, room: u64, keys: &[Key]) -> io::Result<Store> {
        fs::create_dir_all(folder)?;
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        paths.retain(|path| path.extension().is_some_and(|kind| kind == FRAMES));
        paths.sort();
        let mut index = Index::default();
        for path in paths {
            let content = fs::read(&path)?;
            let (frames, right) = scan(&content);
            let Some(first) = frames.first() else {
                remove(&path)?;
                continue;
            };
            let of = |error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            };
            let key = FileKey::find(keys, &content, first).map_err(of)?;
            let ways = fs::metadata(path.with_extension(WAYS)).map_or(0, |ways| ways.len());
            index.segments.push_back(Segment { path, bytes: right as u64 + ways, frames, key });
        }
        let index = Arc::new(Mutex::new(index));
        let (sender, work) = sync_channel(WAITING_MAX);
        let writer = Writer::new(folder, room, keys, index.clone());
        std::thread::Builder::new().name("frames".into()).spawn(move || writer.run(&work))?;
        Ok(Store { index, sender })
    }

    /// Stores a frame soon. Never waits.
    pub(super) fn append(&self, shot: Arc<Shot>) {
        self.give(Work::Frame(shot));
    }

    /// Stores what became of a frame. Never waits.
    pub(super) fn note(&self, way: FrameWay) {
        self.give(Work::Way(way));
    }

    fn give(&self, work: Work) {
        if let Err(TrySendError::Full(Work::Frame(_))) = self.sender.try_send(work) {
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

    /// Where the first frame is whose number is at least this.
    fn find(&self, number: u64) -> Option<(PathBuf, FileKey, ArchivedFrame)> {
        let index = lock(&self.index);
        let has =
            |segment: &&Segment| segment.frames.last().is_some_and(|last| last.number >= number);
        let segment = index.segments.iter().find(has)?;
        let at = segment.frames.partition_point(|stored| stored.number < number);
        Some((segment.path.clone(), segment.key.clone(), segment.frames[at]))
    }
}

/// Who reads frames one behind the other: a file is opened once.
#[derive(Debug)]
pub(super) struct StoreReader {
    store: Store,
    open: Option<(PathBuf, File)>,
}

impl StoreReader {
    /// Of this store.
    pub(super) fn new(store: Store) -> Self {
        StoreReader { store, open: None }
    }

    /// The first frame whose number is at least this.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub(super) fn read_from(&mut self, number: u64) -> io::Result<Option<(u64, Bytes)>> {
        let Some((path, key, at)) = self.store.find(number) else { return Ok(None) };
        if self.open.as_ref().is_none_or(|(open, _)| *open != path) {
            let file = File::open(&path)?;
            self.open = Some((path, file));
        }
        let Some((_, file)) = &self.open else { return Ok(None) };
        Ok(Some((at.number, key.read(file, &at)?)))
    }
}

/// Removes a file of frames, and that of their ways.
fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    match fs::remove_file(path.with_extension(WAYS)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The file of ways that is written.
struct WaysFile {
    file: File,
    key: FileKey,
    last: u64,
}

/// The thread's part.
struct Writer {
    folder: PathBuf,
    room: u64,
    keys: Vec<Key>,
    file: Option<File>,
    ways: Option<WaysFile>,
    index: Arc<Mutex<Index>>,
}

impl Writer {
    fn new(folder: &Path, room: u64, keys: &[Key], index: Arc<Mutex<Index>>) -> Self {
        let (folder, keys) = (folder.into(), keys.to_vec());
        Writer { folder, room, keys, file: None, ways: None, index }
    }

    fn run(mut self, work: &Receiver<Work>) {
        let mut is_failing = false;
        while let Ok(work) = work.recv() {
            let is_frame = matches!(work, Work::Frame(_));
            let written = match work {
                Work::Frame(shot) => self.write(&shot),
                Work::Way(way) => self.write_way(&way),
            };
            if let Err(error) = &written {
                // A file with half a frame at its end is left as it is.
                (self.file, self.ways) = (None, None);
                lock(&self.index).missed += u64::from(is_frame);
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
        let key = lock(&self.index).segments.back().expect("it was begun").key.clone();
        let bytes = key.entry(shot.number, &shot.jpeg)?;
        let at = file.stream_position()?;
        file.write_all(&bytes)?;
        let mut index = lock(&self.index);
        let segment = index.segments.back_mut().expect("it was begun");
        let (offset, length) = (at + HEAD as u64, (bytes.len() - HEAD) as u32);
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
        gone.iter().try_for_each(|path| remove(path))
    }

    /// What became of a frame stands beside the frames that were taken when its end was known.
    fn write_way(&mut self, way: &FrameWay) -> io::Result<()> {
        let Some(ways) = &mut self.ways else { return Ok(()) };
        ways.last += 1;
        let bytes = ways.key.entry(ways.last, &serde_json::to_vec(way)?)?;
        ways.file.write_all(&bytes)?;
        if let Some(segment) = lock(&self.index).segments.back_mut() {
            segment.bytes += bytes.len() as u64;
        }
        Ok(())
    }

    fn begin(&mut self, number: u64) -> io::Result<()> {
        let create = |path: &Path| {
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
        };
        let path = self.folder.join(format!("{number:020}.{FRAMES}"));
        let mut file = create(&path)?;
        let (key, mut bytes) = FileKey::begin(&self.keys, &mut file)?;
        self.file = Some(file);
        let mut file = create(&path.with_extension(WAYS))?;
        let (of_ways, head) = FileKey::begin(&self.keys, &mut file)?;
        self.ways = Some(WaysFile { file, key: of_ways, last: 0 });
        bytes += head;
        let segment = Segment { path, bytes, frames: Vec::new(), key };
        lock(&self.index).segments.push_back(segment);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_frames::jpeg::JpegHeader;
    use tidegate_types::units::Time;

    use super::super::ways::{FrameLife, RungName, life};
    use super::*;

    const OF: JpegHeader = JpegHeader { width: 8, height: 8, components: 3 };

    fn folder(name: &str) -> PathBuf {
        let name = format!("tidegate-frames-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    fn shot(number: u64, length: usize) -> Arc<Shot> {
        Arc::new(Shot::new(number, Time::ZERO, OF, vec![number as u8; length].into()))
    }

    /// A writer that works in this thread.
    fn writer(folder: &Path, room: u64, keys: &[Key]) -> (Writer, Store) {
        let store = Store::open(folder, room, keys).unwrap();
        (Writer::new(folder, room, keys, store.index.clone()), store)
    }

    fn way(frame: u64) -> FrameWay {
        let rung = Some(RungName { eighths: 4, quality: 40, is_gray: false, accuracy: 910 });
        let (left_us, ended_us) = (5_000, 41_000);
        let result = "delivered".into();
        FrameWay { frame, flow: 7, rung, bytes: 1200, left_us, ended_us, result }
    }

    #[test]
    fn frames_are_read_back_after_a_crash_in_the_middle_of_one() {
        let folder = folder("crash");
        let (mut writer, store) = writer(&folder, 1 << 30, &[]);
        (1..=3).for_each(|number| writer.write(&shot(number * 10, 1000)).unwrap());
        assert_eq!((store.oldest(), store.newest()), (Some(10), Some(30)));
        let path = lock(&store.index).segments[0].path.clone();
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let store = Store::open(&folder, 1 << 30, &[]).unwrap();
        assert_eq!((store.oldest(), store.newest()), (Some(10), Some(20)));
        let mut reader = StoreReader::new(store);
        let mut read = |number| reader.read_from(number).unwrap().map(|(number, _)| number);
        assert_eq!([0, 10, 11, 21].map(&mut read), [Some(10), Some(10), Some(20), None]);
        assert_eq!(reader.read_from(11).unwrap().unwrap().1, vec![20; 1000]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_oldest_file_goes_when_there_is_no_room() {
        let folder = folder("room");
        let (mut writer, store) = writer(&folder, 3 << 20, &[]);
        for number in 1..=60 {
            writer.write(&shot(number, 100_000)).unwrap();
        }
        let all: u64 = lock(&store.index).segments.iter().map(|one| one.bytes).sum();
        assert!(all <= 3 << 20, "{all}");
        assert_eq!(store.newest(), Some(60));
        let files = fs::read_dir(&folder).unwrap().count();
        assert_eq!(files, 2 * lock(&store.index).segments.len(), "of frames and of their ways");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn who_reads_on_opens_no_file_anew() {
        let folder = folder("reader");
        let (mut writer, store) = writer(&folder, 1 << 30, &[]);
        (1..=20).for_each(|number| writer.write(&shot(number, 1000)).unwrap());
        let mut reader = StoreReader::new(store);
        assert_eq!(reader.read_from(1).unwrap().unwrap().0, 1);
        // What is open can be read though its name is gone.
        fs::remove_dir_all(&folder).unwrap();
        let numbers = (2..=20).map(|number| reader.read_from(number).unwrap().unwrap().0);
        assert!(numbers.eq(2..=20));
    }

    #[test]
    fn sealed_frames_are_unreadable_on_disk_and_read_back_with_their_key() {
        let folder = folder("sealed");
        let keys = [Key::new(&[1; 32]), Key::new(&[2; 32])];
        let (mut writer, store) = writer(&folder, 1 << 30, &keys[1..]);
        let text = b"a face in the crowd".repeat(20);
        let picture = Arc::new(Shot::new(10, Time::ZERO, OF, text.clone().into()));
        writer.write(&picture).unwrap();
        writer.write_way(&way(10)).unwrap();
        drop((writer, store));
        for entry in fs::read_dir(&folder).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            for secret in [&b"a face"[..], b"delivered", b"TGFRAME1"] {
                assert!(!bytes.windows(secret.len()).any(|part| part == secret));
            }
        }
        // The key was changed, and the old one is named beside it.
        let store = Store::open(&folder, 1 << 30, &keys).unwrap();
        assert_eq!(StoreReader::new(store).read_from(0).unwrap().unwrap(), (10, text.into()));
        let found = life(&folder, &keys, 10).unwrap();
        assert_eq!((found.taken.is_some(), found.ways), (true, vec![way(10)]));
        let error = Store::open(&folder, 1 << 30, &keys[..1]).unwrap_err();
        assert!(error.to_string().ends_with("no key of [log] opens it"), "{error}");
        assert!(life(&folder, &[], 10).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_became_of_a_frame_stands_beside_it_and_goes_with_its_file() {
        let folder = folder("ways");
        let (mut writer, _store) = writer(&folder, 3 << 20, &[]);
        for number in 1..=60 {
            writer.write(&shot(number, 100_000)).unwrap();
            writer.write_way(&way(number)).unwrap();
        }
        let late = FrameWay { flow: 8, rung: None, result: "late".into(), ..way(60) };
        writer.write_way(&late).unwrap();
        let newest = FrameLife { taken: Some(100_000), ways: vec![way(60), late] };
        assert_eq!(life(&folder, &[], 60).unwrap(), newest);
        assert_eq!(life(&folder, &[], 1).unwrap(), FrameLife::default());
        fs::remove_dir_all(&folder).unwrap();
    }
}
