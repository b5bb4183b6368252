//! What the log has not heard yet and may hear a little later: how deliveries ended, and how far readers have got.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_log::{Entry, FateEntry, FateRun, SessionPosition, WallTime};
use tidegate_types::limits::{FATES_DELAY, FATES_MAX, LOG_SESSIONS_MAX};
use tidegate_types::record::StreamId;
use tidegate_types::units::Time;

/// Fates and positions that are gathered for the log.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// When they are told at the latest.
    pub(super) due: Option<Time>,
    fates: FateEntry,
    /// How far readers have got, and of which the log has not heard.
    positions: BTreeMap<(Arc<str>, StreamId), u64>,
    moved: BTreeSet<(Arc<str>, StreamId)>,
}

impl News {
    /// Nothing yet; in an earlier life of the log readers had got so far.
    pub(super) fn new(positions: BTreeMap<(Arc<str>, StreamId), u64>) -> Self {
        News { positions, ..News::default() }
    }

    /// Deliveries ended: how, unless a checkpoint that is due says so anyway.
    pub(super) fn note_fate(&mut self, now: Time, wall: Option<WallTime>, ended: Option<FateRun>) {
        self.due.get_or_insert(now + FATES_DELAY);
        let Some(ended) = ended else { return };
        self.fates.wall = wall;
        if let Some(last) = self.fates.runs.last_mut()
            && last.stream == ended.stream
            && (last.fate, &last.by, &last.deeds) == (ended.fate, &ended.by, &ended.deeds)
            && last.run.destinations == ended.run.destinations
            && last.run.last + 1 == ended.run.first
        {
            last.run.last = ended.run.last;
            return;
        }
        self.fates.runs.push(ended);
        if self.fates.runs.len() >= FATES_MAX {
            self.due = Some(now);
        }
    }

    /// A reader has got so far; false where there is no place for one more.
    pub(super) fn note_position(&mut self, now: Time, position: SessionPosition) -> bool {
        let key = (position.session, position.stream);
        if self.positions.len() >= LOG_SESSIONS_MAX && !self.positions.contains_key(&key) {
            return false;
        }
        self.due.get_or_insert(now + FATES_DELAY);
        self.positions.insert(key.clone(), position.seq);
        self.moved.insert(key);
        true
    }

    /// How far a reader has got.
    pub(crate) fn position(&self, session: &Arc<str>, stream: StreamId) -> Option<u64> {
        self.positions.get(&(session.clone(), stream)).copied()
    }

    /// How far all readers have got.
    pub(super) fn positions(&self) -> Vec<SessionPosition> {
        let position = |((session, stream), &seq): (&(Arc<str>, StreamId), &u64)| SessionPosition {
            session: session.clone(),
            stream: *stream,
            seq,
        };
        self.positions.iter().map(position).collect()
    }

    /// A session is over.
    pub(super) fn forget_positions(&mut self, session: &str) {
        self.positions.retain(|(known, _), _| **known != *session);
        self.moved.retain(|(known, _)| **known != *session);
    }

    /// The fates are told by a checkpoint.
    pub(super) fn forget_fates(&mut self) {
        self.fates.runs.clear();
    }

    /// All of it is told by a checkpoint.
    pub(super) fn forget(&mut self) {
        self.forget_fates();
        self.moved.clear();
        self.due = None;
    }

    /// Entries that tell all of it.
    pub(super) fn take_entries(&mut self) -> Vec<Entry> {
        self.due = None;
        let mut entries = Vec::new();
        if !self.fates.runs.is_empty() {
            entries.push(Entry::Fates(std::mem::take(&mut self.fates)));
        }
        for (session, stream) in std::mem::take(&mut self.moved) {
            if let Some(&seq) = self.positions.get(&(session.clone(), stream)) {
                entries.push(Entry::Position(SessionPosition { session, stream, seq }));
            }
        }
        entries
    }
}
