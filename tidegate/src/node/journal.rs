//! The journal of sessions: what outlives the process of the node's own broker.
//!
//! Whoever changes something writes a [`Note`] with a [`Pen`]: it holds at once in the [`SessionLedger`], and a thread makes it
//! safe, together with all that others wrote meanwhile: one write and one sync. What must not be said before a note is
//! safe waits for its mark. The files are segments as those of the log, in a folder of their own beside them; a message
//! stands there once, however many sessions wait for it, and is read back when their clients come.

mod start;
mod store;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trial;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use bytes::Bytes;
use tidegate_broker::journal::{MessageNote, Note};
use tidegate_broker::{Applied, NotePlace, SessionLedger};
use tokio::sync::watch;

pub use self::start::{JournalOptions, Opened, RetainedNote, Running, look, open};
use self::store::Segment;

/// Bytes that wait for the disk, from which publishers wait.
const PENDING_MAX: usize = 16 << 20;

/// Memory of notes that the beginning of the next segment says again, while the disk takes nothing: what clients do at
/// their own pace.
const REPEATED_MAX: usize = 1 << 20;
/// As many times as much may wait before the disk has said that it takes nothing: it may hang.
const HANGING: usize = 16;
/// Memory of a note beside its bytes.
const COST: usize = 96;

/// A note that is to be written.
#[derive(Debug)]
struct Pending {
    bytes: Bytes,
    /// Its number, if it is a message.
    message: Option<u64>,
    /// The beginning of the next segment says it again.
    is_repeated: bool,
    /// It says something of who sent it, that the beginning of a segment takes for granted: it must not come after that.
    is_of_sender: bool,
}

impl Pending {
    fn cost(&self) -> usize {
        self.bytes.len() + COST
    }
}

#[derive(Debug)]
struct Inner {
    ledger: SessionLedger,
    pending: Vec<Pending>,
    pending_bytes: usize,
    /// Memory of those that the beginning of the next segment says again, and how much it may be.
    repeated: usize,
    repeated_max: usize,
    /// Some of them were left out: a segment must begin behind the others before anything more is safe.
    ends_segment: bool,
    /// Somebody waits for what is pending.
    is_urgent: bool,
    /// Notes that were written.
    last: u64,
    /// The process ends: what goes now does not end sessions.
    is_frozen: bool,
    is_closed: bool,
    segments: BTreeMap<u32, Arc<Segment>>,
}

impl Inner {
    /// Notes are to be written again: the ledger knows them.
    fn copy(&mut self, notes: &[Note]) {
        for note in notes {
            self.push(note);
        }
    }

    fn push(&mut self, note: &Note) {
        let message = if let Note::Message(note) = note { Some(note) } else { None };
        self.pending.push(Pending {
            bytes: note.to_bytes(),
            message: message.map(|message| message.number),
            is_repeated: note.is_about_sessions(),
            is_of_sender: message.is_some_and(|one| one.packet.is_some() || one.will_of.is_some()),
        });
        self.last += 1;
        self.count(self.pending.len() - 1);
    }

    /// Notes from this place on are new.
    fn count(&mut self, from: usize) {
        for note in &self.pending[from..] {
            self.pending_bytes += note.bytes.len();
            self.repeated += if note.is_repeated { note.cost() } else { 0 };
        }
    }

    /// Notes that go together with the beginning of a segment, at least: that knows of packets and wills whose messages
    /// are pending, and without these they would be lost, and taken for known.
    fn least_with_snapshot(&self) -> usize {
        self.pending.iter().rposition(|note| note.is_of_sender).map_or(0, |place| place + 1)
    }

    /// Whether something is to be written, if nobody waits for it.
    fn has_work(&self) -> bool {
        !self.pending.is_empty() || self.ends_segment
    }

    /// The disk takes nothing: what the beginning of the next segment says in any case need not wait in memory.
    fn leave_out_repeated(&mut self) {
        self.pending.retain(|note| !note.is_repeated);
        (self.pending_bytes, self.repeated, self.ends_segment) = (0, 0, true);
        self.count(0);
    }
}

/// See the file's header. All who share it use one.
pub struct Journal {
    inner: Mutex<Inner>,
    wake: Condvar,
    safe: watch::Sender<u64>,
    /// The same, to be looked at often.
    is_safe: AtomicU64,
    loaded: watch::Sender<bool>,
    room: watch::Sender<bool>,
    /// What earlier processes left was not read to its end, and so is not to be removed.
    is_partial: AtomicBool,
    /// The disk takes nothing.
    is_failing: AtomicBool,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("safe", &self.is_safe).finish_non_exhaustive()
    }
}

impl Journal {
    fn new(ledger: SessionLedger) -> Self {
        Journal {
            inner: Mutex::new(Inner {
                ledger,
                pending: Vec::new(),
                pending_bytes: 0,
                repeated: 0,
                repeated_max: REPEATED_MAX,
                ends_segment: false,
                is_urgent: false,
                last: 0,
                is_frozen: false,
                is_closed: false,
                segments: BTreeMap::new(),
            }),
            wake: Condvar::new(),
            safe: watch::Sender::new(0),
            is_safe: AtomicU64::new(0),
            loaded: watch::Sender::new(false),
            room: watch::Sender::new(true),
            is_partial: AtomicBool::new(false),
            is_failing: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A ledger that panicked in the middle of a note is not to be trusted, but neither is it to stop all else.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes notes that belong together.
    pub fn pen(&self) -> Pen<'_> {
        let inner = self.lock();
        let was_empty = inner.pending.is_empty();
        Pen { journal: self, inner, is_urgent: false, was_empty, has_written: false }
    }

    /// Writes a note that somebody waits for. Answers with its mark.
    pub fn write(&self, note: &Note) -> u64 {
        let mut pen = self.pen();
        pen.write(note);
        pen.urge()
    }

    /// Writes a note that nobody waits for.
    pub fn write_soon(&self, note: &Note) {
        self.pen().write(note);
    }

    /// Whether all up to a mark is safe.
    #[inline]
    pub fn is_safe(&self, mark: u64) -> bool {
        mark <= self.is_safe.load(Ordering::Acquire)
    }

    /// Waits until all up to a mark is safe. Cancel-safe.
    pub async fn safe(&self, mark: u64) {
        let mut safe = self.safe.subscribe();
        // The sender is here.
        let _ = safe.wait_for(|safe| *safe >= mark).await;
    }

    /// Whether what earlier processes left is read.
    pub fn is_loaded(&self) -> bool {
        *self.loaded.borrow()
    }

    /// Waits until what earlier processes left is read.
    pub async fn loaded(&self) {
        if !self.is_loaded() {
            let _ = self.loaded.subscribe().wait_for(|loaded| *loaded).await;
        }
    }

    /// The same, and until the disk keeps up with what is written.
    pub async fn ready(&self) {
        self.loaded().await;
        if !*self.room.borrow() {
            let _ = self.room.subscribe().wait_for(|room| *room).await;
        }
    }

    /// Whether the disk took nothing when it was last written to: it may be full.
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// The process ends: from now on the end of a connection ends no session, and nobody waits for the disk.
    pub fn freeze(&self) {
        self.lock().is_frozen = true;
        self.room.send_replace(true);
    }

    /// What it holds.
    pub fn read<T>(&self, read: impl FnOnce(&SessionLedger) -> T) -> T {
        read(&self.lock().ledger)
    }

    /// Changes what was read of its ledger.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut SessionLedger) -> T) -> T {
        change(&mut self.lock().ledger)
    }

    /// Reads a message back.
    ///
    /// # Errors
    /// The disk fails: it may pass.
    pub fn fetch(
        &self,
        number: u64,
        place: Option<NotePlace>,
    ) -> io::Result<Option<Box<MessageNote>>> {
        let (mut place, mut failed) = (place, None);
        // It may have been copied meanwhile, and its segment may be gone.
        for _ in 0..3 {
            let Some(at) = place else { break };
            let segment = self.lock().segments.get(&at.segment).cloned();
            match segment.map_or(Ok(None), |segment| segment.read(at)) {
                Ok(Some(note)) => return Ok(Some(note).filter(|note| note.number == number)),
                Ok(None) => failed = None,
                Err(error) => failed = Some(error),
            }
            place = self.lock().ledger.find(number).and_then(Result::err).flatten();
        }
        failed.map_or(Ok(None), Err)
    }

    fn tell_safe(&self, mark: u64) {
        self.is_safe.store(mark, Ordering::Release);
        self.safe.send_replace(mark);
    }
}

/// The time in the world, nanoseconds since the Unix epoch; 0 where nobody knows.
pub fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The right to write: nobody else writes meanwhile.
pub struct Pen<'j> {
    journal: &'j Journal,
    inner: MutexGuard<'j, Inner>,
    is_urgent: bool,
    /// Nothing was pending.
    was_empty: bool,
    has_written: bool,
}

impl Pen<'_> {
    /// The number of the next message.
    pub fn number(&self) -> u64 {
        self.inner.ledger.next_number()
    }

    /// What holds.
    pub fn ledger(&self) -> &SessionLedger {
        &self.inner.ledger
    }

    /// Whether the process ends.
    pub fn is_frozen(&self) -> bool {
        self.inner.is_frozen
    }

    /// The time in the world: never before one that was written.
    pub fn wall(&self) -> u64 {
        wall().max(self.inner.ledger.wall())
    }

    /// Writes a note.
    pub fn write(&mut self, note: &Note) -> Applied {
        let applied = self.inner.ledger.apply(note);
        self.push(note);
        for (session, number, _) in &applied.dropped {
            self.push(&Note::Done(*session, vec![*number]));
        }
        applied
    }

    fn push(&mut self, note: &Note) {
        self.inner.push(note);
        self.has_written = true;
        let times = if self.journal.is_failing() { 1 } else { HANGING };
        if self.inner.repeated > times * self.inner.repeated_max {
            self.inner.leave_out_repeated();
        }
    }

    /// The mark of what was written.
    #[cfg(test)]
    fn mark(&self) -> u64 {
        self.inner.last
    }

    /// Somebody waits for what was written. Answers with the mark.
    pub fn urge(&mut self) -> u64 {
        self.is_urgent = !self.journal.is_safe(self.inner.last);
        self.inner.last
    }
}

impl Drop for Pen<'_> {
    fn drop(&mut self) {
        let was_urgent = self.inner.is_urgent || !self.is_urgent && !self.was_empty;
        self.inner.is_urgent |= self.is_urgent;
        if self.inner.pending_bytes > PENDING_MAX && !self.inner.is_frozen {
            self.journal.room.send_if_modified(|room| std::mem::replace(room, false));
        }
        if (self.has_written || self.is_urgent) && !was_urgent {
            self.journal.wake.notify_one();
        }
    }
}
