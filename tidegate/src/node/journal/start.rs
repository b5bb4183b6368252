//! What a start reads of the journal: the sessions at once, from its newest segment; messages while clients come.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use tidegate_broker::journal::{MessageNote, Note};
use tidegate_broker::{LedgerBounds, Message, NotePlace, SessionLedger};
use tidegate_log::{Entry, Header, Key, LogName, Scanned, Scanner, SegmentId};
use tidegate_types::class::ClassId;

use super::Journal;
use super::store::{Segment, Store, read_what_can_be};
use crate::node::log_store::folder::{SESSIONS, number_of, segment_path};
use crate::support::disk::{Disk, How, Real, read_at};

/// How long a disk that fails is left alone.
const PAUSE: Duration = Duration::from_secs(1);
/// Notes that are taken while others wait for the journal.
const AT_ONCE: usize = 1024;
/// How often a segment that cannot be read is tried, before what cannot be read of it counts as damaged.
pub(super) const TRIES: u32 = 30;

/// Where a journal is, and what it may hold.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// The folder of the log.
    pub directory: PathBuf,
    /// The first key seals, each of them opens.
    pub keys: Vec<Key>,
    /// The node.
    pub node: Arc<str>,
    /// Which life of the log.
    pub incarnation: u64,
    /// A random number of this process.
    pub boot: u64,
    /// Bytes at which a segment is finished.
    pub segment: u64,
    /// What sessions may make it hold.
    pub bounds: LedgerBounds,
}

/// A journal that may be used: its sessions are read, its messages are not.
#[derive(Debug)]
pub struct Opened {
    /// It.
    pub journal: Arc<Journal>,
    store: Store,
}

/// The threads of a journal.
#[derive(Debug)]
pub struct Running {
    journal: Arc<Journal>,
    writing: JoinHandle<()>,
}

/// Reads what the journal says of sessions.
///
/// # Errors
/// It cannot be read.
pub fn open(options: &JournalOptions) -> std::io::Result<Opened> {
    open_on(Arc::new(Real), options)
}

/// The same on any disk.
pub(super) fn open_on(disk: Arc<dyn Disk>, options: &JournalOptions) -> std::io::Result<Opened> {
    let directory = options.directory.join(SESSIONS);
    disk.make_folder(&directory, 0o700)?;
    let mut segments = BTreeMap::new();
    let mut sizes = BTreeMap::new();
    for listed in disk.list(&directory)? {
        let Some(number) = number_of(&listed.name).filter(|_| listed.is_file) else { continue };
        match segment(&*disk, &directory, number, &options.keys)? {
            Some(found) => {
                sizes.insert(number.0, listed.size);
                segments.insert(number.0, Arc::new(found));
            }
            // A crash came while it was being begun.
            None if listed.size == 0 => disk.remove(&segment_path(&directory, number))?,
            None => {
                let path = segment_path(&directory, number);
                tracing::error!(segment = %number, "a segment of the journal of sessions cannot be read: put aside");
                disk.rename(&path, &path.with_extension("damaged"))?;
            }
        }
    }
    // A process that was killed may have left more than it made safe: what is read is what others will rely on.
    for number in segments.keys() {
        disk.open(&segment_path(&directory, SegmentId(*number)), How::Write)?.sync()?;
    }
    disk.sync_folder(&directory)?;
    let mut ledger = SessionLedger::new(options.bounds);
    let mut sequence = 0;
    // Back to the last one whose beginning is whole.
    let mut read = Vec::new();
    for (number, segment) in segments.iter().rev() {
        let (notes, is_whole) = notes(segment, sizes[number], &mut sequence)?;
        read.push(notes);
        if is_whole {
            break;
        }
    }
    for (note, _) in read.into_iter().rev().flatten() {
        ledger.apply_session(&note);
    }
    let journal = Arc::new(Journal::new(ledger));
    journal.lock().segments = segments;
    let name = LogName {
        node: options.node.clone(),
        incarnation: options.incarnation,
        boot: options.boot,
        outputs: Vec::new(),
    };
    let keys = options.keys.clone();
    let place = (disk, directory);
    let store =
        Store::new(journal.clone(), place, (name, keys), options.segment, (sizes, sequence));
    Ok(Opened { journal, store })
}

/// What a journal says, for people; its node may run meanwhile. Nothing is changed.
///
/// # Errors
/// It cannot be read.
pub fn look(directory: &Path, keys: &[Key]) -> std::io::Result<SessionLedger> {
    let directory = directory.join(SESSIONS);
    let mut numbers: Vec<(SegmentId, u64)> = Vec::new();
    for listed in Real.list(&directory)? {
        numbers.extend(number_of(&listed.name).map(|number| (number, listed.size)));
    }
    numbers.sort_unstable();
    let mut ledger = SessionLedger::new(LedgerBounds::default());
    for (number, size) in numbers {
        let found = match segment(&Real, &directory, number, keys) {
            Ok(Some(found)) => found,
            // It has gone meanwhile, or begins only now.
            Ok(None) => continue,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for (note, (offset, length)) in notes(&found, size, &mut 0)?.0 {
            let place = NotePlace { segment: number.0, offset, length };
            ledger.apply_session(&note);
            ledger.apply_message(&note, Some(place));
        }
    }
    Ok(ledger)
}

/// A segment, if its head is whole.
fn segment(
    disk: &dyn Disk,
    directory: &Path,
    number: SegmentId,
    keys: &[Key],
) -> std::io::Result<Option<Segment>> {
    let file = disk.open(&segment_path(directory, number), How::Read)?;
    let head = read_at(&*file, 0, 2 * tidegate_log::COPY_AT)?;
    match Header::open(&head, keys) {
        Ok(opened) => Ok(Some(Segment { file, opened })),
        Err(tidegate_log::Defect::Damaged) => Ok(None),
        Err(defect) => Err(std::io::Error::other(defect)),
    }
}

/// A note and where it stands in its segment: from which byte on, and how many.
type Found = (Note, (u32, u32));

/// The notes of a segment, and whether all that holds of sessions stands at its beginning.
///
/// # Errors
/// It cannot be read.
fn notes(
    segment: &Segment,
    length: u64,
    sequence: &mut u64,
) -> std::io::Result<(Vec<Found>, bool)> {
    let bytes = read_at(&*segment.file, 0, length as usize)?;
    Ok(notes_in(segment, &bytes, sequence))
}

fn notes_in(segment: &Segment, bytes: &[u8], sequence: &mut u64) -> (Vec<Found>, bool) {
    let mut all = Vec::new();
    let (mut is_damaged, mut is_whole) = (false, false);
    for found in Scanner::new(&segment.opened, bytes) {
        let frame = match found {
            Scanned::Frame(frame) => frame,
            Scanned::Damage { is_tail: true, .. } => continue,
            Scanned::Damage { from, to, .. } => {
                let segment = segment.opened.header.segment;
                tracing::error!(%segment, from, to, "the journal of sessions is damaged here");
                is_damaged = true;
                continue;
            }
        };
        *sequence = (*sequence).max(frame.number());
        let place = (frame.offset as u32, (frame.end() - frame.offset) as u32);
        if let Some(Entry::Note(note)) = frame.entry(&segment.opened) {
            match Note::read(&note) {
                Ok(note) => {
                    is_whole |= !is_damaged && matches!(note, Note::Whole(..));
                    all.push((note, place));
                }
                Err(error) => tracing::error!(%error, "a note of the journal cannot be read"),
            }
        }
    }
    (all, is_whole)
}

/// A message that was retained, and from when on nobody wants it.
pub type RetainedNote = (Arc<Message>, Option<u64>);

impl Opened {
    /// Starts to write, and reads the messages of earlier processes: `class_of` tells the class of a topic, `retained`
    /// gets the retained ones, all at once, and `done` hears that they are read.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        self,
        class_of: impl Fn(&[u8]) -> ClassId + Send + 'static,
        retained: impl FnOnce(Vec<RetainedNote>) + Send + 'static,
        done: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Running> {
        let Opened { journal, store } = self;
        let named = |name: &str| std::thread::Builder::new().name(name.into());
        let loading = journal.clone();
        let sizes = store.sizes.clone();
        // It ends by itself.
        named("journal-read").spawn(move || {
            let load = || load(&loading, &sizes, class_of, retained);
            if catch_unwind(AssertUnwindSafe(load)).is_err() {
                tracing::error!(
                    "the journal of sessions was not read to its end: none of it is removed"
                );
                loading.is_partial.store(true, Ordering::Relaxed);
                loading.loaded.send_replace(true);
            }
            done();
        })?;
        let writing = named("journal-write").spawn(move || store.run())?;
        Ok(Running { journal, writing })
    }

    /// One step of the thread that writes, while the other one still reads.
    #[cfg(test)]
    pub(super) fn step(&mut self) {
        self.store.step();
    }

    /// The same without threads.
    #[cfg(test)]
    pub(super) fn load_now(self) -> Store {
        load(&self.journal, &self.store.sizes.clone(), |_| ClassId(0), drop);
        self.store
    }
}

/// Reads the messages, from the oldest segment on.
fn load(
    journal: &Journal,
    sizes: &BTreeMap<u32, u64>,
    class_of: impl Fn(&[u8]) -> ClassId,
    tell: impl FnOnce(Vec<RetainedNote>),
) {
    let mut retained: HashMap<Bytes, (u64, RetainedNote)> = HashMap::new();
    for (&number, &length) in sizes {
        let Some(segment) = journal.lock().segments.get(&number).cloned() else { continue };
        let Some(found) = patiently(journal, &segment, (number, length), PAUSE) else { return };
        for run in found.chunks(AT_ONCE) {
            // The journal is never locked while the table of subscribers is asked.
            let class = |(note, _): &Found| match note {
                Note::Message(note) => class_of(&note.message.topic),
                _ => ClassId(0),
            };
            let classes: Vec<ClassId> = run.iter().map(class).collect();
            let mut inner = journal.lock();
            for ((note, (offset, length)), class) in run.iter().zip(classes) {
                let place = NotePlace { segment: number, offset: *offset, length: *length };
                let Note::Message(note) = note else {
                    inner.ledger.apply_message(note, None);
                    continue;
                };
                let message = Arc::new(Message { class, ..Message::clone(&note.message) });
                let note = MessageNote { message: message.clone(), ..MessageNote::clone(note) };
                let number = note.number;
                if note.is_retained {
                    let known = (number, (message.clone(), note.expires));
                    retained.insert(message.topic.clone(), known);
                }
                inner.ledger.apply_message(&Note::Message(Box::new(note)), Some(place));
            }
        }
    }
    journal.lock().ledger.loaded();
    // A million of them at once would let every client wait for the lock.
    let (mut all, mut found) = (retained.into_values(), Vec::new());
    while all.len() > 0 {
        let run: Vec<_> = all.by_ref().take(AT_ONCE).collect();
        let inner = journal.lock();
        let is_last = |(number, _): &(u64, RetainedNote)| inner.ledger.is_retained(*number);
        found.extend(run.into_iter().filter(is_last).map(|(_, note)| note));
    }
    tell(found);
    journal.loaded.send_replace(true);
}

/// The notes of a segment. Nothing is given up for an error that may pass: who needs the messages waits for a while. None
/// where the process ends before.
pub(super) fn patiently(
    journal: &Journal,
    segment: &Segment,
    (number, length): (u32, u64),
    pause: Duration,
) -> Option<Vec<Found>> {
    for _ in 0..TRIES {
        match notes(segment, length, &mut 0) {
            Ok((found, _)) => return Some(found),
            Err(error) => {
                tracing::error!(%error, segment = number, "the journal of sessions cannot be read");
            }
        }
        if journal.lock().is_closed {
            return None;
        }
        std::thread::sleep(pause);
    }
    let bytes = read_what_can_be(&*segment.file, length as usize);
    Some(notes_in(segment, &bytes, &mut 0).0)
}

impl Running {
    /// The journal.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// Makes all safe and ends the thread.
    pub async fn finish(self) {
        let Running { journal, writing } = self;
        journal.lock().is_closed = true;
        journal.wake.notify_one();
        let joined = tokio::task::spawn_blocking(move || writing.join()).await;
        if !matches!(joined, Ok(Ok(()))) {
            tracing::error!("the thread of the journal of sessions panicked");
        }
    }
}
