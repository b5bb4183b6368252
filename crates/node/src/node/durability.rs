//! What the log has of the node, and what the node owes the log.
//!
//! A durable record goes to its queues and to the log at the same time; its sender is told when the log has
//! it, and its fates follow it there. A record for which there is no memory is only *stored*, and read back
//! later. In the order of reading:
//!
//! | file | what it has |
//! |---|---|
//! | `unappended.rs` | what is on its way to the log, and what happens when it is there |
//! | `news.rs`, `ending.rs` | what the log may hear a little later; how a delivery ended |
//! | `segments.rs`, `parts.rs` | which segments there are, and on whose account their bytes are |
//! | `store.rs` | numbers and fates; whether the log works |
//! | `write.rs` | a record, a fate, a checkpoint go to the log |
//! | `backlog.rs` | which stored records there are, and which part of the log is read next |
//! | `read.rs` | a part of the log is asked for; a logged record on this process's clock |
//! | `sessions.rs`, `promises.rs` | publishers' sessions, which a crash must not forget |

mod backlog;
mod ending;
mod news;
mod parts;
mod promises;
mod read;
mod segments;
mod sessions;
mod store;
mod unappended;
mod write;

use std::sync::Arc;

use tidegate_log::{
    Chunk, Destinations, Recovery, Run, SegmentId, SessionPosition, StreamName, WallTime,
};
use tidegate_types::class::ClassId;
use tidegate_types::record::{DropReason, Origin, StreamId};
use tidegate_types::units::{Size, Time};

pub(super) use self::backlog::Next;
use self::backlog::StoredBacklog;
pub(super) use self::ending::Ending;
use self::sessions::PublisherSessions;
use self::store::Store;
pub(super) use self::unappended::{Stored, Unappended};
use super::base::Base;
use super::holdings::{EndedLeg, Left, Logged, StreamKey, all_of};
use crate::io::{Event, Output};
use crate::options::NodeOptions;

/// The log, where there is one, and what only it holds.
#[derive(Debug)]
pub(super) struct Durability {
    store: Box<Store>,
    backlog: StoredBacklog,
    sessions: PublisherSessions,
    /// In the names of records that the log knows.
    origin: Arc<Origin>,
}

/// Stored records of one chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoredRun {
    /// The stream that they count for.
    pub(super) stream: StreamKey,
    pub(super) id: StreamId,
    pub(super) segment: SegmentId,
    pub(super) run: Run,
    pub(super) bytes: Size,
    /// The class that they are read back for.
    pub(super) class: ClassId,
    /// Where an attempt to send them may have arrived.
    pub(super) may_be_there: Destinations,
}

impl Durability {
    /// Goes on where a log ends, if the node has one.
    pub(super) fn new(options: &NodeOptions, origin: Arc<Origin>, recovery: &Recovery) -> Self {
        let store = Box::new(Store::new(options.log.clone(), recovery));
        Durability {
            store,
            backlog: StoredBacklog::default(),
            sessions: PublisherSessions::default(),
            origin,
        }
    }

    /// In the names of records that the log knows.
    pub(super) fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// The node's side of its log, to be looked at.
    pub(super) fn log(&self) -> &Store {
        &self.store
    }

    /// What only the log holds, to be looked at.
    pub(super) fn backlog(&self) -> &StoredBacklog {
        &self.backlog
    }

    /// What the log is to do.
    pub(super) fn next_output(&mut self, base: &mut Base) -> Option<Output> {
        let (appends, releases) = self.store.take_work()?;
        if !releases.is_empty() {
            base.outbox.push(Output::Release(releases));
        }
        (!appends.is_empty()).then_some(Output::Append(appends))
    }

    /// Whether anything has left the log since this was asked last.
    pub(super) fn take_freed(&mut self) -> bool {
        self.store.take_freed()
    }

    /// People hear when the log begins to fail, and when it works again.
    pub(super) fn tell_state(&mut self, base: &mut Base, is_failing: bool) {
        if std::mem::replace(&mut self.store.is_told, is_failing) != is_failing {
            base.outbox.report(Event::LogFailing(is_failing));
        }
    }

    /// The next entry up to `upto` that is in the log now.
    pub(super) fn next_appended(&mut self, upto: u64) -> Option<Unappended> {
        self.store.next_appended(upto)
    }

    /// An entry did not get into the log; answers with what it was, and whether the log fails for it.
    pub(super) fn take_failed(&mut self, now: Time, number: u64) -> (Option<Unappended>, bool) {
        let failed = self.store.take_failed(now, number);
        let is_news = failed.is_some() && self.store.is_failing();
        (failed, is_news)
    }

    /// A record did not get into the log: it needs no place there.
    pub(super) fn unlog(&mut self, segment: SegmentId, stream: StreamId) {
        self.store.settle(segment, stream, 1);
    }

    /// A delivery of a logged record ended, perhaps by a neighbour: the log must know.
    pub(super) fn note_fate(&mut self, now: Time, leg: &EndedLeg, ending: Ending) {
        let EndedLeg { logged, destinations, is_last } = *leg;
        let run = Run { first: logged.seq, last: logged.seq, destinations };
        self.store.note_fate(now, logged.stream, run, ending);
        if is_last {
            self.store.settle(logged.segment, logged.stream, 1);
        }
    }

    /// Stored records were dropped.
    pub(super) fn note_stored_fate(&mut self, now: Time, gone: &StoredRun, reason: DropReason) {
        self.store.note_fate(now, gone.id, gone.run, Ending::dropped(reason));
        self.store.settle(gone.segment, gone.id, gone.run.records());
    }

    /// Some destinations of a record that was read back are no more.
    pub(super) fn note_unroutable(&mut self, now: Time, id: StreamId, run: Run) {
        self.store.note_fate(now, id, run, Ending::dropped(DropReason::Unroutable));
    }

    /// A record that memory leaves to the log. Answers with the stream that it counts for.
    pub(super) fn put_back(&mut self, base: &Base, logged: &Logged, left: &Left) -> StreamKey {
        let Logged { stream: id, seq, segment, .. } = *logged;
        let (stream, size) = (left.held.stream, left.held.size);
        self.left_ahead(left.owed.ahead, size);
        let stored = self.backlog.put_back(id, stream, base.rule_of(stream).class, segment);
        stored.chunks.entry(segment).or_default().add(seq, all_of(&left.owed.legs), size);
        stored.mark(seq, left.may_be_there);
        stored.stream
    }

    /// A stored record is in the log. Answers with the stream that it counts for.
    pub(super) fn file(&mut self, record: &Stored, class: ClassId) -> StreamKey {
        self.backlog.add(record, class)
    }

    /// Rules have changed: streams are read for other classes.
    pub(super) fn reclass(&mut self, base: &Base) {
        self.backlog.reclass(|key| base.rule_of(key).class);
    }

    /// A record that was read back, for a class, came to memory (or left it).
    pub(super) fn came_ahead(&mut self, class: ClassId, size: Size) {
        *self.backlog.ahead.entry(class).or_default() += size;
    }

    /// A record that was read back left memory, if it was.
    pub(super) fn left_ahead(&mut self, class: Option<ClassId>, size: Size) {
        if let Some(ahead) = class.and_then(|class| self.backlog.ahead.get_mut(&class)) {
            *ahead -= size;
        }
    }

    /// What the wall clock shows; true where it was not known before.
    pub(super) fn set_wall(&mut self, now: Time, wall: WallTime) -> bool {
        self.store.wall.replace((now, wall)).is_none()
    }

    /// A reader has got so far; false without a log, and where there is no place for one more.
    pub(super) fn note_position(&mut self, now: Time, position: SessionPosition) -> bool {
        self.store.note_position(now, position)
    }

    /// The log knew a stream of this name and last number.
    pub(super) fn remember_name(&mut self, id: StreamId, name: StreamName, last_seq: u64) {
        self.backlog.names.insert(id, (name, last_seq));
    }

    /// A recovered log has these records of a stream.
    pub(super) fn owe(
        &mut self,
        id: StreamId,
        stream: StreamKey,
        class: ClassId,
        segment: SegmentId,
        chunk: Chunk,
    ) {
        self.store.owe(segment, chunk.runs.records());
        self.backlog.put_back(id, stream, class, segment).chunks.insert(segment, chunk);
    }
}
