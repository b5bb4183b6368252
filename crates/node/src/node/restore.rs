//! What a node takes over from its log when it starts.

use std::sync::Arc;
use std::time::Duration;

use tidegate_log::{
    Chunk, Destinations, RecoveredStream, Recovery, Run, SegmentId, SessionPosition, WallTime,
};
use tidegate_types::limits::UNAPPENDED_MAX;
use tidegate_types::record::{DropReason, StreamId};
use tidegate_types::units::Time;

use super::Node;
use super::durable::bit_of;
use super::streams::StreamKey;
use crate::io::Event;
use crate::io::OutputId;
use crate::rules::{Rule, RuleId};

/// The last number of a stream of which no more may be given.
const ENDED: u64 = u64::MAX;

impl Node {
    /// Continues the streams of a log and counts what it still owes; nothing is read yet.
    pub(super) fn restore(&mut self, recovery: Recovery) {
        if recovery.last_segment == SegmentId::default() {
            return;
        }
        let outputs = self.options.outputs.iter();
        let known: Vec<Option<usize>> = recovery
            .outputs
            .iter()
            .map(|name| outputs.clone().position(|output| output.name == *name))
            .collect();
        // What damage ate may have been the last word about a stream: then none is continued, and new
        // ones get numbers that no other process of this log gives.
        let is_certain = recovery.is_certain;
        // Numbers that were given, and perhaps sent, but did not get into the log are not given again.
        self.streams.skip_ids(recovery.last_stream.saturating_add(UNAPPENDED_MAX as u64));
        if let Some(store) = self.store.as_ref().filter(|_| !is_certain) {
            self.streams.skip_ids((store.options.boot & 0x7fff_ffff) << 32);
        }
        self.restore_sessions(recovery.sessions.clients.into_values());
        for (id, stream) in recovery.streams {
            if let Some(key) = self.restore_stream(id, &stream, is_certain) {
                self.restore_records(id, key, stream, &known);
                self.streams.note_idle(key);
            }
        }
    }

    /// The stream that the log's one is continued as: under the rule of the same name, or else under the
    /// last one, for the class of each record is found anyway when it is read.
    fn restore_stream(
        &mut self,
        id: StreamId,
        stream: &RecoveredStream,
        is_certain: bool,
    ) -> Option<StreamKey> {
        let is_named = |(_, rule): &(RuleId, &Rule)| rule.name == stream.name.rule;
        let named = self.options.rules.iter().find(is_named).map(|(id, _)| id);
        let last = self.options.rules.len().checked_sub(1)?;
        let rule = named.unwrap_or(RuleId(last as u16));
        // One that was ended by damage is never continued, whatever a later log says.
        let is_certain = is_certain && stream.last_seq != ENDED;
        let last_seq = stream.last_seq.saturating_add(UNAPPENDED_MAX as u64);
        let last_seq = if is_certain { last_seq } else { ENDED };
        self.backlog.names.insert(id, (stream.name.clone(), last_seq));
        let source: Arc<str> = stream.name.source.clone();
        if let Some(known) = self.streams.find(rule, &source) {
            // Two streams of the log are one now. The newer number goes on.
            let state = self.streams.get_mut(known);
            if is_certain && state.id < id {
                (state.id, state.seq) = (id, last_seq);
            }
            return Some(known);
        }
        let key = self.create_stream(rule, source)?;
        let state = self.streams.get_mut(key);
        if is_certain {
            (state.id, state.seq, state.is_named) = (id, last_seq, true);
        }
        Some(key)
    }

    fn restore_records(
        &mut self,
        id: StreamId,
        key: StreamKey,
        stream: RecoveredStream,
        known: &[Option<usize>],
    ) {
        let rule_id = self.streams.get(key).rule;
        let rule = self.options.rules.get(rule_id);
        let (class, first) = (rule.class, rule.to[0]);
        let mut gone = 0;
        for (segment, old) in stream.live {
            let mut chunk = Chunk { bytes: old.bytes, ..Chunk::default() };
            for run in old.runs.iter() {
                let destinations = translate(run.destinations, known, first);
                let lost = run.destinations.count().saturating_sub(destinations.count());
                gone += u64::from(lost) * run.records();
                chunk.runs.add(Run { destinations, ..run });
            }
            let deliveries = chunk.runs.deliveries();
            if let Some(store) = &mut self.store {
                store.owe(segment, chunk.runs.records());
            }
            let state = self.streams.get_mut(key);
            state.bytes += chunk.bytes;
            state.left_bytes += chunk.bytes;
            state.held += deliveries;
            state.left += deliveries;
            self.backlog.deliveries += deliveries;
            self.tally.restored(rule_id, chunk.runs.records(), deliveries, chunk.bytes);
            self.backlog.put_back(id, key, class, segment).chunks.insert(segment, chunk);
        }
        self.tally.restored(rule_id, 0, gone, tidegate_types::units::Size::ZERO);
        self.tally.dropped(rule_id, gone, DropReason::Unroutable);
    }

    /// What the wall clock shows.
    pub(super) fn set_wall(&mut self, now: Time, unix_ns: u64, uncertainty: Duration) {
        let Some(store) = &mut self.store else { return };
        let wall = WallTime { unix_ns: unix_ns.max(1), uncertainty };
        if store.wall.replace((now, wall)).is_none() {
            self.date_sessions(wall);
        }
    }

    /// A reader has got so far.
    pub(super) fn note_position(&mut self, now: Time, position: SessionPosition) {
        let store = self.store.as_mut();
        if !store.is_some_and(|store| store.note_position(now, position)) {
            self.report(Event::Unsupported("a position without a log, or one more than it keeps"));
        }
    }

    /// How far a reader has got in a stream, as the log has it or will have it.
    pub fn position(&self, session: &Arc<str>, stream: StreamId) -> Option<u64> {
        self.store.as_ref()?.position(session, stream)
    }
}

/// The log's destinations as the outputs of now. Those that are no more are given up where another one
/// is left; where none is, the record goes to `instead`.
fn translate(old: Destinations, known: &[Option<usize>], instead: OutputId) -> Destinations {
    let places = old.places().filter_map(|place| known.get(place).copied().flatten());
    let kept = places.fold(Destinations::NONE, |all, place| all | Destinations::one(place));
    if kept == Destinations::NONE { bit_of(instead) } else { kept }
}
