//! What a log says after a crash: one function, from the bytes of segments to what is still owed.
//!
//! It needs to read from the last segment that begins with a whole checkpoint; earlier ones only have to
//! be there, for the checkpoint says which of their records have no fate. So a log of any size is
//! recovered by reading one or two segments. It changes nothing: what is torn or damaged is named, and
//! a new boot writes into a new segment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_types::accepted::Accepted;
use tidegate_types::limits::LOG_DAMAGES_MAX;
use tidegate_types::record::StreamId;
use tidegate_types::units::Size;

use super::damage::{Damage, DamageKind};
use super::destinations::Destinations;
use super::entry::{Checkpoint, Chunk, Entry, FateRun, LoggedRecord, StreamName, StreamState};
use super::header::{Header, OpenedHeader};
use super::scan::{RawEntry, Scanned, Scanner};
use super::seal::Keys;
use super::session::Sessions;
use super::{Defect, LogError, Run, SegmentId};

/// One segment.
#[derive(Clone, Copy, Debug)]
pub struct SegmentBytes<'a> {
    /// Its number, by its file's name.
    pub segment: SegmentId,
    /// Bytes of its file.
    pub size: Size,
    /// All of them; `None` for segments before the last one that begins with a checkpoint. None at all (`Some` of
    /// nothing) for one that is in quarantine.
    pub bytes: Option<&'a [u8]>,
}

/// A stream that a log knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredStream {
    /// Its row in the table. Names are empty where damage ate them.
    pub name: StreamName,
    /// The last sequence number that the log has seen. A node goes on well beyond it: numbers may have
    /// been given, and sent, that did not get into the log.
    pub last_seq: u64,
    /// Its records without a fate, by segment.
    pub live: BTreeMap<SegmentId, Chunk>,
}

/// What a log says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whose log it is: node and incarnation; `None` for an empty log.
    pub owner: Option<(Arc<str>, u64)>,
    /// The process that wrote the last segment; 0 for an empty log.
    pub boot: u64,
    /// What the bits of `Destinations` mean here.
    pub outputs: Vec<Arc<str>>,
    /// Sequence of the last entry.
    pub last_sequence: u64,
    /// The segments that can be read, and their bytes: of those that were read, without the room behind what was
    /// written. Who begins to write may cut their files there.
    pub segments: BTreeMap<SegmentId, Size>,
    /// The last number that a segment has, readable or not.
    pub last_segment: SegmentId,
    /// The last number of a stream that was given, as far as the log has seen.
    pub last_stream: u64,
    /// Every stream.
    pub streams: BTreeMap<StreamId, RecoveredStream>,
    /// Sessions. Where bytes are damaged as no crash does it, no packet identifier is known.
    pub sessions: Sessions,
    /// Names of records of other nodes that were accepted: those of the segments that were read, which is
    /// what their senders may not have heard of.
    pub accepted: Accepted,
    /// Whether nothing is missing that was ever safe, as far as one can see: no bytes are corrupt, and the
    /// last segment begins with a whole checkpoint. Where it is not, numbers of streams may have been
    /// given that the log does not show.
    pub is_certain: bool,
    /// What is damaged, the first `LOG_DAMAGES_MAX` places.
    pub damage: Vec<Damage>,
    /// How many more there are.
    pub more_damage: u64,
}

impl Recovery {
    /// The process that wrote the log last; 0 where damage may hide a later one.
    pub fn previous_boot(&self) -> u64 {
        if self.is_certain { self.boot } else { 0 }
    }

    /// The number for the next segment.
    pub fn next_segment(&self) -> SegmentId {
        SegmentId(self.last_segment.0 + 1)
    }

    /// Notes that a segment is not what its name says: its file is of no use to this log.
    pub fn condemn(&mut self, segment: SegmentId, verdict: DamageKind) {
        let mut known = self.damage.iter_mut().filter(|damage| damage.segment == segment);
        // What is missing is told better by what stands in its place.
        let is_same = |damage: &&mut Damage| {
            let is_missing = damage.verdict == DamageKind::Missing && verdict.is_of_all();
            damage.verdict == verdict || is_missing
        };
        if let Some(known) = known.find(is_same) {
            known.verdict = verdict;
        } else {
            let to = self.segments.get(&segment).map_or(0, |size| size.0);
            self.note(Damage { segment, from: 0, to, verdict });
        }
        if verdict.is_of_all() {
            self.segments.remove(&segment);
        }
    }

    /// Records without a fate.
    pub fn live(&self) -> impl Iterator<Item = (StreamId, SegmentId, Run)> + '_ {
        let of_stream = |(&id, stream): (&StreamId, &'_ RecoveredStream)| {
            let runs =
                stream.live.iter().map(move |(&segment, chunk)| (id, segment, chunk.clone()));
            runs.collect::<Vec<_>>()
        };
        let chunks = self.streams.iter().flat_map(of_stream);
        chunks.flat_map(|(stream, segment, chunk)| {
            chunk.runs.iter().map(|run| (stream, segment, run)).collect::<Vec<_>>()
        })
    }
}

/// Whether the segment of this number begins with its checkpoint, so that nothing before it need be read. What holds
/// another segment does not.
///
/// # Errors
/// See [`Header::open`].
pub fn begins_with_checkpoint(
    segment: SegmentId,
    bytes: &[u8],
    keys: &Keys,
) -> Result<bool, Defect> {
    let opened = Header::open(bytes, keys)?;
    Ok(opened.header.segment == segment && checkpoint_of(&opened, bytes).is_some())
}

fn checkpoint_of(opened: &OpenedHeader, segment: &[u8]) -> Option<Checkpoint> {
    let Some(Scanned::Frame(first)) = Scanner::new(opened, segment).next() else { return None };
    match first.entry(opened)? {
        Entry::Checkpoint(checkpoint) if checkpoint.segment == opened.header.segment => {
            Some(checkpoint)
        }
        _ => None,
    }
}

/// What these segments say, which must come in the order of their numbers.
///
/// # Errors
/// Segments that this process must not use: written by a newer version, sealed with an unknown key, or
/// of another log. Damage is no error.
pub fn recover(parts: &[SegmentBytes<'_>], keys: &Keys) -> Result<Recovery, LogError> {
    let mut recovery = Recovery::default();
    let mut opened = Vec::new();
    for part in parts {
        recovery.segments.insert(part.segment, part.size);
        recovery.last_segment = recovery.last_segment.max(part.segment);
        let Some(bytes) = part.bytes else { continue };
        if bytes.is_empty() {
            recovery.condemn(part.segment, DamageKind::Missing);
            continue;
        }
        match Header::open(bytes, keys) {
            Ok(head) if head.header.segment == part.segment => {
                recovery.check_owner(&head.header)?;
                opened.push((head, bytes));
            }
            Ok(_) => recovery.condemn(part.segment, DamageKind::Other),
            // A file that a crash caught before its header was whole, or worse.
            Err(Defect::Damaged) => recovery.condemn(part.segment, DamageKind::Header),
            Err(source) => return Err(LogError::Unusable { segment: part.segment, source }),
        }
    }
    let begins = |(head, bytes): &(OpenedHeader, &[u8])| checkpoint_of(head, bytes).is_some();
    recovery.boot = opened.last().map_or(0, |(head, _)| head.header.boot);
    let base = opened.iter().rposition(begins).unwrap_or(0);
    for (head, bytes) in &opened[base.min(opened.len())..] {
        recovery.read(head, bytes);
    }
    let is_harmless = |damage: &Damage| damage.verdict.is_harmless();
    recovery.is_certain =
        opened.last().is_some_and(begins) && recovery.damage.iter().all(is_harmless);
    // A crash leaves torn ends, and a last segment of which the beginning is not whole. What else is missing
    // may have been the last word about a session.
    let last = parts.last().map(|part| part.segment);
    let is_of_crash = |damage: &Damage| match damage.verdict {
        DamageKind::Header | DamageKind::Missing => Some(damage.segment) == last,
        verdict => verdict.is_harmless(),
    };
    if recovery.more_damage > 0 || !recovery.damage.iter().all(is_of_crash) {
        recovery.sessions.doubt();
    }
    for stream in recovery.streams.values_mut() {
        stream.live.retain(|_, chunk| !chunk.runs.is_empty());
    }
    recovery.miss();
    Ok(recovery)
}

impl Recovery {
    /// Names the segments that are not there though records in them are owed.
    fn miss(&mut self) {
        let owed = self.streams.values().flat_map(|stream| stream.live.keys().copied());
        let owed: BTreeSet<SegmentId> = owed.collect();
        for segment in owed {
            let is_told = self.damage.iter().any(|damage| damage.segment == segment);
            if !self.segments.contains_key(&segment) && !is_told {
                self.condemn(segment, DamageKind::Missing);
            }
        }
    }

    fn check_owner(&mut self, header: &Header) -> Result<(), LogError> {
        let found = (header.node.clone(), header.incarnation);
        let owner = self.owner.get_or_insert_with(|| found.clone());
        if *owner == found {
            return Ok(());
        }
        let name = |(node, incarnation): &(Arc<str>, u64)| format!("{node}/{incarnation:016x}");
        let (found, expected) = (name(&found), name(owner));
        Err(LogError::Foreign { segment: header.segment, found, expected })
    }

    fn note(&mut self, damage: Damage) {
        if self.damage.len() < LOG_DAMAGES_MAX {
            self.damage.push(damage);
        } else {
            self.more_damage += 1;
        }
    }

    /// Applies the entries of a segment.
    fn read(&mut self, opened: &OpenedHeader, segment: &[u8]) {
        let names: Vec<usize> =
            opened.header.outputs.iter().map(|name| self.place_of(name)).collect();
        let id = opened.header.segment;
        let mut written = opened.length.min(segment.len());
        // A crash may leave a second copy that is not whole, but no entry behind it.
        if segment.len() > opened.length && !Header::is_whole(opened, segment) {
            let (from, verdict) = (0, DamageKind::Spare);
            self.note(Damage { segment: id, from, to: opened.length as u64, verdict });
        }
        let (mut behind, mut is_damaged) = (Vec::new(), false);
        for found in Scanner::new(opened, segment) {
            written = found.end().min(segment.len());
            match found {
                Scanned::Damage { from, to, is_tail } => {
                    is_damaged = true;
                    let verdict = if is_tail { DamageKind::Torn } else { DamageKind::Corrupt };
                    self.note(Damage { segment: id, from: from as u64, to: to as u64, verdict });
                }
                Scanned::Frame(frame) if is_damaged => behind.push(frame),
                Scanned::Frame(frame) => self.meet(opened, &names, frame),
            }
        }
        // Where a sector stands in the place of another, so do its entries.
        behind.sort_by_key(RawEntry::number);
        behind.into_iter().for_each(|frame| self.meet(opened, &names, frame));
        self.segments.insert(id, Size(written as u64));
    }

    /// The next entry of a segment.
    fn meet(&mut self, opened: &OpenedHeader, names: &[usize], frame: RawEntry<'_>) {
        let segment = opened.header.segment;
        let Some(entry) = frame.entry(opened) else {
            let (from, to) = (frame.offset as u64, frame.end() as u64);
            self.note(Damage { segment, from, to, verdict: DamageKind::Corrupt });
            return;
        };
        self.last_sequence = self.last_sequence.max(frame.number());
        self.apply(segment, names, entry);
    }

    /// The place of an output's name among all names that were met.
    fn place_of(&mut self, name: &Arc<str>) -> usize {
        let known = self.outputs.iter().position(|other| other == name);
        known.unwrap_or_else(|| {
            self.outputs.push(name.clone());
            // Bits are 32. A log with more names than that has changed its outputs again and again
            // behind damaged checkpoints; the last names then share a bit.
            self.outputs.truncate(32);
            self.outputs.len() - 1
        })
    }

    fn apply(&mut self, segment: SegmentId, names: &[usize], entry: Entry) {
        match entry {
            Entry::Record(record) => self.apply_record(segment, names, &record),
            Entry::Fates(fates) => {
                for FateRun { stream, run, .. } in fates.runs {
                    self.apply_fate(stream, translate_run(names, run));
                }
            }
            Entry::Stream(name) => self.stream(name.stream).name = name.clone(),
            Entry::Checkpoint(checkpoint) if checkpoint.segment == segment => {
                self.apply_checkpoint(names, checkpoint);
            }
            Entry::Session(state) => self.sessions.set(state),
            Entry::Released(released) => self.sessions.release(&released),
            Entry::Position(position) => self.sessions.reach(position),
            Entry::Checkpoint(_) | Entry::Footer(_) | Entry::Note(_) => {}
        }
    }

    fn stream(&mut self, id: StreamId) -> &mut RecoveredStream {
        let unnamed = || StreamName { stream: id, rule: "".into(), source: "".into() };
        let new = || RecoveredStream { name: unnamed(), last_seq: 0, live: BTreeMap::new() };
        self.last_stream = self.last_stream.max(id.0);
        self.streams.entry(id).or_insert_with(new)
    }

    fn apply_record(&mut self, segment: SegmentId, names: &[usize], record: &LoggedRecord) {
        if let Some(name) = &record.foreign {
            self.accepted.insert(name);
        }
        let destinations = translate(names, record.destinations);
        self.stream(record.stream);
        let Some(stream) = self.streams.get_mut(&record.stream) else { return };
        stream.last_seq = stream.last_seq.max(record.seq);
        if destinations != Destinations::NONE {
            let chunk = stream.live.entry(segment).or_default();
            chunk.add(record.seq, destinations, record.size());
        }
        if let Some(packet) = record.packet {
            self.sessions.take(&stream.name.source, packet);
        }
    }

    fn apply_fate(&mut self, id: StreamId, run: Run) {
        let stream = self.stream(id);
        stream.last_seq = stream.last_seq.max(run.last);
        stream.live.retain(|_, chunk| {
            chunk.remove(run);
            !chunk.runs.is_empty()
        });
    }

    /// A checkpoint takes the place of all that came before.
    fn apply_checkpoint(&mut self, names: &[usize], checkpoint: Checkpoint) {
        self.last_stream = self.last_stream.max(checkpoint.last_stream.0);
        self.streams.clear();
        self.sessions = Sessions::default();
        for StreamState { name, last_seq, live } in checkpoint.streams {
            let stream = self.stream(name.stream);
            (stream.name, stream.last_seq) = (name, last_seq);
            for (segment, chunk) in live {
                let mut known = Chunk { bytes: chunk.bytes, ..Chunk::default() };
                chunk.runs.iter().for_each(|run| known.runs.add(translate_run(names, run)));
                stream.live.insert(segment, known);
            }
        }
        checkpoint.clients.into_iter().for_each(|state| self.sessions.set(state));
        checkpoint.positions.into_iter().for_each(|position| self.sessions.reach(position));
    }
}

fn translate(names: &[usize], destinations: Destinations) -> Destinations {
    let known = destinations.places().filter_map(|place| names.get(place));
    known.fold(Destinations::NONE, |all, &place| all | Destinations::one(place))
}

fn translate_run(names: &[usize], run: Run) -> Run {
    Run { destinations: translate(names, run.destinations), ..run }
}
