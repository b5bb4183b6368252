//! A disk in memory, with a spool on it: what it is told to write, what of it is safe, and what a crash
//! leaves.

use std::collections::BTreeMap;

use crate::io::{Append, Fetch};
use crate::log::{
    Fetched, Header, Key, LogError, LogName, Part, Recovery, SegmentId, Window, Writer,
    begins_with_checkpoint, fetch, recover,
};
use crate::units::Size;

/// One file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// All that was written.
    pub bytes: Vec<u8>,
    /// How much of it is safe.
    pub synced: usize,
}

/// A spool on a disk in memory.
#[derive(Debug)]
pub struct Disk {
    /// The segments.
    pub files: BTreeMap<SegmentId, File>,
    /// Bytes that fit on it; nothing can be written while they are less than there are.
    pub capacity: usize,
    /// Whether a spool that failed takes back what it wrote of the failed entries.
    pub undoes: bool,
    keys: Vec<Key>,
    writer: Writer,
    /// Numbers written and not yet safe.
    unsynced: Vec<u64>,
}

impl Disk {
    /// An empty disk.
    pub fn new(name: LogName, keys: Vec<Key>) -> Self {
        let writer = Writer::new(name, &keys);
        let (files, unsynced) = (BTreeMap::new(), Vec::new());
        Disk { files, capacity: usize::MAX, undoes: true, keys, writer, unsynced }
    }

    /// The same files, written by another process.
    pub fn boot(self, name: LogName) -> Self {
        let writer = Writer::new(name, &self.keys);
        Disk { writer, unsynced: Vec::new(), ..self }
    }

    /// Bytes of all files.
    pub fn used(&self) -> usize {
        self.files.values().map(|file| file.bytes.len()).sum()
    }

    /// Writes entries; answers with the numbers of those that failed: where one does, all that is not yet
    /// safe does.
    pub fn append(&mut self, appends: &[Append]) -> Vec<u64> {
        let mut is_good = true;
        for Append { number, entry } in appends {
            self.unsynced.push(*number);
            is_good &= self.writer.push(*number, entry).is_ok();
        }
        for write in self.writer.take() {
            if write.is_new {
                // A spool makes a segment safe before it begins the next one: its checkpoint speaks of what
                // is there.
                self.files.values_mut().for_each(|file| file.synced = file.bytes.len());
            }
            let free = self.capacity.saturating_sub(self.used());
            let fits = write.bytes.len().min(free);
            is_good &= fits == write.bytes.len();
            let file = self.files.entry(write.segment).or_default();
            assert!(!write.is_new || file.bytes.is_empty(), "a segment is begun once");
            file.bytes.extend_from_slice(&write.bytes[..fits]);
        }
        if is_good {
            return Vec::new();
        }
        self.writer.fail();
        if self.undoes {
            self.files.values_mut().for_each(|file| file.bytes.truncate(file.synced));
            self.files.retain(|_, file| !file.bytes.is_empty());
        }
        std::mem::take(&mut self.unsynced)
    }

    /// Makes safe what was written; answers with the last number of it, if there is a new one.
    pub fn sync(&mut self) -> Option<u64> {
        self.files.values_mut().for_each(|file| file.synced = file.bytes.len());
        let last = self.unsynced.last().copied();
        self.unsynced.clear();
        last
    }

    /// Whether something waits to be made safe.
    pub fn is_dirty(&self) -> bool {
        !self.unsynced.is_empty()
    }

    /// Deletes segments.
    pub fn release(&mut self, segments: &[SegmentId]) {
        for segment in segments {
            self.files.remove(segment);
        }
    }

    /// Reads records back, in small windows.
    pub fn fetch(&self, order: &Fetch) -> Fetched {
        let end = Fetched { is_end: true, next: order.from, ..Fetched::default() };
        let Some(file) = self.files.get(&order.segment) else { return end };
        let Ok(opened) = Header::open(&file.bytes, &self.keys) else { return end };
        let mut length = 100;
        loop {
            let from = (order.from as usize).min(file.bytes.len());
            let to = (from + length).min(file.bytes.len());
            let is_last = to == file.bytes.len();
            let window = Window { from: from as u32, bytes: &file.bytes[from..to], is_last };
            let fetched = fetch(&opened, window, &order.streams, order.most);
            match fetched.needs {
                Some(needs) => length = needs.max(length + 1),
                None => return fetched,
            }
        }
    }

    /// What a process that starts finds.
    ///
    /// # Errors
    /// A log that must not be used.
    pub fn recover(&self) -> Result<Recovery, LogError> {
        let begins = |file: &File| begins_with_checkpoint(&file.bytes, &self.keys).unwrap_or(false);
        let base = self.files.iter().rev().find(|(_, file)| begins(file)).map(|(id, _)| *id);
        let part = |(&segment, file): (&SegmentId, &'_ File)| {
            let is_needed = base.is_none_or(|base| segment >= base);
            let size = Size(file.bytes.len() as u64);
            (segment, size, is_needed.then(|| file.bytes.clone()))
        };
        let parts: Vec<_> = self.files.iter().map(part).collect();
        let parts: Vec<Part<'_>> = parts
            .iter()
            .map(|(segment, size, bytes)| Part {
                segment: *segment,
                size: *size,
                bytes: bytes.as_deref(),
            })
            .collect();
        recover(&parts, &self.keys)
    }

    /// The power fails: of what was not safe, each file keeps as many bytes as `keeps` says of so many.
    pub fn crash(&mut self, mut keeps: impl FnMut(usize) -> usize) {
        for file in self.files.values_mut() {
            let kept = keeps(file.bytes.len() - file.synced);
            file.bytes.truncate(file.synced + kept);
            file.synced = file.bytes.len();
        }
        self.files.retain(|_, file| !file.bytes.is_empty());
    }
}
