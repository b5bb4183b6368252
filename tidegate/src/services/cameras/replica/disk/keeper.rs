//! The thread that keeps frames of cameras on disk.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use prost::Message;
use tidegate_frames::jpeg::JpegHeader;
use tidegate_log::Key;
use tidegate_types::account::{Account, Kind, Reservation};
use tidegate_types::units::Time;

use super::super::super::camera::Shot;
use super::super::super::store::Ring;
use super::super::super::ways::{FrameWay, RungName};
use super::super::super::wire::{CameraInfo, FrameMessage};
use super::aside::{look, set_aside};
use super::info::{INFO, read_info, write_info};
use super::{Known, ReplicaOptions, SetAside, Shared, Waiting, accuracy_of};

/// The folder beside those of the node's own cameras, whose names begin otherwise.
pub(super) const FOLDER: &str = "@replica";
/// What an entry is to the store: no picture that is ever shown.
const NO_HEAD: JpegHeader = JpegHeader { width: 1, height: 1, components: 1 };
/// How long a folder that could not be used is left alone: a full disk is none the fuller, nor is its log.
const PAUSE: Duration = Duration::from_secs(1);
/// Cameras: of more the one that has been away longest goes.
const CAMERAS_MAX: usize = 4096;
/// Bytes that remembering a frame takes, about.
const EACH: usize = 128;

/// See the file's header.
#[derive(Debug)]
pub(super) struct Keeper {
    directory: PathBuf,
    options: ReplicaOptions,
    account: Account,
    shared: Arc<Shared>,
    cameras: BTreeMap<String, OnDisk>,
    /// Bytes of all.
    bytes: u64,
    /// Frames that were written, and cameras that were found.
    turn: u64,
    /// No folder is made, changed or removed before.
    pause: Option<Instant>,
    is_failing: bool,
}

/// One camera's.
#[derive(Debug)]
struct OnDisk {
    ring: Ring,
    folder: PathBuf,
    /// Frames by the numbers of their entries.
    entries: BTreeMap<u64, u64>,
    last: u64,
    /// When it was written last.
    turn: u64,
    /// For what is remembered.
    room: Reservation,
}

/// What the thread does next.
enum Job {
    Tell(String, Option<CameraInfo>),
    Keep(Box<Waiting>),
}

impl Keeper {
    pub(super) fn open(
        options: ReplicaOptions,
        account: Account,
        shared: Arc<Shared>,
    ) -> io::Result<(Self, Vec<CameraInfo>)> {
        let directory = options.directory.join(FOLDER);
        fs::create_dir_all(&directory)?;
        let (cameras, pause, is_failing) = (BTreeMap::new(), None, false);
        let (bytes, turn) = (0, 0);
        let mut keeper =
            Keeper { directory, options, account, shared, cameras, bytes, turn, pause, is_failing };
        let (mut found, mut aside) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&keeper.directory)? {
            let folder = entry?.path();
            if !is_of_camera(&folder) {
                aside.extend(look(folder)?);
                continue;
            }
            // Without it nobody knows who may see the camera. It goes first where all goes, and comes first.
            let Some(info) = read_info(&folder.join(INFO), &keeper.options.keys)? else {
                if folder.join(INFO).exists() {
                    aside.extend(look(set_aside(&folder)?)?);
                } else {
                    tracing::warn!("{}: no frames of any camera: it is removed", folder.display());
                    fs::remove_dir_all(&folder)?;
                }
                continue;
            };
            let one = OnDisk::open(folder, &keeper.options, &keeper.account)?;
            found.push((one.ring.written_at().unwrap_or(SystemTime::UNIX_EPOCH), info, one));
        }
        aside.sort_by_key(|&(written_at, _)| written_at);
        keeper.bytes += aside.iter().map(|(_, one)| one.bytes).sum::<u64>();
        keeper.shared.lock().aside = aside.into_iter().map(|(_, one)| one).collect();
        found.sort_by_key(|&(written_at, ..)| written_at);
        let mut infos = Vec::new();
        for (_, info, mut one) in found {
            keeper.turn += 1;
            one.turn = keeper.turn;
            keeper.bytes += one.ring.bytes();
            let known = one.find(&keeper.options.keys)?;
            let newest_unix_ns = known.frames.last_key_value().map_or(0, |(&frame, _)| frame);
            keeper.shared.lock().known.insert(info.name.clone(), known);
            keeper.cameras.insert(info.name.clone(), one);
            infos.push(CameraInfo { newest_unix_ns, ..info });
        }
        keeper.trim();
        Ok((keeper, infos))
    }

    pub(super) fn run(mut self) {
        while let Some(job) = self.next() {
            match job {
                Job::Keep(waiting) => self.keep(*waiting),
                Job::Tell(camera, told) => self.tell(camera, told),
            }
            self.shared.lock().present = None;
            self.shared.changed.notify_all();
        }
    }

    /// Waits for something to do; `None`: nobody is there any more, and all is done that could be.
    fn next(&mut self) -> Option<Job> {
        let shared = self.shared.clone();
        let mut work = shared.lock();
        loop {
            let now = Instant::now();
            let pause = self.pause.filter(|at| *at > now);
            if pause.is_none()
                && let Some((camera, told)) = work.told.pop_first()
            {
                work.present = Some(camera.clone());
                return Some(Job::Tell(camera, told));
            }
            let is_told = |one: &Waiting| work.told.contains_key(&one.frame.camera);
            // What was told of a camera goes before its frames.
            if let Some(at) = work.frames.iter().position(|one| !is_told(one))
                && let Some(waiting) = work.frames.remove(at)
            {
                work.present = Some(waiting.frame.camera.clone());
                return Some(Job::Keep(Box::new(waiting)));
            }
            if work.is_over {
                return None;
            }
            work = match pause.filter(|_| !work.told.is_empty()) {
                Some(at) => {
                    let waited = shared.changed.wait_timeout(work, at - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => shared.changed.wait(work).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Notes what became of a folder. Answers whether it went well.
    fn note(&mut self, done: io::Result<()>) -> bool {
        let was_failing = std::mem::replace(&mut self.is_failing, done.is_err());
        self.pause = done.is_err().then(|| Instant::now() + PAUSE);
        let Err(error) = done else { return true };
        if !was_failing {
            tracing::error!("frames of cameras of other nodes cannot be stored: {error}");
        }
        false
    }

    fn tell(&mut self, camera: String, told: Option<CameraInfo>) {
        while told.is_none() && self.drop_aside(Some(&camera)) {}
        let done = match (&told, self.cameras.get(&camera)) {
            (_, None) => return,
            (Some(info), Some(one)) => write_info(&one.folder, &self.options.keys, info),
            (None, Some(one)) => remove_camera(&one.folder),
        };
        if !self.note(done) {
            // Again in a moment, unless something else was told meanwhile.
            self.shared.lock().told.entry(camera).or_insert(told);
        } else if told.is_none()
            && let Some(one) = self.cameras.remove(&camera)
        {
            self.bytes -= one.ring.bytes();
        }
    }

    fn keep(&mut self, Waiting { frame, info, .. }: Waiting) {
        if !self.cameras.contains_key(&frame.camera) {
            let is_pause = self.pause.is_some_and(|at| at > Instant::now());
            let Some(info) = info.filter(|_| !is_pause) else { return };
            let opened = self.begin(&info);
            if !self.note(opened) {
                return;
            }
        }
        let Some(one) = self.cameras.get_mut(&frame.camera) else { return };
        self.turn += 1;
        one.turn = self.turn;
        self.bytes -= one.ring.bytes();
        one.keep(&frame, self.options.each, &self.shared);
        self.bytes += one.ring.bytes();
        self.trim();
    }

    fn begin(&mut self, info: &CameraInfo) -> io::Result<()> {
        while self.cameras.len() >= CAMERAS_MAX && self.drop_oldest(true) {}
        let folder = self.directory.join(folder_of(&info.name));
        fs::create_dir_all(&folder)?;
        write_info(&folder, &self.options.keys, info)?;
        let mut one = OnDisk::open(folder, &self.options, &self.account)?;
        let known = one.find(&self.options.keys)?;
        self.shared.lock().known.insert(info.name.clone(), known);
        self.bytes += one.ring.bytes();
        self.cameras.insert(info.name.clone(), one);
        Ok(())
    }

    /// What is more than all may have goes: first what nobody can see.
    fn trim(&mut self) {
        while self.bytes > self.options.all && (self.drop_aside(None) || self.drop_oldest(false)) {}
    }

    /// The oldest folder goes that was set aside, of this camera or of any. Answers whether it did.
    fn drop_aside(&mut self, camera: Option<&str>) -> bool {
        let mut work = self.shared.lock();
        let is_its = |one: &&SetAside| camera.is_none_or(|camera| one.camera == *camera);
        let Some(one) = work.aside.iter().find(is_its).cloned() else { return false };
        work.aside.retain(|other| other.folder != one.folder);
        drop(work);
        self.bytes -= one.bytes;
        tracing::warn!("{} is removed: its frames cannot be read", one.folder.display());
        let done = remove_camera(&one.folder);
        // One that cannot be removed is found again at the next start.
        done.is_ok() || self.note(done)
    }

    /// Of the camera that has been away longest the oldest file goes, or all. Answers whether it did.
    fn drop_oldest(&mut self, is_all: bool) -> bool {
        let longest = self.cameras.iter_mut().min_by_key(|(_, one)| one.turn);
        let Some((camera, one)) = longest else { return false };
        let camera = camera.clone();
        let before = one.ring.bytes();
        let dropped = if is_all { Ok(false) } else { one.ring.drop_oldest() };
        self.bytes -= before - if is_all { 0 } else { one.ring.bytes() };
        let done = match dropped {
            Ok(true) => {
                one.forget_gone(&camera, &self.shared);
                Ok(())
            }
            Ok(false) => {
                self.shared.lock().known.remove(&camera);
                self.cameras.remove(&camera).map_or(Ok(()), |one| remove_camera(&one.folder))
            }
            Err(error) => Err(error),
        };
        // That it went well says nothing of folders that could not be made.
        done.is_ok() || self.note(done)
    }
}

impl OnDisk {
    fn open(folder: PathBuf, options: &ReplicaOptions, account: &Account) -> io::Result<Self> {
        let ring = Ring::open(&folder, options.each, &options.keys)?;
        let last = ring.newest().unwrap_or(0);
        let room = account.empty(Kind::Frames);
        Ok(OnDisk { ring, folder, entries: BTreeMap::new(), last, turn: 0, room })
    }

    /// Which frames its entries are: as is said beside them, or as they say themselves. Those for which there is no room are
    /// not found.
    fn find(&mut self, keys: &[Key]) -> io::Result<Known> {
        let mut known = Known { frames: BTreeMap::new(), gone: 0, reader: self.ring.reader() };
        let said = self.ring.ways(keys).into_iter();
        let said: BTreeMap<u64, (u64, u16)> =
            said.map(|way| (way.flow, (way.frame, way.rung.map_or(0, |of| of.accuracy)))).collect();
        for entry in self.ring.numbers() {
            let told = match said.get(&entry) {
                Some(told) => Some(*told),
                None => self.ring.reader().read_from(entry)?.and_then(|(_, bytes)| {
                    // What is damaged is nobody's frame.
                    let frame = FrameMessage::decode(bytes).ok()?;
                    Some((frame.frame, accuracy_of(&frame)))
                }),
            };
            if let Some((frame, accuracy)) = told.filter(|_| self.room.grow(EACH).is_ok()) {
                self.entries.insert(entry, frame);
                if let Some((before, _)) = known.frames.insert(frame, (entry, accuracy)) {
                    self.entries.remove(&before);
                    self.room.shrink(EACH);
                }
            }
        }
        Ok(known)
    }

    fn keep(&mut self, frame: &FrameMessage, room: u64, shared: &Shared) {
        let name = &frame.camera;
        let size = frame.encoded_len() as u64;
        {
            let work = shared.lock();
            let Some(known) = work.known.get(name) else { return };
            let is_full = self.ring.bytes() + size > room;
            // One that is older than all makes no room for itself.
            if !known.wants(frame, is_full) {
                return;
            }
        }
        if self.room.grow(EACH).is_err() {
            return;
        }
        let (entry, accuracy) = (self.last + 1, accuracy_of(frame));
        let bytes = frame.encode_to_vec().into();
        let shot = Shot::new(entry, Time::ZERO, NO_HEAD, bytes);
        if !self.ring.write(shot, said(frame, entry)) {
            self.room.shrink(EACH);
            self.forget_gone(name, shared);
            return;
        }
        self.last = entry;
        self.entries.insert(entry, frame.frame);
        if let Some(known) = shared.lock().known.get_mut(name)
            && let Some((before, _)) = known.frames.insert(frame.frame, (entry, accuracy))
        {
            self.entries.remove(&before);
            self.room.shrink(EACH);
        }
        self.forget_gone(name, shared);
    }

    /// What was in files that are gone is not found any more.
    fn forget_gone(&mut self, camera: &str, shared: &Shared) {
        let oldest = self.ring.oldest().unwrap_or(u64::MAX);
        let mut work = shared.lock();
        let mut known = work.known.get_mut(camera);
        while let Some(first) = self.entries.first_entry().filter(|first| *first.key() < oldest) {
            let frame = first.remove();
            self.room.shrink(EACH);
            if let Some(known) = &mut known {
                known.gone = known.gone.max(frame);
                known.frames.remove(&frame);
            }
        }
    }
}

/// What stands beside an entry: which frame it is, and how good.
fn said(frame: &FrameMessage, entry: u64) -> FrameWay {
    let (eighths, quality) = (frame.eighths as u8, frame.quality as u8);
    let rung = RungName { eighths, quality, is_gray: frame.is_gray, accuracy: accuracy_of(frame) };
    let (frame, bytes) = (frame.frame, frame.jpeg.len() as u64);
    let (left_us, ended_us, result) = (0, 0, "kept".into());
    FrameWay { frame, flow: entry, rung: Some(rung), bytes, left_us, ended_us, result }
}

fn is_of_camera(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str());
    folder.is_dir() && name.is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

pub(super) fn folder_of(camera: &str) -> String {
    camera.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// All of a camera goes; where that is broken off, the next start goes on with it.
fn remove_camera(folder: &Path) -> io::Result<()> {
    let is_gone = |done: io::Result<()>| match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    is_gone(fs::remove_file(folder.join(INFO)))?;
    is_gone(fs::remove_dir_all(folder))
}
