//! What goes to the disk together. Where there is no room for all, as much of it as fits.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tidegate_broker::NotePlace;
use tidegate_broker::journal::Note;
use tidegate_log::SegmentId;

use super::{COPY, PAUSE, Store, TICK_NS};
use crate::node::journal::{Inner, PENDING_MAX, Pending, wall};
use crate::node::log_store::folder::segment_path;

/// What goes to the disk together.
pub(super) struct Batch {
    notes: Vec<Pending>,
    /// All that is known of sessions, where a new segment begins behind the notes.
    snapshot: Option<Vec<Note>>,
    /// Some were left out: only a new segment behind the notes says what these said.
    ends_segment: bool,
    mark: u64,
    /// Somebody waits until it is safe; else it is enough that a process that ends does not take it along.
    is_urgent: bool,
    pub(super) is_last: bool,
}

impl Store {
    /// Takes what is pending.
    pub(super) fn take(&mut self, inner: &mut Inner) -> Batch {
        let now = wall();
        if now.saturating_sub(self.noted) > TICK_NS {
            self.noted = now;
            // While old notes are read, a topic's newer message may not be known yet.
            let over = match self.journal.is_loaded() {
                true => inner.ledger.retained_over(now),
                false => Vec::new(),
            };
            let over = over.into_iter().map(Note::Unretained);
            for note in std::iter::once(Note::Clock(now)).chain(over) {
                let _ = inner.ledger.apply(&note);
                inner.push(&note);
            }
        }
        let (count, needs_snapshot) = self.measure(inner);
        let rest = inner.pending.split_off(count);
        let notes = std::mem::replace(&mut inner.pending, rest);
        let bytes = notes.iter().map(|note| note.bytes.len() as u64).sum::<u64>();
        (inner.pending_bytes, inner.repeated) = (0, 0);
        inner.count(0);
        let rest = inner.pending.len();
        let was_urgent = std::mem::replace(&mut inner.is_urgent, rest > 0);
        let is_urgent = was_urgent || inner.is_closed || rest > 0;
        let ends_segment = std::mem::take(&mut inner.ends_segment);
        let snapshot = needs_snapshot.then(|| inner.ledger.snapshot());
        let is_much = self.unsynced_bytes as u64 + bytes > COPY as u64;
        let is_urgent = is_urgent || snapshot.is_some() || is_much;
        let (mark, is_last) = (inner.last - rest as u64, inner.is_closed && rest == 0);
        Batch { notes, snapshot, ends_segment, mark, is_urgent, is_last }
    }

    /// How many pending notes go now, and whether a new segment begins with them.
    fn measure(&self, inner: &Inner) -> (usize, bool) {
        let all = inner.pending.len();
        // Where some were left out, the numbers of the others do not say which they are.
        if inner.ends_segment {
            return (all, true);
        }
        let count = all.min(self.part);
        let bytes: u64 = inner.pending[..count].iter().map(|note| note.bytes.len() as u64).sum();
        let end = self.file.as_ref().map_or(u64::MAX, |(_, file)| file.end());
        // What holds of many sessions may be more than a segment: then one has as much behind it.
        match end.saturating_add(bytes) >= self.segment_max.max(2 * self.base) {
            true => (count.max(inner.least_with_snapshot()), true),
            false => (count, false),
        }
    }

    /// Writes a batch. What finds no room stays pending, and is tried again in smaller parts, and then again and again;
    /// false where the process ends before.
    pub(super) fn commit(&mut self, batch: Batch) -> bool {
        let is_last = batch.is_last;
        if !self.try_commit_or_keep(batch) {
            self.tidy();
        } else if is_last || self.journal.lock().is_closed {
            return false;
        } else if !self.has_smaller() {
            std::thread::sleep(PAUSE);
        }
        true
    }

    /// Whether a smaller part may find room at once.
    fn has_smaller(&self) -> bool {
        (2..usize::MAX).contains(&self.part)
    }

    fn try_commit(&mut self, mut batch: Batch) -> Result<(), (io::Error, Batch)> {
        let (mut placed, first) = (Vec::new(), self.next);
        match self.write(&batch, &mut placed) {
            Ok(()) => {}
            Err(error) => {
                self.journal.is_failing.store(true, Ordering::Relaxed);
                self.reserve.give(&error);
                self.writer.fail();
                if let Some((number, mut file)) = self.file.take() {
                    file.cut();
                    self.sizes.entry(number).or_default();
                }
                // Nobody was told of what new ones have; a disk that stays full would collect one each time.
                for (number, _) in self.sizes.split_off(&first) {
                    let _ = self.disk.remove(&segment_path(&self.directory, SegmentId(number)));
                    self.journal.lock().segments.remove(&number);
                }
                // What was written and not synced may be gone with it.
                let later = std::mem::replace(&mut batch.notes, std::mem::take(&mut self.unsynced));
                batch.notes.extend(later);
                (self.unsynced_bytes, self.begun) = (0, None);
                return Err((error, batch));
            }
        }
        self.journal.is_failing.store(false, Ordering::Relaxed);
        let mut inner = self.journal.lock();
        placed.into_iter().for_each(|(number, place)| inner.ledger.placed(number, place));
        let has_room = inner.pending_bytes <= PENDING_MAX;
        drop(inner);
        if batch.is_urgent {
            self.unsynced.clear();
            self.unsynced_bytes = 0;
            self.journal.tell_safe(batch.mark);
        } else {
            self.unsynced_bytes += batch.notes.iter().map(|note| note.bytes.len()).sum::<usize>();
            self.unsynced.extend(batch.notes);
        }
        if let Some(bytes) = self.begun.take() {
            self.reserve.keep(bytes);
        }
        self.journal.room.send_if_modified(|room| has_room && !std::mem::replace(room, true));
        Ok(())
    }

    /// The notes go to the present segment, and what holds to the beginning of a new one; where there is no present
    /// segment, the notes follow it.
    fn write(&mut self, batch: &Batch, placed: &mut Vec<(u64, NotePlace)>) -> io::Result<()> {
        let had_file = self.file.is_some();
        if had_file {
            self.write_notes(&batch.notes, placed)?;
        }
        if let Some(snapshot) = &batch.snapshot {
            self.begin(snapshot)?;
        }
        if !had_file {
            self.write_notes(&batch.notes, placed)?;
            if let Some(snapshot) = batch.snapshot.as_ref().filter(|_| batch.ends_segment) {
                self.begin(snapshot)?;
            }
        }
        match &self.file {
            Some((_, file)) if batch.is_urgent => file.sync(),
            _ => Ok(()),
        }
    }

    /// True where it failed: then it stays pending.
    pub(super) fn try_commit_or_keep(&mut self, batch: Batch) -> bool {
        let Err((error, batch)) = self.try_commit(batch) else {
            // A larger part needs a new segment where it fails, and all that holds of sessions with it: not at once.
            if self.was_full.is_none_or(|at| at.elapsed() >= PAUSE) {
                self.part = self.part.saturating_mul(2);
            }
            return false;
        };
        let count = batch.notes.len();
        let mut inner = self.journal.lock();
        let later = std::mem::replace(&mut inner.pending, batch.notes);
        inner.pending.extend(later);
        let least = inner.least_with_snapshot();
        // A part of what has no room as a whole may say that old messages are done with.
        self.part = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                if !batch.ends_segment && least < count.max(1) =>
            {
                self.was_full = Some(Instant::now());
                (count / 2).max(least).max(1)
            }
            _ => usize::MAX,
        };
        if !self.has_smaller() {
            tracing::error!(%error, "the journal of sessions cannot be written");
        }
        (inner.pending_bytes, inner.repeated) = (0, 0);
        inner.count(0);
        inner.ends_segment |= batch.ends_segment;
        inner.is_urgent = true;
        true
    }
}
