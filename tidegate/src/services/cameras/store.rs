//! A camera's frames on disk, and what became of each: a ring of files, of which the oldest goes. One thread writes.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tidegate_frames::archive::{ArchivedFrame, is_torn, scan};
use tidegate_log::Key;

pub(super) use self::ring::Ring;
pub(super) use self::writer::UNREADABLE;
use self::writer::{Writer, remove, set_aside};
use super::camera::Shot;
use super::sealed::FileKey;
use super::ways::{FRAMES, FrameWay, WAYS};

mod ring;
mod writer;

/// Frames and ways that may wait for the disk; one that finds no room is not stored.
const WAITING_MAX: usize = 64;
/// Of these, ways: flows that end together leave room for frames.
const WAYS_MAX: usize = WAITING_MAX / 2;

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
    /// Ways that are not kept.
    lost_ways: u64,
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
    /// Ways that wait for the disk.
    ways: Arc<AtomicUsize>,
}

fn lock(index: &Mutex<Index>) -> MutexGuard<'_, Index> {
    index.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Index {
    /// What is in a folder, which is made if it is missing.
    fn open(folder: &Path, keys: &[Key]) -> io::Result<Index> {
        fs::create_dir_all(folder)?;
        let mut paths: Vec<PathBuf> =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        paths.sort();
        let is = |path: &&PathBuf, kind| path.extension().is_some_and(|of| of == kind);
        for path in paths.iter().filter(|path| is(path, WAYS)) {
            if !path.with_extension(FRAMES).exists() {
                fs::remove_file(path)?;
            }
        }
        let mut index = Index::default();
        for path in paths.iter().filter(|path| is(path, FRAMES)) {
            let path = path.clone();
            let content = fs::read(&path)?;
            let (frames, right) = scan(&content);
            let Some(first) = frames.first() else {
                match is_torn(&content) {
                    true => remove(&path)?,
                    false => set_aside(&path)?,
                }
                continue;
            };
            let of = |error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            };
            let key = FileKey::find(keys, &content, first).map_err(of)?;
            let ways = fs::metadata(path.with_extension(WAYS)).map_or(0, |ways| ways.len());
            index.segments.push_back(Segment { path, bytes: right as u64 + ways, frames, key });
        }
        Ok(index)
    }

    /// Number of the oldest frame.
    fn oldest(&self) -> Option<u64> {
        self.segments.front().and_then(|segment| segment.frames.first()).map(|one| one.number)
    }

    /// Number of the newest frame.
    fn newest(&self) -> Option<u64> {
        self.segments.back().and_then(|segment| segment.frames.last()).map(|one| one.number)
    }

    /// Where the first frame is whose number is at least this.
    fn find(&self, number: u64) -> Option<(PathBuf, FileKey, ArchivedFrame)> {
        let has =
            |segment: &&Segment| segment.frames.last().is_some_and(|last| last.number >= number);
        let segment = self.segments.iter().find(has)?;
        let at = segment.frames.partition_point(|stored| stored.number < number);
        Some((segment.path.clone(), segment.key.clone(), segment.frames[at]))
    }
}

impl Store {
    /// Opens a camera's folder, which is made if it is missing, with every whole frame that is there.
    ///
    /// # Errors
    /// The folder or a file cannot be used, or no key opens one.
    pub(super) fn open(folder: &Path, room: u64, keys: &[Key]) -> io::Result<Store> {
        let index = Arc::new(Mutex::new(Index::open(folder, keys)?));
        let (sender, work) = sync_channel(WAITING_MAX);
        let ways = Arc::new(AtomicUsize::new(0));
        let writer = Writer::new(folder, room, keys, index.clone(), ways.clone());
        std::thread::Builder::new().name("frames".into()).spawn(move || writer.run(&work))?;
        Ok(Store { index, sender, ways })
    }

    /// Stores a frame soon. Never waits.
    pub(super) fn append(&self, shot: Arc<Shot>) {
        self.give(Work::Frame(shot));
    }

    /// Stores what became of a frame. Never waits.
    pub(super) fn note(&self, way: FrameWay) {
        if self.ways.fetch_add(1, Ordering::Relaxed) < WAYS_MAX {
            return self.give(Work::Way(way));
        }
        self.ways.fetch_sub(1, Ordering::Relaxed);
        self.lose_way();
    }

    fn give(&self, work: Work) {
        match self.sender.try_send(work) {
            Err(TrySendError::Full(Work::Frame(_))) => lock(&self.index).missed += 1,
            Err(TrySendError::Full(Work::Way(_))) => {
                self.ways.fetch_sub(1, Ordering::Relaxed);
                self.lose_way();
            }
            Err(TrySendError::Disconnected(_)) | Ok(()) => {}
        }
    }

    fn lose_way(&self) {
        let mut index = lock(&self.index);
        index.lost_ways += 1;
        let lost = index.lost_ways;
        drop(index);
        if lost.is_power_of_two() {
            tracing::warn!(
                "what became of {lost} frames of a camera is not kept: the disk is slow"
            );
        }
    }

    /// Number of the oldest frame.
    pub(super) fn oldest(&self) -> Option<u64> {
        lock(&self.index).oldest()
    }

    /// Number of the newest frame.
    pub(super) fn newest(&self) -> Option<u64> {
        lock(&self.index).newest()
    }

    /// Frames that could not be stored.
    pub(super) fn missed(&self) -> u64 {
        lock(&self.index).missed
    }
}

/// Who reads frames one behind the other: a file is opened once.
#[derive(Debug)]
pub(super) struct StoreReader {
    index: Arc<Mutex<Index>>,
    open: Option<(PathBuf, File)>,
}

impl StoreReader {
    /// Of this store.
    pub(super) fn new(store: Store) -> Self {
        StoreReader { index: store.index, open: None }
    }

    /// Another one of the same.
    pub(super) fn another(&self) -> StoreReader {
        StoreReader { index: self.index.clone(), open: None }
    }

    /// Whether both are of the same store.
    pub(super) fn is_of(&self, other: &StoreReader) -> bool {
        Arc::ptr_eq(&self.index, &other.index)
    }

    /// The first frame whose number is at least this.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub(super) fn read_from(&mut self, number: u64) -> io::Result<Option<(u64, Bytes)>> {
        let Some((path, key, at)) = lock(&self.index).find(number) else { return Ok(None) };
        if self.open.as_ref().is_none_or(|(open, _)| *open != path) {
            let file = File::open(&path)?;
            self.open = Some((path, file));
        }
        let Some((_, file)) = &self.open else { return Ok(None) };
        Ok(Some((at.number, key.read(file, &at)?)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::time::Instant;

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
        (Writer::new(folder, room, keys, store.index.clone(), store.ways.clone()), store)
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
        assert!((1..=3).all(|number| writer.write(&shot(number * 10, 1000)).unwrap()));
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
        assert!((1..=20).all(|number| writer.write(&shot(number, 1000)).unwrap()));
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

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_cannot_be_read_is_set_aside_and_only_what_was_broken_off_removed() {
        let folder = folder("damaged");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("1.frames"), b"TGFRAME9 of a later version").unwrap();
        fs::write(folder.join("1.ways"), b"TGFRAME9").unwrap();
        fs::write(folder.join("2.frames"), b"TGFRA").unwrap();
        fs::write(folder.join("2.ways"), b"").unwrap();
        fs::write(folder.join("3.ways"), b"TGFRAME1").unwrap();
        Store::open(&folder, 1 << 30, &[]).unwrap();
        assert_eq!(names(&folder), ["1.frames.unreadable", "1.ways.unreadable"]);
        assert_eq!(life(&folder, &[], 1).unwrap(), FrameLife::default());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_full_disk_gets_no_file_a_frame() {
        let folder = folder("full");
        let (mut writer, store) = writer(&folder, 1 << 30, &[]);
        let fill = |writer: &mut Writer| {
            writer.file = Some(OpenOptions::new().write(true).open("/dev/full").unwrap());
        };
        writer.begin(1).unwrap();
        fill(&mut writer);
        (1..=3).for_each(|number| writer.take(Work::Frame(shot(number, 100))));
        assert!(names(&folder).is_empty() && lock(&store.index).segments.is_empty());
        assert_eq!((store.missed(), store.newest(), writer.is_failing), (3, None, true));
        // A second later.
        writer.begins_at = Some(Instant::now());
        writer.take(Work::Frame(shot(4, 100)));
        assert_eq!((store.newest(), writer.is_failing), (Some(4), false));
        // A file that has a frame stays.
        fill(&mut writer);
        writer.take(Work::Frame(shot(5, 100)));
        assert_eq!((store.newest(), names(&folder).len()), (Some(4), 2));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn ways_leave_room_for_frames_and_those_that_are_lost_count() {
        let (sender, work) = sync_channel(WAITING_MAX);
        let store = Store { index: Arc::default(), sender, ways: Arc::default() };
        (0..100).for_each(|number| store.note(way(number)));
        (0..40).for_each(|number| store.append(shot(number, 1)));
        assert_eq!(work.try_iter().count(), WAITING_MAX);
        let lost = lock(&store.index).lost_ways;
        assert_eq!((lost, store.missed()), (100 - WAYS_MAX as u64, 8));
    }
}
