//! Old segments go: what is still needed of them is written again.

use std::io;
use std::sync::atomic::Ordering;

use tidegate_broker::SessionLedger;
use tidegate_broker::journal::Note;
use tidegate_log::{Entry, Scanned, Scanner, SegmentId};

use super::{Store, read_what_can_be};
use crate::node::journal::wall;
use crate::node::log_store::folder::segment_path;
use crate::support::disk::read_at;

/// How long a segment that cannot be read is left alone: an error of the disk may pass.
const LATER_NS: u64 = 60_000_000_000;
/// Segments that are there beside twice what is needed, before old ones are copied.
const SPARE: u64 = 4;
/// How often a segment that cannot be read is tried, before what cannot be read of it counts as damaged.
const TRIES: u32 = 10;

impl Store {
    /// Segments go from the oldest one on: what is still needed of it is written again.
    pub(super) fn tidy(&mut self) {
        while let Some((&oldest, _)) = self.sizes.first_key_value()
            && self.file.as_ref().is_some_and(|(number, _)| *number != oldest)
        {
            let journal = self.journal.clone();
            if !journal.is_loaded() || journal.is_partial.load(Ordering::Relaxed) {
                return;
            }
            let needed = journal.read(|ledger| ledger.held_of(oldest).1 > 0);
            if needed && (!self.is_wasteful() || wall() < self.later) {
                return;
            }
            if needed && !self.renew(oldest) {
                self.later = wall().saturating_add(LATER_NS);
                return;
            }
            // That nothing of it is needed must be safe before it goes.
            if self.settle_copies() {
                return;
            }
            journal.lock().segments.remove(&oldest);
            let path = segment_path(&self.directory, SegmentId(oldest));
            // That it is damaged may be known since an earlier try.
            let gone = match self.is_damaged {
                true => self.disk.rename(&path, &path.with_extension("damaged")),
                false => self.disk.remove(&path),
            };
            if let Err(error) = gone
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(%error, segment = oldest, "a segment that nothing needs stays");
                return;
            }
            self.sizes.remove(&oldest);
            (self.is_damaged, self.failures) = (false, 0);
        }
    }

    /// Whether the segments take more than twice what is needed of them. Both are counted as they stand on disk, and a
    /// segment is never less than half messages: so writing again comes to an end.
    fn is_wasteful(&self) -> bool {
        let all: u64 = self.sizes.values().sum();
        let needed = self.journal.read(SessionLedger::on_disk);
        all >= 2 * needed + SPARE * self.segment_max.max(2 * self.base)
    }

    /// Writes again what is needed of the oldest segment; false where the disk failed. What cannot be read of it is written from
    /// memory, or given up.
    fn renew(&mut self, oldest: u32) -> bool {
        let Some(segment) = self.journal.lock().segments.get(&oldest).cloned() else {
            return true;
        };
        let length = self.sizes.get(&oldest).copied().unwrap_or(0);
        let bytes = match read_at(&*segment.file, 0, length as usize) {
            Ok(bytes) => bytes,
            Err(error) => {
                tracing::error!(%error, segment = oldest, "the journal of sessions cannot be read");
                self.failures += 1;
                if self.failures < TRIES {
                    return false;
                }
                read_what_can_be(&*segment.file, length as usize)
            }
        };
        self.failures = 0;
        let journal = self.journal.clone();
        for found in Scanner::new(&segment.opened, &bytes) {
            let Scanned::Frame(frame) = found else { continue };
            let Some(Entry::Note(note)) = frame.entry(&segment.opened) else { continue };
            let Ok(Note::Message(note)) = Note::read(&note) else { continue };
            let mut inner = journal.lock();
            let Some(notes) = inner.ledger.renew(&note, oldest) else { continue };
            inner.copy(&notes);
            if inner.pending_bytes > self.copy {
                // Messages stand there from now on: a failure later must find them safe.
                inner.is_urgent = true;
                let batch = self.take(&mut inner);
                drop(inner);
                if self.try_commit_or_keep(batch) {
                    return false;
                }
            }
        }
        if self.settle_copies() {
            return false;
        }
        let mut inner = journal.lock();
        let (count, bytes) = inner.ledger.held_of(oldest);
        if count == 0 {
            return true;
        }
        tracing::error!(
            segment = oldest,
            count,
            bytes,
            "messages for sessions stand in a damaged segment: put aside"
        );
        let (copies, lost) = inner.ledger.abandon(oldest);
        self.is_damaged = true;
        inner.copy(&copies);
        for note in lost {
            let _ = inner.ledger.apply(&note);
            inner.copy(&[note]);
        }
        drop(inner);
        !self.settle_copies()
    }

    /// Makes safe what was written again; true where that failed.
    fn settle_copies(&mut self) -> bool {
        let journal = self.journal.clone();
        let mark = journal.lock().last;
        loop {
            let mut inner = journal.lock();
            inner.is_urgent = true;
            let batch = self.take(&mut inner);
            drop(inner);
            // It may be in parts.
            match self.try_commit_or_keep(batch) {
                false if !journal.is_safe(mark) => {}
                has_failed => return has_failed,
            }
        }
    }
}
