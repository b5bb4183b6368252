//! The folder of a log: its lock, its files, and what a start does about those that are damaged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_log::{Damage, DamageKind, Recovery, SegmentId};

use super::lock::{LOCK, Lock, lock};
use super::look::{Found, look};
use super::quarantine::{QUARANTINE, Quarantine};
use super::{SpoolError, SpoolOptions};
use crate::support::disk::{Disk, How, Real};

/// How segments are called: their number and this.
const SUFFIX: &str = ".segment";
/// The folder of the journal of sessions.
pub(crate) const SESSIONS: &str = "sessions";
/// The file that keeps a little of the disk back.
pub(crate) const RESERVE: &str = "reserve";

/// The folder, locked for this process.
#[derive(Debug)]
pub struct Folder {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    /// Segments of earlier processes that stand in a file of another number.
    moved: BTreeMap<SegmentId, SegmentId>,
    quarantine: Mutex<Quarantine>,
    /// `None` only in tests, on a disk that no other process has.
    _lock: Option<Lock>,
}

/// A log that may be used.
#[derive(Debug)]
pub struct Opened {
    /// Its folder.
    pub folder: Folder,
    /// What it says.
    pub recovery: Recovery,
    /// Which life of the log: that of its owner, or a new one.
    pub incarnation: u64,
    /// A random number of this process.
    pub boot: u64,
}

/// Locks a log and reads what a start needs; where `options` want a standby, once nobody else uses it.
///
/// # Errors
/// See [`SpoolError`].
pub async fn open(options: &SpoolOptions, node: &str) -> Result<Opened, SpoolError> {
    let directory = &options.directory;
    let made = Real.make_folder(directory, 0o700);
    made.map_err(|source| failed("make the folder", directory, source))?;
    let lock = lock(directory, options.standby).await?;
    let random = || random().map_err(|source| failed("read", Path::new(RANDOM), source));
    let randoms = (random()?, random()?);
    open_on(Arc::new(Real), Some(lock), options, node, randoms)
}

/// The same on any disk. `randoms`: for a new incarnation, and for the boot.
pub(super) fn open_on(
    disk: Arc<dyn Disk>,
    lock: Option<Lock>,
    options: &SpoolOptions,
    node: &str,
    randoms: (u64, u64),
) -> Result<Opened, SpoolError> {
    let directory = options.directory.clone();
    let found = look(&*disk, &directory, &options.keys)?;
    let owner = found.recovery.owner.as_ref();
    if let Some((other, _)) = owner.filter(|(owner, _)| **owner != *node) {
        let (found, expected) = (other.to_string(), node.to_owned());
        return Err(SpoolError::OfAnother { directory, found, expected });
    }
    let incarnation = owner.map_or(randoms.0, |(_, incarnation)| *incarnation);
    let Found { recovery, places, useless, empty, strays, quarantine } = found;
    let moved = places.into_iter().filter(|(segment, file)| segment != file).collect();
    let quarantine = Mutex::new(quarantine);
    let folder = Folder { disk, directory, moved, quarantine, _lock: lock };
    for name in strays {
        tracing::warn!(name, "what is no part of a log lies in its folder: left as it is");
    }
    folder.remove_empty(&empty);
    folder.isolate(&recovery, &useless);
    folder.cut_room(&recovery);
    Ok(Opened { folder, recovery, incarnation, boot: randoms.1 })
}

impl Folder {
    /// Its disk.
    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// The same, to be kept.
    pub(super) fn shared_disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    /// The file of a segment. Where another segment stands in the file of its number, there is none.
    pub fn path(&self, segment: SegmentId) -> PathBuf {
        match self.moved.get(&segment) {
            Some(&file) => segment_path(&self.directory, file),
            None if self.moved.values().any(|file| *file == segment) => {
                self.directory.join(segment_name(segment) + ".gone")
            }
            None => segment_path(&self.directory, segment),
        }
    }

    /// The file that keeps a little of the disk back.
    pub fn reserve(&self) -> PathBuf {
        self.directory.join(RESERVE)
    }

    /// Makes safe which names the folder has.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&self) -> io::Result<()> {
        self.disk.sync_folder(&self.directory)
    }

    /// Files that lie in quarantine.
    pub fn quarantined(&self) -> u64 {
        self.quarantine.lock().unwrap_or_else(PoisonError::into_inner).files
    }

    /// Notes that a segment is damaged: its file goes to quarantine when nothing needs it. False if that was
    /// known.
    pub(super) fn note_damage(&self, segment: SegmentId) -> bool {
        let mut quarantine = self.quarantine.lock().unwrap_or_else(PoisonError::into_inner);
        quarantine.note(&*self.disk, &self.directory, segment)
    }

    /// Nothing needs a segment any more. Answers whether its file went to quarantine.
    ///
    /// # Errors
    /// What the system says: then it stays.
    pub(super) fn discard(&self, segment: SegmentId) -> io::Result<bool> {
        let path = self.path(segment);
        let mut quarantine = self.quarantine.lock().unwrap_or_else(PoisonError::into_inner);
        if !quarantine.noted.contains(&segment) {
            return self.disk.remove(&path).map(|()| false);
        }
        quarantine.take(&*self.disk, &self.directory, (segment, &path)).map(|_| true)
    }

    /// What a crash left of a segment that was being begun stands in the way of the next one of that number.
    fn remove_empty(&self, empty: &[SegmentId]) {
        for &segment in empty {
            if let Err(error) = self.disk.remove(&segment_path(&self.directory, segment)) {
                tracing::warn!(%error, %segment, "an empty segment stays");
            }
        }
    }

    /// Files of which nothing can be read go to quarantine now, damaged ones when nothing needs them any more.
    fn isolate(&self, recovery: &Recovery, useless: &[SegmentId]) {
        for &file in useless {
            let path = segment_path(&self.directory, file);
            let mut quarantine = self.quarantine.lock().unwrap_or_else(PoisonError::into_inner);
            match quarantine.take(&*self.disk, &self.directory, (file, &path)) {
                Ok(to) => {
                    let to = to.display();
                    tracing::error!(segment = %file, %to, "a file of the log is of no use: moved");
                }
                Err(error) => {
                    tracing::error!(%error, segment = %file, "a file of no use stays in the log's folder");
                }
            }
        }
        let is_read = |damage: &&Damage| {
            damage.verdict != DamageKind::Torn && recovery.segments.contains_key(&damage.segment)
        };
        recovery.damage.iter().filter(is_read).for_each(|damage| {
            self.note_damage(damage.segment);
        });
        self.moved.keys().for_each(|&segment| _ = self.note_damage(segment));
    }

    /// Gives back the room that the last process had ahead of what it wrote. Where that fails it stays: it is
    /// no damage, and goes with its segment.
    fn cut_room(&self, recovery: &Recovery) {
        for (&segment, &length) in &recovery.segments {
            let cut = || {
                let file = self.disk.open(&self.path(segment), How::Write)?;
                match file.length()? > length.0 {
                    true => file.set_length(length.0),
                    false => Ok(()),
                }
            };
            if let Err(error) = cut() {
                tracing::warn!(%error, %segment, "its file keeps room that nothing needs");
            }
        }
    }
}

/// What the file of a segment is called.
pub(crate) fn segment_name(segment: SegmentId) -> String {
    format!("{:010}{SUFFIX}", segment.0)
}

/// The file of a segment in a folder.
pub(crate) fn segment_path(directory: &Path, segment: SegmentId) -> PathBuf {
    directory.join(segment_name(segment))
}

/// The number of the segment that has a file of this name.
pub(crate) fn number_of(name: &str) -> Option<SegmentId> {
    let number = SegmentId(name.strip_suffix(SUFFIX)?.parse().ok()?);
    (segment_name(number) == name).then_some(number)
}

/// Whether something of this name belongs to a log, beside segments.
pub(super) fn is_ours(name: &str) -> bool {
    [LOCK, RESERVE, QUARANTINE, SESSIONS].contains(&name)
}

const RANDOM: &str = "/dev/urandom";

/// A random number, never 0.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open(RANDOM)?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

pub(super) fn failed(doing: &'static str, path: &Path, source: io::Error) -> SpoolError {
    SpoolError::Io { doing, path: path.into(), source }
}
