//! The node's side of its log: what is on its way there, which segments there are, and whether it works.
//!
//! A state machine that knows no record: `write.rs` fills it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_log::{
    COPY_AT, Checkpoint, Entry, FRAME, FateRun, Recovery, Run, SegmentId, SessionPosition,
    TAG_LENGTH, WallTime,
};
use tidegate_types::limits::{LOG_SEGMENT_MAX, UNAPPENDED_MAX};
use tidegate_types::record::{Fate, StreamId};
use tidegate_types::units::{Size, Time};

use super::news::News;
use super::unappended::{Promise, Unappended};
use crate::io::Append;
use crate::node::holdings::Logged;
use crate::options::{BacklogOrder, LogOptions};
use crate::status::LogStatus;

/// A segment is at least so many times as large as the checkpoint that it begins with; in a log that is
/// nearly full less will do, for only with the next one does anything of it go.
const CHECKPOINT_PART: u64 = 8;
const CHECKPOINT_PART_FULL: u64 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    /// As the node reckons them; the file has a footer more, or a tag less an entry.
    bytes: Size,
    /// Records without a fate.
    live: u64,
}

/// The node's side of its log. Without a log it takes nothing and has nothing to do.
#[derive(Debug)]
pub(crate) struct Store {
    is_there: bool,
    pub(crate) options: LogOptions,
    appends: Vec<Append>,
    last_number: u64,
    pub(crate) unappended: BTreeMap<u64, Unappended>,
    unappended_bytes: Size,
    segments: BTreeMap<SegmentId, Segment>,
    bytes: Size,
    last_segment: SegmentId,
    /// The first one that this process began, or will: times of earlier ones are of another clock.
    pub(crate) own_since: SegmentId,
    /// The next entry must be a checkpoint.
    must_begin: bool,
    last_checkpoint: u64,
    checkpoint_size: Size,
    /// The newest segment of which the checkpoint is on disk.
    begun: Option<SegmentId>,
    /// Set while the log fails, or has not begun: when it is tried; `Time::FAR` while it is being tried.
    failed: Option<Time>,
    /// Whether people were told that it fails.
    pub(crate) is_told: bool,
    news: News,
    releases: Vec<SegmentId>,
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
        // As in segments of its own, headers do not count.
        let of_entries = |bytes: Size| Size(bytes.0.saturating_sub(COPY_AT as u64));
        let segment = |(&id, &bytes): (&SegmentId, &Size)| {
            (id, Segment { bytes: of_entries(bytes), live: 0 })
        };
        Store {
            is_there,
            options,
            appends: Vec::new(),
            last_number: recovery.last_sequence,
            unappended: BTreeMap::new(),
            unappended_bytes: Size::ZERO,
            segments: recovery.segments.iter().map(segment).collect(),
            bytes: recovery.segments.values().map(|&bytes| of_entries(bytes)).sum(),
            last_segment: SegmentId(next.0 - 1),
            own_since: next,
            must_begin: is_there,
            last_checkpoint: 0,
            checkpoint_size: Size::ZERO,
            begun: None,
            // Numbers are given only when a checkpoint of this process is on disk: what an earlier one
            // gave and lost in a crash is then skipped for ever.
            failed: is_there.then_some(Time::ZERO),
            is_told: false,
            news: News::new(recovery.sessions.positions.clone()),
            releases: Vec::new(),
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

    /// Bytes of all segments.
    pub(crate) fn bytes(&self) -> Size {
        self.bytes
    }

    /// What people are shown of it; only the log holds `stored` deliveries.
    pub(crate) fn status(&self, stored: u64) -> Option<LogStatus> {
        self.is_there.then(|| LogStatus {
            is_working: !self.is_failing(),
            segments: self.segments.len() as u64,
            bytes: self.bytes,
            bound: self.options.bound,
            held_records: self.segments.values().map(|segment| segment.live).sum(),
            left_deliveries: stored,
        })
    }

    /// Whether durable records are refused.
    pub(crate) fn is_failing(&self) -> bool {
        self.failed.is_some()
    }

    /// Whether a record finds room in the log, of which `ahead` bytes at most may be on their way.
    pub(crate) fn has_room(&self, size: Size, ahead: Size) -> bool {
        let records = self.options.bound.0 / 8 * 7;
        let is_little =
            self.unappended_bytes == Size::ZERO || self.unappended_bytes + size <= ahead;
        is_little && self.unappended.len() < UNAPPENDED_MAX && self.bytes.0 + size.0 <= records
    }

    /// Whether a log that was full may be filled again: a part of it is free.
    pub(crate) fn has_much_room(&self) -> bool {
        self.is_there && self.unappended.len() <= UNAPPENDED_MAX / 2 && !self.is_nearly_full()
    }

    /// Whether the next entry must begin a segment.
    pub(crate) fn is_segment_due(&self) -> bool {
        let current =
            self.segments.get(&self.last_segment).map_or(Size::ZERO, |segment| segment.bytes);
        let part = if self.is_nearly_full() { CHECKPOINT_PART_FULL } else { CHECKPOINT_PART };
        let least = Size(self.checkpoint_size.0 * part).min(LOG_SEGMENT_MAX);
        self.must_begin || current >= self.options.segment.max(least)
    }

    fn is_nearly_full(&self) -> bool {
        self.bytes.0 > self.options.bound.0 / 8 * 6
    }

    /// Whether the log has no room because of its present segment, of which nothing is needed any more: no
    /// record would ever come that begins the next one.
    fn is_stuck(&self) -> bool {
        let current = self.segments.get(&self.last_segment);
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
        self.last_segment = SegmentId(self.last_segment.0 + 1);
        self.segments.insert(self.last_segment, Segment::default());
        let segment = self.last_segment;
        let positions = self.news.positions();
        let checkpoint = Checkpoint { segment, positions, ..checkpoint };
        self.must_begin = false;
        self.news.forget();
        let before = self.bytes;
        self.last_checkpoint =
            self.push(Entry::Checkpoint(checkpoint), Unappended::Checkpoint(segment, promises));
        self.checkpoint_size = self.bytes - before;
    }

    /// Appends an entry to the present segment; answers with its number.
    pub(crate) fn push(&mut self, entry: Entry, unappended: Unappended) -> u64 {
        if !self.is_there {
            return 0;
        }
        self.last_number += 1;
        let size = Size((FRAME + entry.body_size() + TAG_LENGTH) as u64);
        self.bytes += size;
        let segment = self.segments.entry(self.last_segment).or_default();
        segment.bytes += size;
        segment.live += u64::from(matches!(entry, Entry::Record(_)));
        self.unappended_bytes += unappended.size();
        self.unappended.insert(self.last_number, unappended);
        self.appends.push(Append { number: self.last_number, entry });
        self.last_number
    }

    /// The segment that entries go to.
    pub(crate) fn segment(&self) -> SegmentId {
        self.last_segment
    }

    /// Notes how deliveries ended; a checkpoint that is due will say so anyway.
    pub(crate) fn note_fate(
        &mut self,
        now: Time,
        stream: StreamId,
        run: Run,
        (fate, by): (Fate, Option<Arc<str>>),
    ) {
        let wall = self.wall_at(now);
        let run = (!self.must_begin).then_some(FateRun { stream, run, fate, by });
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
        self.segments.entry(segment).or_default().live += records;
    }

    /// Records of a segment have all their fates. It goes with them, if nothing else needs it.
    pub(crate) fn settle(&mut self, segment: SegmentId, records: u64) {
        if let Some(state) = self.segments.get_mut(&segment) {
            state.live -= records;
            if state.live == 0 && self.begun.is_some_and(|begun| segment < begun) {
                self.release(segment);
            }
        }
    }

    fn release(&mut self, segment: SegmentId) {
        if let Some(gone) = self.segments.remove(&segment) {
            self.bytes -= gone.bytes;
            self.releases.push(segment);
        }
    }

    /// Whether a segment could go if these records of it had their fates.
    pub(crate) fn goes_with(&self, segment: SegmentId, records: u64) -> Option<Size> {
        let state = self.segments.get(&segment)?;
        let is_old = self.begun.is_some_and(|begun| segment < begun);
        (is_old && state.live == records).then_some(state.bytes)
    }

    /// The checkpoint of a segment is on disk: what is before it goes, where nothing is owed.
    pub(crate) fn begun(&mut self, segment: SegmentId) {
        self.begun = self.begun.max(Some(segment));
        let is_done =
            |(id, state): (&SegmentId, &Segment)| (*id < segment && state.live == 0).then_some(*id);
        let done: Vec<SegmentId> = self.segments.iter().filter_map(is_done).collect();
        done.into_iter().for_each(|id| self.release(id));
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
        if self.appends.is_empty() && self.releases.is_empty() {
            return None;
        }
        if !self.releases.is_empty() {
            self.flush_fates();
        }
        Some((std::mem::take(&mut self.appends), std::mem::take(&mut self.releases)))
    }

    /// What a wall clock would show at a time of the monotonic one, if it was ever set.
    pub(crate) fn wall_at(&self, at: Time) -> Option<WallTime> {
        let (then, WallTime { unix_ns, uncertainty }) = self.wall?;
        let unix_ns = (unix_ns + at.since(then).as_nanos() as u64)
            .saturating_sub(then.since(at).as_nanos() as u64);
        Some(WallTime { unix_ns, uncertainty })
    }
}
