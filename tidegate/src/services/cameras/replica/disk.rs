//! What an edge server keeps on disk of the frames that it was sent: a camera that goes leaves them here, also where the edge
//! server is restarted. A folder a camera, with a ring of files as the camera's own node has one; an entry is a frame as it came.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prost::Message;
use tidegate_frames::archive::scan;
use tidegate_frames::jpeg::JpegHeader;
use tidegate_log::Key;
use tidegate_types::units::Time;

use super::super::camera::Shot;
use super::super::sealed::FileKey;
use super::super::store::{Store, StoreOptions, StoreReader};
use super::super::wire::{CameraInfo, FrameMessage};

/// The folder beside those of the node's own cameras, whose names begin otherwise.
const FOLDER: &str = "@replica";
/// What is known of a camera, in its folder.
const INFO: &str = "camera";
/// Longer names of cameras are no names of folders: two digits a byte.
const NAME_MAX: usize = 100;
/// What an entry is to the store: no picture that is ever shown.
const NO_HEAD: JpegHeader = JpegHeader { width: 1, height: 1, components: 1 };

/// Every camera that left frames here.
#[derive(Debug)]
pub(super) struct ReplicaDisk {
    directory: PathBuf,
    room: u64,
    keys: Vec<Key>,
    cameras: BTreeMap<String, OnDisk>,
}

/// One camera's.
#[derive(Debug)]
struct OnDisk {
    store: Store,
    folder: PathBuf,
    /// As it is on disk.
    info: CameraInfo,
    /// Entries by the numbers of their frames, with their accuracy, and frames by the numbers of their entries.
    entries: BTreeMap<u64, (u64, f64)>,
    frames: BTreeMap<u64, u64>,
    last: u64,
}

/// A frame on disk, to be read without anybody waiting.
#[derive(Debug)]
pub(in super::super) struct StoredFrame {
    store: Store,
    entry: u64,
}

impl StoredFrame {
    /// The frame; `None` where it has gone since.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub(in super::super) fn read(&self) -> io::Result<Option<FrameMessage>> {
        let read = StoreReader::new(self.store.clone()).read_from(self.entry)?;
        let Some((_, bytes)) = read.filter(|(entry, _)| *entry == self.entry) else {
            return Ok(None);
        };
        FrameMessage::decode(bytes).map(Some).map_err(io::Error::other)
    }
}

impl ReplicaDisk {
    /// Opens what is there. Answers it, and what is known of the cameras.
    ///
    /// # Errors
    /// A folder or a file cannot be used, or no key opens it.
    pub(super) fn open(options: StoreOptions) -> io::Result<(Self, Vec<CameraInfo>)> {
        let StoreOptions { directory, room, keys } = options;
        let directory = directory.join(FOLDER);
        fs::create_dir_all(&directory)?;
        let mut disk = ReplicaDisk { directory, room, keys, cameras: BTreeMap::new() };
        let mut infos = Vec::new();
        for entry in fs::read_dir(&disk.directory)? {
            let folder = entry?.path();
            // Without it nobody knows who may see the camera.
            let Some(info) = read_info(&folder.join(INFO), &disk.keys)? else { continue };
            let mut one = OnDisk::open(folder, room, &disk.keys, info)?;
            one.find()?;
            let newest_unix_ns = one.entries.last_key_value().map_or(0, |(&frame, _)| frame);
            infos.push(CameraInfo { newest_unix_ns, ..one.info.clone() });
            disk.cameras.insert(one.info.name.clone(), one);
        }
        Ok((disk, infos))
    }

    /// A frame came of a camera of which so much is known. Of one that is there the better one stays.
    pub(super) fn keep(&mut self, frame: &FrameMessage, info: &CameraInfo) -> io::Result<()> {
        let one = match self.cameras.get_mut(&frame.camera) {
            Some(one) => one,
            None if frame.camera.len() > NAME_MAX => return Ok(()),
            None => {
                let folder = self.directory.join(folder_of(&frame.camera));
                fs::create_dir_all(&folder)?;
                write_info(&folder.join(INFO), &self.keys, &lasting(info))?;
                let one = OnDisk::open(folder, self.room, &self.keys, lasting(info))?;
                self.cameras.entry(frame.camera.clone()).or_insert(one)
            }
        };
        one.keep(frame);
        Ok(())
    }

    /// What is known of a camera has changed.
    pub(super) fn tell(&mut self, info: &CameraInfo) -> io::Result<()> {
        let Some(one) = self.cameras.get_mut(&info.name) else { return Ok(()) };
        let info = lasting(info);
        if one.info != info {
            write_info(&one.folder.join(INFO), &self.keys, &info)?;
            one.info = info;
        }
        Ok(())
    }

    /// The first frame of a camera from there on, by number.
    pub(super) fn find(&self, camera: &str, from: u64) -> Option<(u64, StoredFrame)> {
        let one = self.cameras.get(camera)?;
        let oldest = one.store.oldest()?;
        let mut kept = one.entries.range(from..).filter(|(_, (entry, _))| *entry >= oldest);
        let (&frame, &(entry, _)) = kept.next()?;
        Some((frame, StoredFrame { store: one.store.clone(), entry }))
    }

    /// A camera is no more.
    pub(super) fn forget(&mut self, camera: &str) -> io::Result<()> {
        self.cameras.remove(camera).map_or(Ok(()), |one| fs::remove_dir_all(one.folder))
    }
}

impl OnDisk {
    fn open(folder: PathBuf, room: u64, keys: &[Key], info: CameraInfo) -> io::Result<Self> {
        let store = Store::open(&folder, room, keys)?;
        let last = store.newest().unwrap_or(0);
        let (entries, frames) = (BTreeMap::new(), BTreeMap::new());
        Ok(OnDisk { store, folder, info, entries, frames, last })
    }

    /// Reads which frames its entries are.
    fn find(&mut self) -> io::Result<()> {
        let mut reader = StoreReader::new(self.store.clone());
        let mut next = 0;
        while let Some((entry, bytes)) = reader.read_from(next)? {
            // What is damaged is nobody's frame.
            if let Ok(frame) = FrameMessage::decode(bytes) {
                self.note(entry, &frame);
            }
            next = entry + 1;
        }
        Ok(())
    }

    fn note(&mut self, entry: u64, frame: &FrameMessage) {
        if let Some((before, _)) = self.entries.insert(frame.frame, (entry, frame.accuracy)) {
            self.frames.remove(&before);
        }
        self.frames.insert(entry, frame.frame);
    }

    fn keep(&mut self, frame: &FrameMessage) {
        let known = self.entries.get(&frame.frame);
        if known.is_some_and(|(_, accuracy)| *accuracy >= frame.accuracy) {
            return;
        }
        self.last += 1;
        let bytes = frame.encode_to_vec().into();
        self.store.append(Arc::new(Shot::new(self.last, Time::ZERO, NO_HEAD, bytes)));
        self.note(self.last, frame);
        let oldest = self.store.oldest().unwrap_or(0);
        while let Some(first) = self.frames.first_entry().filter(|first| *first.key() < oldest) {
            self.entries.remove(&first.remove());
        }
    }
}

/// What stays true of a camera that is away.
fn lasting(info: &CameraInfo) -> CameraInfo {
    CameraInfo {
        is_online: false,
        frames_per_second: 0.0,
        newest_unix_ns: 0,
        oldest_unix_ns: 0,
        ..info.clone()
    }
}

fn folder_of(camera: &str) -> String {
    camera.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// `None` where there is none, or one whose writing was broken off.
fn read_info(path: &Path, keys: &[Key]) -> io::Result<Option<CameraInfo>> {
    let content = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        content => content?,
    };
    let (entries, _) = scan(&content);
    let Some(first) = entries.first() else { return Ok(None) };
    let of =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let key = FileKey::find(keys, &content, first).map_err(of)?;
    let bytes = key.read(&File::open(path)?, first).map_err(of)?;
    CameraInfo::decode(bytes).map(Some).map_err(io::Error::other)
}

fn write_info(path: &Path, keys: &[Key], info: &CameraInfo) -> io::Result<()> {
    let written = path.with_extension("new");
    let mut file = File::create(&written)?;
    let (key, _) = FileKey::begin(keys, &mut file)?;
    io::Write::write_all(&mut file, &key.entry(1, &info.encode_to_vec())?)?;
    fs::rename(&written, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(name: &str, keys: Vec<Key>) -> StoreOptions {
        let name = format!("tidegate-replica-{name}-{}", std::process::id());
        StoreOptions { directory: std::env::temp_dir().join(name), room: 1 << 20, keys }
    }

    fn frame(number: u64, accuracy: f64) -> FrameMessage {
        let jpeg = vec![number as u8; 1000].into();
        FrameMessage { camera: "a/b".into(), frame: number, accuracy, jpeg, ..Default::default() }
    }

    fn info() -> CameraInfo {
        let (name, subscribers) = ("a/b".into(), vec!["app".into()]);
        CameraInfo { name, node: "n".into(), is_online: true, subscribers, ..Default::default() }
    }

    /// Waits until the writer has written so many entries.
    fn settled(disk: &ReplicaDisk, entries: u64) {
        while disk.cameras["a/b"].store.newest() != Some(entries) {
            std::thread::yield_now();
        }
    }

    fn numbers(disk: &ReplicaDisk) -> Vec<(u64, f64)> {
        let mut found = Vec::new();
        let mut next = 0;
        while let Some((number, stored)) = disk.find("a/b", next) {
            let frame = stored.read().unwrap().unwrap();
            assert_eq!((frame.frame, frame.jpeg.len()), (number, 1000));
            found.push((number, frame.accuracy));
            next = number + 1;
        }
        found
    }

    #[test]
    fn frames_outlive_the_process_sealed_each_at_its_best() {
        let options = options("restart", vec![Key::new(&[7; 32])]);
        let _ = fs::remove_dir_all(&options.directory);
        let (mut disk, none) = ReplicaDisk::open(options.clone()).unwrap();
        assert!(none.is_empty());
        // Out of order, and one of them twice.
        for (number, accuracy) in [(3, 0.9), (1, 0.9), (2, 0.5), (2, 0.8), (2, 0.6)] {
            disk.keep(&frame(number, accuracy), &info()).unwrap();
        }
        settled(&disk, 4);
        disk.tell(&CameraInfo { subscribers: vec!["other".into()], ..info() }).unwrap();
        drop(disk);
        let (mut disk, infos) = ReplicaDisk::open(options.clone()).unwrap();
        let told = (&infos[0].subscribers[..], infos[0].newest_unix_ns, infos[0].is_online);
        assert_eq!(told, (&["other".to_owned()][..], 3, false));
        assert_eq!(numbers(&disk), [(1, 0.9), (2, 0.8), (3, 0.9)]);
        disk.keep(&frame(4, 0.9), &info()).unwrap();
        settled(&disk, 5);
        assert_eq!(numbers(&disk).len(), 4);
        let other = StoreOptions { keys: vec![Key::new(&[8; 32])], ..options.clone() };
        let refused = ReplicaDisk::open(other).unwrap_err();
        assert!(refused.to_string().ends_with("no key of [log] opens it"), "{refused}");
        let folder = options.directory.join(FOLDER).join(folder_of("a/b"));
        for entry in fs::read_dir(&folder).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            let shows = |secret: &[u8]| bytes.windows(secret.len()).any(|part| part == secret);
            assert!(!shows(b"other") && !shows(&[3; 20]), "it is sealed");
        }
        disk.forget("a/b").unwrap();
        assert!(disk.find("a/b", 0).is_none() && !folder.exists());
        fs::remove_dir_all(&options.directory).unwrap();
    }

    #[test]
    fn the_oldest_files_go_and_what_was_in_them_is_not_found() {
        let options = options("ring", Vec::new());
        let _ = fs::remove_dir_all(&options.directory);
        let (mut disk, _) = ReplicaDisk::open(options.clone()).unwrap();
        for number in 1..=3000 {
            disk.keep(&frame(number, 0.9), &info()).unwrap();
            settled(&disk, number);
        }
        let kept = numbers(&disk);
        assert!(kept.len() < 1100 && kept.last() == Some(&(3000, 0.9)), "{}", kept.len());
        assert!(disk.cameras["a/b"].entries.len() < 1100);
        fs::remove_dir_all(&options.directory).unwrap();
    }
}
