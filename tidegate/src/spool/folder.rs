//! The folder of a log: its lock, its files, and what a start reads of them.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_core::log::{Defect, Key, Part, Recovery, SegmentId, begins_with_checkpoint, recover};
use tidegate_core::units::Size;

use super::{SpoolError, SpoolOptions};

/// The file whose lock says who writes.
const LOCK: &str = "lock";
/// How often a standby looks whether the log is free.
const STANDBY_PERIOD: Duration = Duration::from_millis(100);
/// How segments are called: their number and this.
const SUFFIX: &str = ".segment";

/// The folder, locked for this process. The kernel frees the lock when the process ends, however it
/// does; nobody else can take it before.
#[derive(Debug)]
pub struct Folder {
    directory: PathBuf,
    /// Held for its lock.
    lock: File,
    /// The same file, to make names in it safe.
    handle: File,
}

/// A program that is being started has a copy of every open file until it runs, and with it the lock: so the lock is
/// given back, not only closed.
impl Drop for Folder {
    fn drop(&mut self) {
        // Where that fails, the end of the process does it.
        let _ = self.lock.unlock();
    }
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
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|source| failed("make the folder", directory, source))?;
    let folder = lock(directory, options.standby).await?;
    let recovery = read_recovery(directory, &options.keys)?;
    if let Some((found, _)) = recovery.owner.as_ref().filter(|(owner, _)| **owner != *node) {
        let (found, expected) = (found.to_string(), node.to_owned());
        return Err(SpoolError::OfAnother { directory: directory.clone(), found, expected });
    }
    cut_room(directory, &recovery);
    let random = || random().map_err(|source| failed("read", Path::new(RANDOM), source));
    let incarnation = match recovery.owner {
        Some((_, incarnation)) => incarnation,
        None => random()?,
    };
    Ok(Opened { folder, recovery, incarnation, boot: random()? })
}

async fn lock(directory: &Path, standby: bool) -> Result<Folder, SpoolError> {
    let path = directory.join(LOCK);
    let opened =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = opened.map_err(|source| failed("open", &path, source))?;
    let mut has_told = false;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if standby => {
                if !has_told {
                    let directory = directory.display();
                    tracing::info!(%directory, "standing by until the other process ends");
                }
                has_told = true;
                tokio::time::sleep(STANDBY_PERIOD).await;
            }
            Err(TryLockError::WouldBlock) => return Err(SpoolError::InUse(directory.into())),
            Err(TryLockError::Error(source)) => return Err(failed("lock", &path, source)),
        }
    }
    if has_told {
        tracing::info!("the other process ended: taking over");
    }
    let handle = File::open(directory).map_err(|source| failed("open", directory, source))?;
    Ok(Folder { directory: directory.into(), lock: file, handle })
}

/// Gives back the room that the last process had ahead of what it wrote. Where that fails it stays: it is
/// no damage, and goes with its segment.
fn cut_room(directory: &Path, recovery: &Recovery) {
    for (&segment, &length) in &recovery.segments {
        let cut = |file: File| match file.metadata()?.len() > length.0 {
            true => file.set_len(length.0),
            false => Ok(()),
        };
        let file = OpenOptions::new().write(true).open(segment_path(directory, segment));
        if let Err(error) = file.and_then(cut) {
            tracing::warn!(%error, %segment, "its file keeps room that nothing needs");
        }
    }
}

impl Folder {
    /// The file of a segment.
    pub fn path(&self, segment: SegmentId) -> PathBuf {
        segment_path(&self.directory, segment)
    }

    /// The file that keeps a little of the disk back.
    pub fn reserve(&self) -> PathBuf {
        self.directory.join("reserve")
    }

    /// Makes safe which names the folder has.
    ///
    /// # Errors
    /// What the system says.
    pub fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

/// The file of a segment in a folder.
pub(crate) fn segment_path(directory: &Path, segment: SegmentId) -> PathBuf {
    directory.join(format!("{:010}{SUFFIX}", segment.0))
}

/// Reads the newest segments, back to the last one that begins with a whole checkpoint. It changes
/// nothing and needs no lock.
///
/// # Errors
/// A file cannot be read, or the segments say that this process must not use them.
pub(crate) fn read_recovery(directory: &Path, keys: &[Key]) -> Result<Recovery, SpoolError> {
    let sizes = segments(directory)?;
    let mut bytes: BTreeMap<SegmentId, Vec<u8>> = BTreeMap::new();
    for &segment in sizes.keys().rev() {
        let path = segment_path(directory, segment);
        let read = fs::read(&path).map_err(|source| failed("read", &path, source))?;
        let begins = begins_with_checkpoint(&read, keys);
        bytes.insert(segment, read);
        // A damaged head says nothing; any other defect is told by `recover`.
        if !matches!(begins, Ok(false) | Err(Defect::Damaged)) {
            break;
        }
    }
    let part = |(&segment, &size): (&SegmentId, &Size)| Part {
        segment,
        size,
        bytes: bytes.get(&segment).map(Vec::as_slice),
    };
    let parts: Vec<Part<'_>> = sizes.iter().map(part).collect();
    let directory = directory.to_path_buf();
    recover(&parts, keys).map_err(|source| SpoolError::Log { directory, source })
}

/// The segments in a folder and the bytes of their files. Empty files are what a crash left of a name.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn segments(directory: &Path) -> Result<BTreeMap<SegmentId, Size>, SpoolError> {
    let fail = |source| failed("read the folder", directory, source);
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)?.parse().ok());
        let Some(number) = number else { continue };
        let size = Size(entry.metadata().map_err(fail)?.len());
        if size > Size::ZERO {
            found.insert(SegmentId(number), size);
        }
    }
    Ok(found)
}

const RANDOM: &str = "/dev/urandom";

/// A random number, never 0.
fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open(RANDOM)?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes).max(1))
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> SpoolError {
    SpoolError::Io { doing, path: path.into(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_lock_ends_with_its_holder_although_a_copy_of_its_file_is_open() {
        let name = format!("tidegate-lock-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let first = lock(&directory, false).await.unwrap();
        let copy = first.lock.try_clone().unwrap();
        assert!(lock(&directory, false).await.is_err(), "two writers");
        drop(first);
        assert!(lock(&directory, false).await.is_ok());
        drop(copy);
        fs::remove_dir_all(directory).unwrap();
    }
}
