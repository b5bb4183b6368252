//! The node's side of its log: what is on its way there, which segments there are, and whether it works.
//!
//! A state machine that knows no record: `write.rs` fills it.

use std::collections::BTreeMap;

use tidegate_log::{
    Checkpoint, Entry, FRAME, FateRun, Recovery, Run, SegmentId, SessionPosition, TAG_LENGTH,
    WallTime,
};
use tidegate_types::limits::{LOG_SEGMENT_MAX, UNAPPENDED_MAX};
use tidegate_types::record::StreamId;
use tidegate_types::shares::limit;
use tidegate_types::units::{Size, Time};

use super::ending::Ending;
use super::news::News;
use super::segments::Segments;
use super::unappended::{Promise, Unappended};
use crate::io::Append;
use crate::node::holdings::{Logged, OwnerKey};
use crate::options::{BacklogOrder, LogOptions};
use crate::status::LogStatus;

/// A segment is at least so many times as large as the checkpoint that it begins with; in a log that is
/// nearly full less will do, for only with the next one does anything of it go.
const CHECKPOINT_PART: u64 = 8;
const CHECKPOINT_PART_FULL: u64 = 2;

/// The node's side of its log. Without a log it takes nothing and has nothing to do.
#[derive(Debug)]
pub(crate) struct Store {
    is_there: bool,
    pub(crate) options: LogOptions,
    appends: Vec<Append>,
    last_number: u64,
    pub(crate) unappended: BTreeMap<u64, Unappended>,
    unappended_bytes: Size,
    segments: Segments,
    /// The first one that this process began, or will: times of earlier ones are of another clock.
    pub(crate) own_since: SegmentId,
    /// The next entry must be a checkpoint.
    must_begin: bool,
    last_checkpoint: u64,
    checkpoint_size: Size,
    /// Set while the log fails, or has not begun: when it is tried; `Time::FAR` while it is being tried.
    failed: Option<Time>,
    /// Whether people were told that it fails.
    pub(crate) is_told: bool,
    news: News,
    /// When a wall clock said what.
    pub(crate) wall: Option<(Time, WallTime)>,
}

impl Store {
    /// Goes on where a recovered log ends, in a segment of its own.
    pub(crate) fn new(options: Option<LogOptions>, recovery: &Recovery) -> Self {
        let is_there = options.is_some();
        let none = LogOptions {
            boot: 0,
            bound: Size::ZERO,
            segment: LOG_SEGMENT_MAX,
            backlog: BacklogOrder::default(),
        };
        let options = options.unwrap_or(none);
        let next = recovery.next_segment();
        Store {
            is_there,
            options,
            appends: Vec::new(),
            last_number: recovery.last_sequence,
            unappended: BTreeMap::new(),
            unappended_bytes: Size::ZERO,
            segments: Segments::new(recovery),
            own_since: next,
            must_begin: is_there,
            last_checkpoint: 0,
            checkpoint_size: Size::ZERO,
            // Numbers are given only when a checkpoint of this process is on disk: what an earlier one
            // gave and lost in a crash is then skipped for ever.
            failed: is_there.then_some(Time::ZERO),
            is_told: false,
            news: News::new(recovery.sessions.positions.clone()),
            wall: None,
        }
    }

    /// Whether a record is in the log already.
    pub(crate) fn is_on_disk(&self, logged: &Logged) -> bool {
        !self.unappended.contains_key(&logged.number)
    }

    /// Whether entries can be written now: the log works, or is being tried with a checkpoint, behind which they
    /// stand.
    pub(crate) fn takes_entries(&self) -> bool {
        !self.must_begin || !self.is_failing()
    }

    /// Whether an earlier process wrote a segment: what it sent of that, nobody knows.
    pub(crate) fn is_inherited(&self, segment: SegmentId) -> bool {
        segment < self.own_since
    }

    /// The segments that there are.
    pub(crate) fn segments(&self) -> &Segments {
        &self.segments
    }

    /// What people are shown of it; only the log holds `stored` deliveries.
    pub(crate) fn status(&self, stored: u64) -> Option<LogStatus> {
        self.is_there.then(|| LogStatus {
            is_working: !self.is_failing(),
            segments: self.segments.count() as u64,
            bytes: self.segments.bytes(),
            bound: self.options.bound,
            held_records: self.segments.live(),
            left_deliveries: stored,
        })
    }

    /// Whether durable records are refused.
    pub(crate) fn is_failing(&self) -> bool {
        self.failed.is_some()
    }

    /// What records may fill of the log; the rest is for what makes room again.
    fn bound_of_records(&self) -> Size {
        Size(self.options.bound.0 / 8 * 7)
    }

    /// Whether a record finds room in the log, of which `ahead` bytes at most may be on their way.
    pub(crate) fn has_room(&self, size: Size, ahead: Size) -> bool {
        let is_little =
            self.unappended_bytes == Size::ZERO || self.unappended_bytes + size <= ahead;
        is_little
            && self.unappended.len() < UNAPPENDED_MAX
            && self.segments.bytes() + size <= self.bound_of_records()
    }

    /// What an owner of this quota may have of the log.
    fn limit_of(&self, quota: Option<Size>) -> u64 {
        limit(self.segments.bytes().0, self.bound_of_records().0, quota.map(|quota| quota.0))
    }

    /// Whether a record finds room in what its owner may have of the log.
    pub(crate) fn has_share(&self, owner: OwnerKey, quota: Option<Size>, size: Size) -> bool {
        self.segments.parts().of(owner).saturating_add(size.0) <= self.limit_of(quota)
    }

    /// Whether an owner who had its share of the log may go on: a part of the share is free.
    pub(crate) fn has_much_share(&self, owner: OwnerKey, quota: Option<Size>) -> bool {
        self.segments.parts().of(owner) <= self.limit_of(quota) / 8 * 7
    }

    /// Whether anything has left the log since this was asked last.
    pub(crate) fn take_freed(&mut self) -> bool {
        self.segments.take_freed()
    }

    /// Whether a log that was full may be filled again: a part of it is free.
    pub(crate) fn has_much_room(&self) -> bool {
        self.is_there && self.unappended.len() <= UNAPPENDED_MAX / 2 && !self.is_nearly_full()
    }

    /// Whether the next entry must begin a segment.
    pub(crate) fn is_segment_due(&self) -> bool {
        let current = self.segments.current().map_or(Size::ZERO, |segment| segment.bytes);
        let part = if self.is_nearly_full() { CHECKPOINT_PART_FULL } else { CHECKPOINT_PART };
        let least = Size(self.checkpoint_size.0 * part).min(LOG_SEGMENT_MAX);
        self.must_begin || current >= self.options.segment.max(least)
    }

    /// The next entry begins a segment; false where it does anyway.
    pub(crate) fn end_segment(&mut self) -> bool {
        self.flush_fates();
        self.is_there && !std::mem::replace(&mut self.must_begin, true)
    }

    fn is_nearly_full(&self) -> bool {
        self.segments.bytes().0 > self.options.bound.0 / 8 * 6
    }

    /// Whether the log has no room because of its present segment, of which nothing is needed any more: no
    /// record would ever come that begins the next one.
    fn is_stuck(&self) -> bool {
        let current = self.segments.current();
        self.is_nearly_full()
            && current.is_some_and(|segment| segment.live == 0)
            && self.is_segment_due()
    }

    /// Begins a segment with all that holds now.
    pub(crate) fn begin(&mut self, checkpoint: Checkpoint, promises: Vec<Promise>) {
        if !self.must_begin {
            // The checkpoint knows these fates, but only that they are: who reads the log wants to know which.
            self.flush_fates();
        }
        let segment = self.segments.begin_next();
        let positions = self.news.positions();
        let checkpoint = Checkpoint { segment, positions, ..checkpoint };
        self.must_begin = false;
        self.news.forget();
        let before = self.segments.bytes();
        self.last_checkpoint =
            self.push(Entry::Checkpoint(checkpoint), Unappended::Checkpoint(segment, promises));
        self.checkpoint_size = self.segments.bytes() - before;
    }

    /// Appends an entry that is no record to the present segment; answers with its number.
    pub(crate) fn push(&mut self, entry: Entry, unappended: Unappended) -> u64 {
        if !self.is_there {
            return 0;
        }
        self.segments.add(size_of(&entry));
        self.append(entry, unappended)
    }

    /// Appends a record of a stream, on its owner's account; answers with its number.
    pub(crate) fn push_record(
        &mut self,
        stream: StreamId,
        owner: Option<OwnerKey>,
        entry: Entry,
        unappended: Unappended,
    ) -> u64 {
        if !self.is_there {
            return 0;
        }
        self.segments.add_record(stream, owner, size_of(&entry));
        self.append(entry, unappended)
    }

    fn append(&mut self, entry: Entry, unappended: Unappended) -> u64 {
        self.last_number += 1;
        self.unappended_bytes += unappended.size();
        self.unappended.insert(self.last_number, unappended);
        self.appends.push(Append { number: self.last_number, entry });
        self.last_number
    }

    /// The segment that entries go to.
    pub(crate) fn segment(&self) -> SegmentId {
        self.segments.last()
    }

    /// Notes how deliveries ended; a checkpoint that is due will say so anyway.
    pub(crate) fn note_fate(
        &mut self,
        now: Time,
        stream: StreamId,
        run: Run,
        Ending { fate, by, deeds }: Ending,
    ) {
        let wall = self.wall_at(now);
        let run = (!self.must_begin).then_some(FateRun { stream, run, fate, by, deeds });
        self.news.note_fate(now, wall, run);
    }

    /// A reader has got so far; false without a log, and where there is no place for one more.
    pub(crate) fn note_position(&mut self, now: Time, position: SessionPosition) -> bool {
        self.is_there && self.news.note_position(now, position)
    }

    /// What the log has not heard yet.
    pub(crate) fn news(&self) -> &News {
        &self.news
    }

    /// A session is over.
    pub(crate) fn forget_positions(&mut self, session: &str) {
        self.news.forget_positions(session);
    }

    /// Adds records without a fate, of a log that was recovered.
    pub(crate) fn owe(&mut self, segment: SegmentId, records: u64) {
        self.segments.owe(segment, records);
    }

    /// Records of a segment have all their fates. It goes with them, if nothing else needs it.
    pub(crate) fn settle(&mut self, segment: SegmentId, stream: StreamId, records: u64) {
        self.segments.settle(segment, stream, records);
    }

    /// The checkpoint of a segment is on disk: what is before it goes, where nothing is owed.
    pub(crate) fn begun(&mut self, segment: SegmentId) {
        self.segments.begun(segment);
    }

    /// The next entry up to `upto` that is in the log now.
    pub(crate) fn next_appended(&mut self, upto: u64) -> Option<Unappended> {
        let entry = self.unappended.first_entry().filter(|entry| *entry.key() <= upto)?;
        let (number, what) = entry.remove_entry();
        self.unappended_bytes -= what.size();
        if number >= self.last_checkpoint {
            self.failed = None;
        }
        Some(what)
    }

    /// An entry did not get into the log.
    pub(crate) fn take_failed(&mut self, now: Time, number: u64) -> Option<Unappended> {
        let what = self.unappended.remove(&number)?;
        self.unappended_bytes -= what.size();
        if number >= self.last_checkpoint {
            self.must_begin = true;
            self.news.forget_fates();
            self.failed = Some(now + tidegate_types::limits::LOG_RETRY);
        }
        Some(what)
    }

    /// Whether something must be written now.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        match self.failed {
            Some(at) => at <= now,
            None => {
                let is_owed = self.news.due.is_some();
                let is_free = is_owed && !self.appends.is_empty();
                self.news.due.is_some_and(|at| at <= now) || is_free || self.is_stuck()
            }
        }
    }

    /// When something must be written at the latest.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        match self.failed {
            Some(at) => (at < Time::FAR).then_some(at),
            None => self.news.due,
        }
    }

    /// The failed log is being tried.
    pub(crate) fn probe(&mut self) {
        self.failed = Some(Time::FAR);
    }

    /// Puts the fates and positions that wait among the appends.
    pub(crate) fn flush_fates(&mut self) {
        if self.must_begin {
            return;
        }
        for entry in self.news.take_entries() {
            self.push(entry, Unappended::Other);
        }
    }

    /// Whether all that is owed to the log is in it, as far as it works.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_failing() || self.unappended.is_empty() && self.news.due.is_none()
    }

    /// What the log is to do: entries to append, and segments to delete. An append goes first, so that its commit
    /// begins at once, and the fates of a segment's records are among these: else a crash would leave records that
    /// seem to be owed and are nowhere.
    pub(crate) fn take_work(&mut self) -> Option<(Vec<Append>, Vec<SegmentId>)> {
        if self.appends.is_empty() && !self.segments.has_releases() {
            return None;
        }
        if self.segments.has_releases() {
            self.flush_fates();
        }
        Some((std::mem::take(&mut self.appends), self.segments.take_releases()))
    }

    /// What a wall clock would show at a time of the monotonic one, if it was ever set.
    pub(crate) fn wall_at(&self, at: Time) -> Option<WallTime> {
        let (then, WallTime { unix_ns, uncertainty }) = self.wall?;
        let unix_ns = (unix_ns + at.since(then).as_nanos() as u64)
            .saturating_sub(then.since(at).as_nanos() as u64);
        Some(WallTime { unix_ns, uncertainty })
    }
}

/// What an entry takes of a segment.
fn size_of(entry: &Entry) -> Size {
    Size((FRAME + entry.body_size() + TAG_LENGTH) as u64)
}
