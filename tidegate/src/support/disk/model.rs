//! A disk in memory that keeps no more than it promised: what is not synced may be lost, sector by sector and name
//! by name, and what is synced may rot. A seed says what happens, and the power can be cut at any call.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_types::random::SplitMix;

use super::{Disk, DiskFile, How, Listed};

/// Bytes that a disk writes as one.
pub(crate) const SECTOR: usize = 512;

/// The disk. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

#[derive(Clone, Debug, Default)]
struct State {
    /// What processes see.
    names: BTreeMap<PathBuf, u64>,
    /// What a power cut leaves for sure.
    safe_names: BTreeMap<PathBuf, u64>,
    /// What changed names since, in order.
    changes: Vec<Change>,
    folders: BTreeSet<PathBuf>,
    files: BTreeMap<u64, Content>,
    last: u64,
    /// Bytes that fit; `None`: any number.
    capacity: Option<usize>,
    /// Calls that change something, until the power is cut.
    left: Option<u64>,
    /// Syncs that fail, of the next ones.
    failing: u32,
    unreadable: u32,
}

#[derive(Clone, Debug)]
enum Change {
    Link(PathBuf, u64),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf),
}

#[derive(Clone, Debug, Default)]
struct Content {
    now: Vec<u8>,
    /// As it was when it was last synced.
    safe: Vec<u8>,
    is_dirty: bool,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power fails within the call after so many that change something.
    pub(crate) fn cut_after(&self, calls: u64) {
        self.lock().left = Some(calls);
    }

    /// Whether it has.
    pub(crate) fn is_off(&self) -> bool {
        self.lock().left == Some(0)
    }

    /// The next syncs fail, so many of them; what they were to make safe stays unsafe for ever.
    pub(crate) fn fail_syncs(&self, count: u32) {
        self.lock().failing = count;
    }

    /// So many reads fail.
    pub(crate) fn fail_reads(&self, count: u32) {
        self.lock().unreadable = count;
    }

    /// No more than so many bytes beyond those that are there.
    pub(crate) fn fill(&self, free: Option<usize>) {
        let mut state = self.lock();
        let used: usize = state.files.values().map(|file| file.now.len()).sum();
        state.capacity = free.map(|free| used + free);
    }

    /// What the device has when the power comes back, of what was not safe any sectors in any order; or, if the
    /// power did not fail, what every process sees.
    pub(crate) fn restart(&self, random: &mut SplitMix, is_cut: bool) {
        let mut state = self.lock();
        (state.left, state.failing, state.capacity) = (None, 0, None);
        if !is_cut {
            return;
        }
        let State { names, safe_names, changes, files, .. } = &mut *state;
        // Names change in order: a file system has a journal, or works like it.
        let kept = random.below(changes.len() + 1);
        for change in changes.drain(..).take(kept) {
            change.apply(safe_names);
        }
        *names = safe_names.clone();
        for file in files.values_mut().filter(|file| file.is_dirty) {
            file.lose(random);
        }
        let used: BTreeSet<u64> = names.values().copied().collect();
        files.retain(|id, _| used.contains(id));
    }

    /// Another disk with the same content, which has room and does not fail.
    pub(crate) fn copy(&self) -> Memory {
        let state = self.lock().clone();
        let well = State { capacity: None, left: None, failing: 0, unreadable: 0, ..state };
        Memory(Arc::new(Mutex::new(well)))
    }

    /// Files of a folder.
    pub(crate) fn files(&self, folder: &Path) -> Vec<PathBuf> {
        let state = self.lock();
        let is_in = |path: &&PathBuf| path.parent() == Some(folder);
        state.names.keys().filter(is_in).cloned().collect()
    }

    /// All of a file.
    pub(crate) fn content(&self, path: &Path) -> Vec<u8> {
        let state = self.lock();
        let id = state.names.get(path);
        id.map(|id| state.files[id].now.clone()).unwrap_or_default()
    }

    /// The medium is not what it was: a file has this content, and that is safe. `None`: it is not there.
    pub(crate) fn rot(&self, path: &Path, content: Option<Vec<u8>>) {
        let mut state = self.lock();
        let Some(content) = content else {
            state.names.remove(path);
            state.safe_names.remove(path);
            return;
        };
        let id = state.names.get(path).copied().unwrap_or(state.last + 1);
        state.last = state.last.max(id);
        state.names.insert(path.into(), id);
        state.safe_names.insert(path.into(), id);
        let (now, safe) = (content.clone(), content);
        state.files.insert(id, Content { now, safe, is_dirty: false });
    }
}

impl Change {
    fn apply(self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Change::Link(path, id) => _ = names.insert(path, id),
            Change::Unlink(path) => _ = names.remove(&path),
            Change::Rename(from, to) => {
                if let Some(id) = names.remove(&from) {
                    names.insert(to, id);
                }
            }
        }
    }
}

impl Content {
    /// Of the sectors that differ from what is safe any may have come to the disk; the last of them may be torn,
    /// and where the file has grown it may be as long as it was.
    fn lose(&mut self, random: &mut SplitMix) {
        let old = std::mem::take(&mut self.safe);
        let lengths = [self.now.len(), old.len(), self.now.len().min(old.len() + 3 * SECTOR)];
        let length = lengths[random.below(3)];
        let keeps = random.below(4);
        let mut left = vec![0; length];
        for from in (0..length).step_by(SECTOR) {
            let to = (from + SECTOR).min(length);
            let is_kept = match keeps {
                0 => false,
                1 => true,
                _ => !random.one_in(3),
            };
            let torn = if random.one_in(20) { from + random.below(SECTOR) } else { to };
            for (at, byte) in left.iter_mut().enumerate().take(to).skip(from) {
                let source = if is_kept && at < torn { &self.now } else { &old };
                *byte = source.get(at).copied().unwrap_or(0);
            }
        }
        (self.now, self.safe, self.is_dirty) = (left.clone(), left, false);
    }
}

impl State {
    /// A call that changes something. The last one before the power is off may be done in part.
    fn begin(&mut self) -> io::Result<()> {
        match &mut self.left {
            Some(0) => Err(io::Error::other("the power is off")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn change(&mut self, change: Change) {
        change.clone().apply(&mut self.names);
        self.changes.push(change);
    }
}

impl Disk for Memory {
    fn open(&self, path: &Path, how: How) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.lock();
        let known = state.names.get(path).copied();
        let id = match (known, how) {
            (Some(_), How::New) => return Err(io::ErrorKind::AlreadyExists.into()),
            (None, How::Read | How::Write) => return Err(io::ErrorKind::NotFound.into()),
            (Some(id), _) => id,
            (None, _) => {
                if path.parent().is_none_or(|folder| !state.folders.contains(folder)) {
                    return Err(io::ErrorKind::NotFound.into());
                }
                state.begin()?;
                state.last += 1;
                let id = state.last;
                state.files.insert(id, Content::default());
                state.change(Change::Link(path.into(), id));
                id
            }
        };
        Ok(Box::new(MemoryFile { disk: self.clone(), id }))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<Listed>> {
        let state = self.lock();
        if !state.folders.contains(folder) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let name = |path: &Path| {
            path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into())
        };
        let files = state.names.iter().filter(|(path, _)| path.parent() == Some(folder));
        let files = files.map(|(path, id)| Listed {
            name: name(path),
            size: state.files[id].now.len() as u64,
            is_file: true,
        });
        let folders = state.folders.iter().filter(|path| path.parent() == Some(folder));
        let folders = folders.map(|path| Listed { name: name(path), size: 0, is_file: false });
        Ok(files.chain(folders).collect())
    }

    fn make_folder(&self, folder: &Path, _: u32) -> io::Result<()> {
        let mut state = self.lock();
        if state.left == Some(0) {
            return Err(io::Error::other("the power is off"));
        }
        folder.ancestors().for_each(|folder| _ = state.folders.insert(folder.into()));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.lock();
        if !state.names.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.begin()?;
        state.change(Change::Rename(from.into(), to.into()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.lock();
        if !state.names.contains_key(path) {
            return Err(io::ErrorKind::NotFound.into());
        }
        state.begin()?;
        state.change(Change::Unlink(path.into()));
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.lock();
        state.begin()?;
        let is_in = |path: &Path| path.parent() == Some(folder);
        let State { safe_names, changes, .. } = &mut *state;
        // Whatever was done before the last change of this folder is safe with it.
        let touches = |change: &Change| match change {
            Change::Link(path, _) | Change::Unlink(path) => is_in(path),
            Change::Rename(from, to) => is_in(from) || is_in(to),
        };
        let upto = changes.iter().rposition(touches).map_or(0, |last| last + 1);
        changes.drain(..upto).for_each(|change| change.apply(safe_names));
        Ok(())
    }
}

/// A file of it.
#[derive(Debug)]
struct MemoryFile {
    disk: Memory,
    id: u64,
}

impl DiskFile for MemoryFile {
    fn read_at(&self, bytes: &mut [u8], from: u64) -> io::Result<usize> {
        let mut state = self.disk.lock();
        if state.unreadable > 0 {
            state.unreadable -= 1;
            return Err(io::Error::other("a read failed"));
        }
        let content = &state.files[&self.id].now;
        let rest = content.get(from as usize..).unwrap_or_default();
        let length = rest.len().min(bytes.len());
        bytes[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        let begun = state.begin();
        let is_last = state.left == Some(0);
        begun?;
        let used: usize = state.files.values().map(|file| file.now.len()).sum();
        let free = state.capacity.map_or(usize::MAX, |capacity| capacity.saturating_sub(used));
        let file = state.files.get_mut(&self.id).ok_or(io::ErrorKind::NotFound)?;
        let at = at as usize;
        let mut length = bytes.len();
        let room = (file.now.len() + free.min(1 << 40)).saturating_sub(at);
        let is_full = room < length;
        length = length.min(room);
        if is_last {
            length /= 2;
        }
        if file.now.len() < at + length {
            file.now.resize(at + length, 0);
        }
        file.now[at..at + length].copy_from_slice(&bytes[..length]);
        file.is_dirty = true;
        match (is_last, is_full) {
            (true, _) => Err(io::Error::other("the power is off")),
            (_, true) => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk.lock().files[&self.id].now.len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.begin()?;
        let file = state.files.get_mut(&self.id).ok_or(io::ErrorKind::NotFound)?;
        file.now.resize(length as usize, 0);
        file.is_dirty = true;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.lock();
        state.begin()?;
        if state.left == Some(0) {
            return Err(io::Error::other("the power is off"));
        }
        if state.failing > 0 {
            state.failing -= 1;
            return Err(io::Error::other("a sync failed"));
        }
        let file = state.files.get_mut(&self.id).ok_or(io::ErrorKind::NotFound)?;
        file.safe = file.now.clone();
        file.is_dirty = false;
        Ok(())
    }
}
