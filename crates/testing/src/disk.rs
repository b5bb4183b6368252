//! A disk in memory, with a spool on it: what it is told to write, what of it is safe, and what a crash
//! leaves.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_log::{
    Fetched, Header, Key, LogError, LogName, Recovery, SegmentBytes, SegmentId, SegmentWindow,
    Writer, begins_with_checkpoint, fetch, recover,
};
use tidegate_node::io::{Append, Fetch};
use tidegate_types::units::Size;

/// One file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// All that was written.
    pub bytes: Vec<u8>,
    /// How much of it is safe.
    pub synced: usize,
    /// How long the file is: zeros stand behind the bytes, up to here.
    pub room: usize,
    /// How long it surely stays.
    pub synced_room: usize,
}

impl File {
    /// What a reader of the file gets.
    pub fn content(&self) -> Cow<'_, [u8]> {
        if self.room <= self.bytes.len() {
            return Cow::Borrowed(&self.bytes);
        }
        let mut content = self.bytes.clone();
        content.resize(self.room, 0);
        Cow::Owned(content)
    }

    /// Bytes of it, the room included.
    pub fn length(&self) -> usize {
        self.bytes.len().max(self.room)
    }

    fn sync(&mut self) {
        (self.synced, self.synced_room) = (self.bytes.len(), self.length());
    }

    /// What stands behind the bytes goes.
    fn cut(&mut self, length: usize) {
        self.bytes.truncate(length);
        self.room = length;
        self.sync();
    }
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
    /// Files are filled with zeros ahead of what is written, up to multiples of so many bytes; 0: they
    /// are not.
    pub room: usize,
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
        Disk { files, capacity: usize::MAX, undoes: true, room: 0, keys, writer, unsynced }
    }

    /// Segments that begin from now on name these outputs.
    pub fn name_outputs(&mut self, outputs: Vec<Arc<str>>) {
        self.writer.name_outputs(outputs);
    }

    /// The same files, written by another process.
    pub fn boot(self, name: LogName) -> Self {
        let writer = Writer::new(name, &self.keys);
        Disk { writer, unsynced: Vec::new(), ..self }
    }

    /// Bytes of all files.
    pub fn used(&self) -> usize {
        self.files.values().map(File::length).sum()
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
                // A spool makes a segment safe before it begins the next one, whose checkpoint speaks of what
                // is there, and no file but the last one has room.
                self.files.values_mut().for_each(|file| file.cut(file.bytes.len()));
            }
            let free = self.capacity.saturating_sub(self.used());
            let file = self.files.entry(write.segment).or_default();
            assert!(!write.is_new || file.bytes.is_empty(), "a segment is begun once");
            let free = free + file.length() - file.bytes.len();
            let fits = write.bytes.len().min(free);
            is_good &= fits == write.bytes.len();
            file.bytes.extend_from_slice(&write.bytes[..fits]);
            let room = file.bytes.len().next_multiple_of(self.room.max(1));
            if room > file.room && room - file.bytes.len() <= free - fits {
                file.room = room;
            }
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
        self.files.values_mut().for_each(File::sync);
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
        let Some(content) = self.files.get(&order.segment).map(File::content) else { return end };
        let Ok(opened) = Header::open(&content, &self.keys) else { return end };
        let mut length = 100;
        loop {
            let from = (order.from as usize).min(content.len());
            let to = (from + length).min(content.len());
            let is_last = to == content.len();
            let window = SegmentWindow { from: from as u32, bytes: &content[from..to], is_last };
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
        let mut needed = BTreeMap::new();
        for (&segment, file) in self.files.iter().rev() {
            let content = file.content();
            let begins = begins_with_checkpoint(segment, &content, &self.keys).unwrap_or(false);
            needed.insert(segment, content);
            if begins {
                break;
            }
        }
        let part = |(&segment, file): (&SegmentId, &'_ File)| SegmentBytes {
            segment,
            size: Size(file.length() as u64),
            bytes: needed.get(&segment).map(AsRef::as_ref),
        };
        let parts: Vec<SegmentBytes<'_>> = self.files.iter().map(part).collect();
        recover(&parts, &self.keys)
    }

    /// Cuts off what files have behind all that was written, as a process may that begins to write.
    pub fn cut(&mut self, recovery: &Recovery) {
        for (segment, file) in &mut self.files {
            // What cannot be read is in quarantine.
            let Some(length) = recovery.segments.get(segment) else { continue };
            let length = length.0 as usize;
            if length < file.length() {
                file.cut(length);
            }
        }
    }

    /// The power fails: of what was not safe, each file keeps as many bytes as `keeps` says of so many, and
    /// as much room.
    pub fn crash(&mut self, mut keeps: impl FnMut(usize) -> usize) {
        for file in self.files.values_mut() {
            let kept = keeps(file.bytes.len() - file.synced);
            let room = keeps(file.length() - file.synced_room);
            file.bytes.truncate(file.synced + kept);
            file.room = file.synced_room + room;
            file.bytes.resize(file.length(), 0);
            file.sync();
        }
        self.files.retain(|_, file| !file.bytes.is_empty());
    }
}
