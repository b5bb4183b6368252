//! What an edge server keeps on disk of the frames that it was sent: a camera that goes leaves them here, also where the edge
//! server is restarted. A folder a camera, with a ring of files as the camera's own node has one; an entry is a frame as it
//! came. One thread does all that touches the disk; who holds the shelf's lock waits for none of it.

mod aside;
mod info;
mod keeper;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use prost::Message;
use tidegate_log::Key;
use tidegate_types::account::{Account, Kind, Level, Reservation};

pub use self::aside::SetAside;
use self::keeper::Keeper;
use super::super::store::StoreReader;
use super::super::wire::{CameraInfo, FrameMessage};

/// Longer names of cameras are no names of folders: two digits a byte.
const NAME_MAX: usize = 100;
/// Frames that may wait for the disk; one that finds no room is not stored.
const WAITING_MAX: usize = 64;
/// Bytes of these.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Where frames of other nodes' cameras are kept.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// A folder, in which they have one.
    pub directory: PathBuf,
    /// Bytes of each camera's.
    pub each: u64,
    /// Bytes of all: of the camera that has been away longest the oldest ones go.
    pub all: u64,
    /// What seals them: the first; each of them opens. None: nothing is sealed.
    pub keys: Vec<Key>,
}

/// Every camera that left frames here.
#[derive(Debug)]
pub(in super::super) struct ReplicaDisk {
    shared: Arc<Shared>,
    account: Account,
}

/// What the thread and those before it have in common.
#[derive(Debug, Default)]
struct Shared {
    desk: Mutex<Work>,
    /// Something is to be done, or has been.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Work {
    frames: VecDeque<Waiting>,
    /// What has changed of cameras that are on disk; `None`: all that is there goes. It goes before frames.
    told: BTreeMap<String, Option<CameraInfo>>,
    /// The camera whose frame is written at the moment.
    present: Option<String>,
    known: BTreeMap<String, Known>,
    /// Folders of which nothing can be read, the oldest first.
    aside: Vec<SetAside>,
    is_over: bool,
}

/// A frame that waits, and what its camera was when it came, for one that is new.
#[derive(Debug)]
struct Waiting {
    frame: FrameMessage,
    info: Option<CameraInfo>,
    _room: Reservation,
}

/// What is on disk of a camera.
#[derive(Debug)]
struct Known {
    /// Entries by the numbers of their frames, with their accuracy in thousandths.
    frames: BTreeMap<u64, (u64, u16)>,
    /// The newest frame that went for want of room: no older one comes back.
    gone: u64,
    reader: StoreReader,
}

/// A frame on disk, to be read without anybody waiting.
#[derive(Debug)]
pub(in super::super) struct StoredFrame {
    reader: StoreReader,
    entry: u64,
}

impl StoredFrame {
    /// The frame; `None` where it has gone since. Who reads on hands over what read the last one: its file is open.
    ///
    /// # Errors
    /// Its file cannot be read.
    pub(in super::super) fn read(
        self,
        last: &mut Option<StoreReader>,
    ) -> io::Result<Option<FrameMessage>> {
        if last.as_ref().is_none_or(|last| !last.is_of(&self.reader)) {
            *last = Some(self.reader);
        }
        let Some(reader) = last else { return Ok(None) };
        let read = match reader.read_from(self.entry) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read?,
        };
        let Some((_, bytes)) = read.filter(|(entry, _)| *entry == self.entry) else {
            return Ok(None);
        };
        let frame = FrameMessage::decode(bytes).map_err(io::Error::other)?;
        Ok(Some(FrameMessage { skipped: 0, is_late: false, ..frame }))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplicaDisk {
    /// Opens what is there: reads all of it. Answers it, and what is known of the cameras. What is remembered of each frame is
    /// on this account.
    ///
    /// # Errors
    /// A folder or a file cannot be used, or no key opens it.
    pub(in super::super) fn open(
        options: ReplicaOptions,
        account: &Account,
    ) -> io::Result<(Self, Vec<CameraInfo>)> {
        let shared = Arc::<Shared>::default();
        let (keeper, infos) = Keeper::open(options, account.clone(), shared.clone())?;
        std::thread::Builder::new().name("replica".into()).spawn(move || keeper.run())?;
        let account = account.share(Level::Kind, WAITING_BYTES_MAX);
        Ok((ReplicaDisk { shared, account }, infos))
    }

    /// A frame came of a camera of which so much is known. Of one that is there the better one stays; of a replay none that is
    /// older than all that are there. Never waits.
    pub(super) fn keep(&self, frame: &FrameMessage, info: &CameraInfo, is_replay: bool) {
        let mut work = self.shared.lock();
        let known = work.known.get(&frame.camera);
        let is_wanted = known.is_none_or(|known| known.wants(frame, is_replay));
        if !is_wanted || work.frames.len() >= WAITING_MAX || frame.camera.len() > NAME_MAX {
            return;
        }
        let info = known.is_none().then(|| lasting(info));
        let size = frame.encoded_len() + info.as_ref().map_or(0, Message::encoded_len);
        let Ok(room) = self.account.reserve(Kind::Frames, size) else { return };
        work.frames.push_back(Waiting { frame: frame.clone(), info, _room: room });
        self.shared.changed.notify_all();
    }

    /// What is known of a camera has changed.
    pub(super) fn tell(&self, info: &CameraInfo) {
        let mut work = self.shared.lock();
        let waiting = work.frames.iter_mut().filter(|waiting| waiting.frame.camera == info.name);
        waiting.filter_map(|of| of.info.as_mut()).for_each(|of| *of = lasting(info));
        if work.is_here(&info.name) {
            work.told.insert(info.name.clone(), Some(lasting(info)));
            self.shared.changed.notify_all();
        }
    }

    /// The first frame of a camera from there on, by number.
    pub(super) fn find(&self, camera: &str, from: u64) -> Option<(u64, StoredFrame)> {
        let work = self.shared.lock();
        let known = work.known.get(camera)?;
        let (&frame, &(entry, _)) = known.frames.range(from..).next()?;
        Some((frame, StoredFrame { reader: known.reader.another(), entry }))
    }

    /// What was set aside because nothing of it can be read.
    pub(super) fn aside(&self) -> Vec<SetAside> {
        self.shared.lock().aside.clone()
    }

    /// A camera is no more.
    pub(super) fn forget(&self, camera: &str) {
        let mut work = self.shared.lock();
        work.frames.retain(|waiting| waiting.frame.camera != camera);
        if work.is_here(camera) || work.aside.iter().any(|one| one.camera == camera) {
            work.known.remove(camera);
            work.told.insert(camera.into(), None);
            self.shared.changed.notify_all();
        }
    }
}

impl Drop for ReplicaDisk {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_all();
    }
}

impl Work {
    /// Whether a camera has a folder, or has one in a moment.
    fn is_here(&self, camera: &str) -> bool {
        self.known.contains_key(camera) || self.present.as_deref() == Some(camera)
    }
}

impl Known {
    /// Whether a frame is to be kept; of one for which another one goes, or that is of a replay, less.
    fn wants(&self, frame: &FrameMessage, is_strict: bool) -> bool {
        let is_old = self.frames.first_key_value().is_some_and(|(&first, _)| frame.frame < first);
        let known = self.frames.get(&frame.frame);
        let is_better = known.is_none_or(|(_, known)| *known < accuracy_of(frame));
        is_better && frame.frame > self.gone && !(is_strict && is_old)
    }
}

/// In thousandths.
fn accuracy_of(frame: &FrameMessage) -> u16 {
    (frame.accuracy * 1e3).round() as u16
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

#[cfg(test)]
mod tests;
