//! Records between memory and the log: what the log has taken or refused, what leaves memory for it, what is
//! read back.

use tidegate_log::{Destinations, Fetched, LoggedRecord, Run, SegmentId, WallTime};
use tidegate_schedule::queue::RecordKey;
use tidegate_types::record::{DropReason, Fate, RefuseReason, StreamId};
use tidegate_types::units::{Size, Time};

use super::Node;
use super::durability::{Next, Stored, StoredRun, Unappended};
use super::holdings::{Holdings, Logged, Owed, ReadBack, Room, StreamKey};
use crate::io::Event;
use crate::rules::Discipline;

/// The log answers.
impl Node {
    /// The log holds these: their senders may know.
    pub(super) fn appended(&mut self, upto: u64) {
        while let Some(what) = self.durability.next_appended(upto) {
            match what {
                Unappended::Checkpoint(segment, promises) => {
                    self.durability.checkpointed(segment);
                    for promise in promises {
                        self.durability.keep_promise(&mut self.base, promise);
                    }
                }
                Unappended::Promise(promise) => {
                    self.durability.keep_promise(&mut self.base, *promise)
                }
                Unappended::Held { record, reply, .. } => {
                    self.let_go(record);
                    self.base.answer(reply, Ok(()));
                }
                Unappended::Stored(stored) => {
                    self.base.answer(stored.reply, Ok(()));
                    let class = self.base.rule_of(stored.stream).class;
                    let to = self.durability.file(&stored, class);
                    let deliveries = u64::from(stored.destinations.count());
                    self.base.holdings.filed(stored.stream, to, deliveries, stored.size);
                }
                Unappended::Other => {}
            }
        }
        self.made_log_room();
        if !self.durability.log().is_failing() {
            self.durability.tell_state(&mut self.base, false);
        }
        self.check_drained();
    }

    /// The log does not hold these. Senders are told that nothing is promised; what is queued stays so, for
    /// not all of them send again.
    pub(super) fn append_failed(&mut self, appends: &[u64], reason: RefuseReason) {
        let mut is_any_news = false;
        for &number in appends {
            let (failed, is_news) = self.durability.take_failed(self.base.now, number);
            is_any_news |= is_news;
            match failed {
                Some(Unappended::Held { record, reply, taken, .. }) => {
                    self.durability.untake(taken);
                    let is_held = self.unlogged(record);
                    // One that has its fates already needs no log.
                    self.base.answer(reply, if is_held { Err(reason) } else { Ok(()) });
                }
                Some(Unappended::Stored(stored)) => self.unstored(*stored, reason),
                Some(Unappended::Checkpoint(_, promises)) => self.durability.owe_promises(promises),
                Some(Unappended::Promise(promise)) => self.durability.owe_promises([*promise]),
                Some(Unappended::Other) | None => {}
            }
        }
        if is_any_news {
            self.durability.tell_state(&mut self.base, true);
        }
        self.made_log_room();
        self.check_drained();
    }

    /// A record did not get into the log; answers whether it is held. One that waits for the log leaves its
    /// queues: its sender is refused and sends it again.
    fn unlogged(&mut self, record: RecordKey) -> bool {
        let logged = self.base.holdings.owed_mut(record).and_then(|owed| owed.logged.take());
        if let Some(logged) = logged {
            self.durability.unlog(logged.segment, logged.stream);
        }
        let is_held = self.base.holdings.record(record).is_some();
        if self.base.holdings.waits_for_log(record) {
            for key in self.base.holdings.legs_of(record) {
                self.base.holdings.take(key);
                self.finish(key, Fate::Dropped(DropReason::Storage));
            }
        }
        is_held
    }

    /// A record that only the log was to hold did not get there.
    fn unstored(&mut self, stored: Stored, reason: RefuseReason) {
        let Stored { stream, id, segment, size, reply, taken, destinations, .. } = stored;
        self.durability.unlog(segment, id);
        self.durability.untake(taken);
        self.base.answer(reply, Err(reason));
        let deliveries = u64::from(destinations.count());
        self.base.holdings.stored_ended(stream, deliveries, size, DropReason::Storage);
        self.admission.made_room(&mut self.base, stream, true);
    }

    /// The log has a record that waited for it.
    fn let_go(&mut self, record: RecordKey) {
        if !self.base.holdings.waits_for_log(record) {
            return;
        }
        if let Some(owed) = self.base.holdings.owed_mut(record) {
            owed.after_log = false;
        }
        for key in self.base.holdings.legs_of(record) {
            if !self.preparation.is_deferred(key) {
                self.base.holdings.make_ready(key);
            }
        }
    }

    /// Streams that were full for want of room in the log go on, if it has much of it again.
    pub(super) fn made_log_room(&mut self) -> bool {
        let has_room = self.durability.log().has_much_room();
        if has_room {
            self.admission.made_log_room(&mut self.base);
        }
        has_room
    }
}

/// To the log only, and back.
impl Node {
    /// Takes a record out of memory that the log has: it is read back when there is room ahead.
    pub(super) fn leave(&mut self, record: RecordKey) {
        let Some(logged) = self.base.holdings.logged_of(record) else { return };
        let left = self.base.holdings.leave(record);
        // What acted on it is told only with a fate that comes while it is in memory.
        for leg in &left.owed.legs {
            self.deeds.take(leg.delivery);
        }
        let to = self.durability.put_back(&self.base, &logged, &left);
        self.base.holdings.count_left(&left, to);
    }

    /// Records are read back.
    pub(super) fn fetched(&mut self, fetched: Fetched) {
        let Some(class) = self.durability.take_asked() else {
            self.base.unsupported("records that nobody asked for");
            return;
        };
        if self.is_stopping {
            // They stay in the log, and are sent after the next start.
            return;
        }
        let Some(pass) = self.durability.backlog().pass_of(class) else { return };
        for record in fetched.records {
            self.take_up(pass.segment, record);
        }
        if self.durability.was_read(class, fetched.next, fetched.is_end) == Next::Missing {
            // The log cannot find them: here they end.
            let (segment, before) = (pass.segment, self.base.holdings.stored());
            for id in self.durability.backlog().wanted(pass) {
                while self.drop_stored(id, segment, u64::MAX, DropReason::Storage) {}
            }
            let deliveries = before.saturating_sub(self.base.holdings.stored());
            self.base.outbox.report(Event::LogLacks { segment, deliveries });
        }
    }

    /// A stored record comes to memory, if it still waits and there is room.
    fn take_up(&mut self, segment: SegmentId, logged: LoggedRecord) {
        let has_room = self.base.holdings.bytes() + logged.size() <= self.base.options.memory;
        let Some(back) = self.durability.take_up(segment, &logged, has_room) else { return };
        let Some(rule) = self.base.options.rules.covering(&logged.key) else {
            return self.end_stored(&back, DropReason::Unroutable);
        };
        let expires = self.durability.expiry_of(self.base.now, segment, &logged);
        if expires.is_some_and(|at| at <= self.base.now) {
            return self.end_stored(&back, DropReason::Expired);
        }
        // Where there is no place for one more stream, it keeps its own.
        let to = self.base.holdings.stream_under(back.stream, rule);
        self.hold(&back, to.unwrap_or(back.stream), expires, logged);
    }

    /// Puts a record that was read back in the queues of its stream, late.
    fn hold(
        &mut self,
        back: &StoredRun,
        stream: StreamKey,
        expires: Option<Time>,
        logged: LoggedRecord,
    ) {
        let StoredRun { stream: from, id, segment, run, bytes, class, .. } = *back;
        let stored = u64::from(run.destinations.count());
        self.base.holdings.taken_back(from, stored, bytes);
        self.admission.made_room(&mut self.base, from, true);
        let rule = self.base.rule_of(stream);
        let is_newest_only = rule.discipline == Discipline::NewestOnly;
        let legs = Holdings::legs_under(rule, run.destinations);
        let orphans = legs.iter().fold(run.destinations, |left, (_, bit)| left - *bit);
        if orphans != Destinations::NONE {
            let run = Run { destinations: orphans, ..run };
            self.durability.note_unroutable(self.base.now, id, run);
        }
        let (size, seq, is_scripted) = (logged.size(), run.first, rule.script.is_some());
        let record = self.durability.record_of(self.base.now, segment, logged, expires);
        let is_old = is_newest_only && self.base.holdings.is_superseded(stream, &record.key, seq);
        let is_newest = is_newest_only && !is_old;
        if is_newest {
            self.supersede(stream, &record.key);
        }
        self.durability.came_ahead(class, size);
        let logged = Some(Logged { stream: id, seq, segment, number: 0 });
        let owed = Owed { seq, logged, ahead: Some(class), ..Owed::default() };
        let is_inherited = self.durability.log().is_inherited(segment);
        let again = if is_inherited { run.destinations } else { back.may_be_there };
        let unroutable = u64::from(orphans.count());
        let back =
            ReadBack { stream, record, size, owed, stored, legs, unroutable, again, is_newest };
        let Node { base, preparation, .. } = self;
        let key = base.holdings.read_back(from, back, |delivery, _, _| {
            if is_scripted {
                preparation.show(delivery);
            }
        });
        if is_old {
            for delivery in self.base.holdings.legs_of(key) {
                self.finish(delivery, Fate::Dropped(DropReason::Superseded));
            }
        }
    }

    /// Stored records end.
    fn end_stored(&mut self, gone: &StoredRun, reason: DropReason) {
        let StoredRun { stream, run, bytes, .. } = *gone;
        let deliveries = run.records() * u64::from(run.destinations.count());
        self.durability.note_stored_fate(self.base.now, gone, reason);
        self.base.holdings.stored_ended(stream, deliveries, bytes, reason);
        self.admission.made_room(&mut self.base, stream, true);
    }

    /// Drops the first records of a chunk, at most so many and one run of them; false if there is none.
    fn drop_stored(
        &mut self,
        id: StreamId,
        segment: SegmentId,
        records: u64,
        reason: DropReason,
    ) -> bool {
        let gone = self.durability.take_first(id, segment, records);
        if let Some(gone) = &gone {
            self.end_stored(gone, reason);
        }
        gone.is_some()
    }

    /// Drops the oldest stored record of a stream; false if there is none.
    pub(super) fn drop_oldest_stored(&mut self, stream: StreamKey) -> bool {
        if self.base.holdings.stream(stream).account.stored() == 0 {
            return false;
        }
        let Some((id, segment)) = self.durability.backlog().oldest_of(stream) else { return false };
        self.drop_stored(id, segment, 1, DropReason::Full)
    }

    /// Drops what a stream alone still holds of the oldest segments, until so much of the log, or of its owner's share, is
    /// free.
    /// Where that cannot help, it drops nothing.
    pub(super) fn drop_segments(&mut self, stream: StreamKey, wanted: Size, room: Room) {
        let mut free = Size::ZERO;
        for (segment, id, bytes) in self.durability.droppable(stream, wanted, room) {
            while free < wanted && self.drop_stored(id, segment, u64::MAX, DropReason::Full) {}
            free += bytes;
        }
    }
}

/// Sessions.
impl Node {
    /// What the wall clock shows. When it is known for the first time, sessions end by it.
    pub(super) fn set_wall(&mut self, wall: WallTime) {
        if self.durability.set_wall(self.base.now, wall) {
            self.durability.date_sessions(&mut self.base, wall);
        }
    }
}
