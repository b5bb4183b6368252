//! What a node takes over from its log when it starts.

use std::sync::Arc;

use tidegate_log::{Chunk, Destinations, RecoveredStream, Recovery, Run, SegmentId};
use tidegate_types::limits::UNAPPENDED_MAX;
use tidegate_types::record::StreamId;

use super::base::Base;
use super::durability::Durability;
use super::holdings::{StreamKey, bit_of};
use crate::io::OutputId;
use crate::rules::{Rule, RuleId};

/// The last number of a stream of which no more may be given.
const ENDED: u64 = u64::MAX;

/// Continues the streams of a log and counts what it still owes; nothing is read yet.
pub(super) fn restore(base: &mut Base, durability: &mut Durability, recovery: Recovery) {
    if recovery.last_segment == SegmentId::default() {
        return;
    }
    let outputs = base.options.outputs.iter();
    let known: Vec<Option<usize>> = recovery
        .outputs
        .iter()
        .map(|name| outputs.clone().position(|output| output.name == *name))
        .collect();
    // Numbers that were given, and perhaps sent, but did not get into the log are not given again.
    base.holdings.skip_stream_ids(recovery.last_stream.saturating_add(UNAPPENDED_MAX as u64));
    // What damage ate may have been the last word about a stream: then none is continued, and new
    // ones get numbers that no other process of this log gives.
    let is_certain = recovery.is_certain;
    if let Some(boot) = base.options.log.as_ref().map(|log| log.boot).filter(|_| !is_certain) {
        base.holdings.skip_stream_ids((boot & 0x7fff_ffff) << 32);
    }
    durability.restore_sessions(recovery.sessions.clients.into_values());
    for (id, stream) in recovery.streams {
        if let Some(key) = restore_stream(base, durability, (id, &stream), is_certain) {
            restore_records(base, durability, (id, key), stream, &known);
            base.holdings.note_idle(key);
        }
    }
}

/// The stream that the log's one is continued as: under the rule of the same name, or else under the
/// last one, for the class of each record is found anyway when it is read.
fn restore_stream(
    base: &mut Base,
    durability: &mut Durability,
    (id, stream): (StreamId, &RecoveredStream),
    is_certain: bool,
) -> Option<StreamKey> {
    let is_named = |(_, rule): &(RuleId, &Rule)| rule.name == stream.name.rule;
    let named = base.options.rules.iter().find(is_named).map(|(id, _)| id);
    let last = base.options.rules.len().checked_sub(1)?;
    let rule = named.unwrap_or(RuleId(last as u16));
    // One that was ended by damage is never continued, whatever a later log says.
    let is_certain = is_certain && stream.last_seq != ENDED;
    let last_seq = stream.last_seq.saturating_add(UNAPPENDED_MAX as u64);
    let last_seq = if is_certain { last_seq } else { ENDED };
    durability.remember_name(id, stream.name.clone(), last_seq);
    let source: Arc<str> = stream.name.source.clone();
    if let Some(known) = base.holdings.streams().find(rule, &source) {
        // Two streams of the log are one now. The newer number goes on.
        if is_certain && base.holdings.stream(known).id < id {
            base.holdings.continue_stream(known, id, last_seq, false);
        }
        return Some(known);
    }
    let key = base.holdings.create_stream(rule, source)?;
    if is_certain {
        base.holdings.continue_stream(key, id, last_seq, true);
    }
    Some(key)
}

/// Counts the records of a stream.
fn restore_records(
    base: &mut Base,
    durability: &mut Durability,
    (id, key): (StreamId, StreamKey),
    stream: RecoveredStream,
    known: &[Option<usize>],
) {
    let rule = base.options.rules.get(base.holdings.stream(key).rule);
    let (class, first) = (rule.class, rule.to[0]);
    for (segment, old) in stream.live {
        let mut chunk = Chunk { bytes: old.bytes, ..Chunk::default() };
        let mut gone = 0;
        for run in old.runs.iter() {
            let destinations = translate(run.destinations, known, first);
            let lost = run.destinations.count().saturating_sub(destinations.count());
            gone += u64::from(lost) * run.records();
            chunk.runs.add(Run { destinations, ..run });
        }
        let (records, deliveries) = (chunk.runs.records(), chunk.runs.deliveries());
        base.holdings.restored(key, records, deliveries, chunk.bytes, gone);
        durability.owe(id, key, class, segment, chunk);
    }
}

/// The log's destinations as the outputs of now. Those that are no more are given up where another one
/// is left; where none is, the record goes to `instead`.
fn translate(old: Destinations, known: &[Option<usize>], instead: OutputId) -> Destinations {
    let places = old.places().filter_map(|place| known.get(place).copied().flatten());
    let kept = places.fold(Destinations::NONE, |all, place| all | Destinations::one(place));
    if kept == Destinations::NONE { bit_of(instead) } else { kept }
}
