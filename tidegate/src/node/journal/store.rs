//! The thread that writes the journal, and its files.

mod batch;
mod tidy;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tidegate_broker::NotePlace;
use tidegate_broker::journal::{MessageNote, Note};
use tidegate_log::{
    Checkpoint, Entry, Header, Key, LogName, OpenedHeader, Scanned, Scanner, SegmentId,
    SegmentWrite, Writer,
};

use super::{Inner, Journal, Pending, wall};
use crate::node::log_store::folder::{RESERVE, segment_path};
use crate::node::log_store::growing::Growing;
use crate::node::log_store::reserve::Reserve;
use crate::support::disk::{Disk, DiskFile, How, read_at};

/// How long what nobody waits for may wait.
const LAZY: Duration = Duration::from_millis(20);
/// How often the time is noted while a client is here.
const TICK_NS: u64 = 60_000_000_000;
/// Bytes that are written again at a time, and that may be there unsynced.
const COPY: usize = 1 << 20;
/// Bytes that are read at a time where a disk fails.
const PIECE: usize = 4096;
/// How long a disk that fails is left alone.
const PAUSE: Duration = Duration::from_secs(1);

/// A segment that can be read.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) file: Box<dyn DiskFile>,
    pub(super) opened: OpenedHeader,
}

impl Segment {
    /// The message at a place.
    ///
    /// # Errors
    /// The disk fails: it may pass.
    pub(super) fn read(&self, place: NotePlace) -> io::Result<Option<Box<MessageNote>>> {
        let bytes = read_at(&*self.file, u64::from(place.offset), place.length as usize)?;
        Ok(self.message(place, &bytes))
    }

    fn message(&self, place: NotePlace, bytes: &[u8]) -> Option<Box<MessageNote>> {
        let mut scanner = Scanner::within(&self.opened, place.offset as usize, bytes);
        let Scanned::Frame(frame) = scanner.next()? else { return None };
        let Some(Entry::Note(note)) = frame.entry(&self.opened) else { return None };
        match Note::read(&note).ok()? {
            Note::Message(note) => Some(note),
            _ => None,
        }
    }
}

/// A file with zeros for what cannot be read.
pub(super) fn read_what_can_be(file: &dyn DiskFile, length: usize) -> Vec<u8> {
    let mut all = vec![0; length];
    for (index, piece) in all.chunks_mut(PIECE).enumerate() {
        if let Ok(read) = read_at(file, (index * PIECE) as u64, piece.len()) {
            piece[..read.len()].copy_from_slice(&read);
        }
    }
    all
}

/// The thread's own.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) journal: Arc<Journal>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: PathBuf,
    pub(super) writer: Writer,
    pub(super) keys: Vec<Key>,
    /// The segment that grows.
    pub(super) file: Option<(u32, Growing)>,
    /// The number of the next segment, and of the next entry.
    pub(super) next: u32,
    pub(super) sequence: u64,
    /// Bytes at which a segment is finished.
    pub(super) segment_max: u64,
    /// All segments and their bytes.
    pub(super) sizes: std::collections::BTreeMap<u32, u64>,
    /// Bytes at the beginning of the present segment that say all that held there.
    pub(super) base: u64,
    /// When the time was noted last.
    pub(super) noted: u64,
    /// Until when a segment that cannot be read is left alone.
    pub(super) later: u64,
    /// Room to say that old segments may go, on a disk that they have filled.
    reserve: Reserve,
    /// Bytes with which a segment began that is not safe yet: then the reserve is kept again.
    begun: Option<usize>,
    /// Something of the oldest segment was given up: it is put aside, not removed.
    is_damaged: bool,
    /// How often the oldest segment could not be read.
    failures: u32,
    /// Bytes that are written again at a time.
    pub(super) copy: usize,
    /// Notes of the segment that grows, since it was synced last: where it fails they are written again.
    unsynced: Vec<Pending>,
    unsynced_bytes: usize,
    /// Notes of a batch at most: fewer where the disk has no room for all.
    part: usize,
    /// When it last had none.
    was_full: Option<Instant>,
}

impl Store {
    /// A store for a journal whose segments have these sizes.
    pub(super) fn new(
        journal: Arc<Journal>,
        (disk, directory): (Arc<dyn Disk>, PathBuf),
        (name, keys): (LogName, Vec<Key>),
        segment_max: u64,
        (sizes, sequence): (std::collections::BTreeMap<u32, u64>, u64),
    ) -> Self {
        let next = sizes.last_key_value().map_or(1, |(last, _)| last + 1);
        let writer = Writer::new(name, &keys);
        let (file, base, noted, later) = (None, 0, 0, 0);
        let reserve = Reserve::new(disk.clone(), directory.join(RESERVE));
        Store {
            journal,
            disk,
            directory,
            writer,
            keys,
            file,
            next,
            sequence,
            segment_max,
            sizes,
            base,
            noted,
            later,
            reserve,
            begun: None,
            is_damaged: false,
            failures: 0,
            copy: COPY,
            unsynced: Vec::new(),
            unsynced_bytes: 0,
            part: usize::MAX,
            was_full: None,
        }
    }

    /// Until the journal is closed.
    pub(super) fn run(mut self) {
        loop {
            let journal = self.journal.clone();
            let mut inner = journal.lock();
            while !inner.is_urgent && !inner.is_closed {
                let is_lazy = inner.has_work();
                let patience = if is_lazy { LAZY } else { PAUSE };
                let waited = journal.wake.wait_timeout(inner, patience);
                inner = waited.unwrap_or_else(PoisonError::into_inner).0;
                if is_lazy || self.is_tick_due(&inner) {
                    break;
                }
            }
            let batch = self.take(&mut inner);
            drop(inner);
            let is_last = batch.is_last;
            if !self.commit(batch) || is_last {
                return;
            }
        }
    }

    fn is_tick_due(&self, inner: &Inner) -> bool {
        wall().saturating_sub(self.noted) > TICK_NS
            && inner.ledger.sessions().any(|kept| kept.note.ends == 0)
    }

    /// One step: false if there was nothing to do.
    #[cfg(test)]
    pub(super) fn step(&mut self) -> bool {
        let journal = self.journal.clone();
        let mut inner = journal.lock();
        let has_work = inner.has_work() || self.file.is_none();
        let batch = self.take(&mut inner);
        drop(inner);
        if has_work && !self.try_commit_or_keep(batch) {
            self.tidy();
        }
        has_work
    }

    fn write_notes(
        &mut self,
        notes: &[Pending],
        placed: &mut Vec<(u64, NotePlace)>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        for note in notes {
            let offset = self.file.as_ref().map_or(0, |(_, file)| file.end()) + bytes.len() as u64;
            let written = self.encode(Entry::Note(note.bytes.clone()))?;
            if let (Some(number), Some((segment, _))) = (note.message, &self.file) {
                let (offset, length) = (offset as u32, written.len() as u32);
                placed.push((number, NotePlace { segment: *segment, offset, length }));
            }
            bytes.extend_from_slice(&written);
        }
        self.put(&bytes)
    }

    fn encode(&mut self, entry: Entry) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        self.writer.push(self.sequence, &entry).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        self.writer.take().into_iter().for_each(|write| bytes.extend(write.bytes));
        Ok(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (number, file) = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
        file.write(bytes)?;
        self.sizes.insert(*number, file.end());
        Ok(())
    }

    /// Finishes the present segment and begins the next one with all that holds of sessions.
    fn begin(&mut self, snapshot: &[Note]) -> io::Result<()> {
        if self.file.is_some() {
            self.writer.finish();
            let end: Vec<SegmentWrite> = self.writer.take();
            end.iter().try_for_each(|write| self.put(&write.bytes))?;
            if let Some((_, mut file)) = self.file.take() {
                file.cut();
                file.sync()?;
            }
        }
        let number = self.next;
        self.next += 1;
        let path = segment_path(&self.directory, SegmentId(number));
        self.file = Some((number, Growing::create(&*self.disk, &path)?));
        let checkpoint = Checkpoint { segment: SegmentId(number), ..Checkpoint::default() };
        let mut bytes = self.encode(Entry::Checkpoint(checkpoint))?;
        let opened = Header::open(&bytes, &self.keys).map_err(io::Error::other)?;
        for note in snapshot {
            bytes.extend(self.encode(Entry::Note(note.to_bytes()))?);
        }
        self.put(&bytes)?;
        self.base = bytes.len() as u64;
        self.begun = Some(bytes.len());
        self.disk.sync_folder(&self.directory)?;
        let file = self.disk.open(&path, How::Read)?;
        let mut inner = self.journal.lock();
        inner.segments.insert(number, Arc::new(Segment { file, opened }));
        Ok(())
    }
}
