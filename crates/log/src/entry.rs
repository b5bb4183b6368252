//! What a log holds: the kinds of entries, as values.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_types::record::{DropReason, Fate, Identity, Properties, StreamId};
use tidegate_types::units::{Size, Time};

use super::destinations::Destinations;
use super::session::{Released, SessionPosition, SessionState};
use super::wall::WallTime;
use super::{RemovedRuns, Run, Runs, SegmentId};

/// One entry of the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// An accepted record.
    Record(Box<LoggedRecord>),
    /// How deliveries ended.
    Fates(FateEntry),
    /// A stream that has no record in the log before this entry.
    Stream(StreamName),
    /// All that holds where a segment begins: what came before need not be read.
    Checkpoint(Checkpoint),
    /// A publisher's session; the last one counts, and what stands behind it.
    Session(SessionState),
    /// QoS 2 packet identifiers that their client may use again.
    Released(Released),
    /// How far a session has got in a stream; the last one counts.
    Position(SessionPosition),
    /// What a finished segment holds: always its last entry.
    Footer(Footer),
    /// A note of the node's broker, in the form that the broker gives it: only in the journal of sessions.
    Note(Bytes),
}

/// An accepted record, as the log keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedRecord {
    /// Its stream on this node.
    pub stream: StreamId,
    /// Its place there.
    pub seq: u64,
    /// Who is to have it.
    pub destinations: Destinations,
    /// Arrival on the monotonic clock of the segment's boot.
    pub arrived: Time,
    /// Arrival + latency bound, on the same clock.
    pub deadline: Time,
    /// When it stops being worth sending, on the same clock.
    pub expires: Option<Time>,
    /// Arrival in wall time, where the node knew it.
    pub wall: Option<WallTime>,
    /// When the source says it was made: nanoseconds since the Unix epoch, never 0.
    pub source_unix_ns: Option<u64>,
    /// Name of its class when it was accepted: for people. Its class is found anew when it is read.
    pub class: Arc<str>,
    /// Key, UTF-8.
    pub key: Bytes,
    /// What travels beside the payload.
    pub properties: Properties,
    /// The payload.
    pub payload: Bytes,
    /// Its name, where another node accepted it first.
    pub foreign: Option<Identity>,
    /// QoS 2: under which packet identifier its client sent it, and may send it again.
    pub packet: Option<u16>,
}

impl LoggedRecord {
    /// Bytes as a node's bounds count them: key, properties and payload.
    pub fn size(&self) -> Size {
        Size((self.key.len() + self.payload.len()) as u64) + self.properties.size()
    }
}

/// How some deliveries ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FateEntry {
    /// When the last of them ended, where the node knew it; the first `limits::FATES_DELAY` before at most.
    pub wall: Option<WallTime>,
    /// Which ones, and how.
    pub runs: Vec<FateRun>,
}

/// How deliveries of some consecutive records of a stream ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FateRun {
    /// The stream.
    pub stream: StreamId,
    /// Which of its records, and for whom.
    pub run: Run,
    /// How.
    pub fate: Fate,
    /// The neighbour whose uplink carried them, where one did: only of what is confirmed.
    pub by: Option<Arc<str>>,
    /// What acted on them before, in order.
    pub deeds: Vec<Deed>,
}

/// Something that acted on a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// What kind of thing.
    pub lever: Lever,
    /// Which one, and what it did.
    pub what: Arc<str>,
    /// How long after the record's arrival; `None`: just before its fate.
    pub after: Option<Duration>,
}

impl Deed {
    /// A time in two digits: after an outage every record is late, each by a time of its own, and those that are
    /// nearly alike are one run.
    pub fn coarse(span: Duration) -> Duration {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let unit = 10_u64.pow(nanos.checked_ilog10().unwrap_or(0).saturating_sub(1));
        Duration::from_nanos(nanos / unit * unit)
    }
}

tidegate_types::named! {
    /// What can act on a delivery, in the order of the format.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Lever {
        /// An adaptation script.
        Script = "script",
        /// Paths of a link.
        Path = "path",
        /// The queue that it left, late, or for a neighbour, or after something had acted on it there.
        Queue = "queue",
    }
}

/// A row of the table of streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamName {
    /// Its number, never given twice.
    pub stream: StreamId,
    /// Name of its rule.
    pub rule: Arc<str>,
    /// Name of its source.
    pub source: Arc<str>,
}

/// Records of one stream in one segment that have no fate yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Which records.
    pub runs: Runs,
    /// Bytes of them all. Exact, unless some were taken without looking at them: then those counted
    /// as much as the others.
    pub bytes: Size,
}

impl Chunk {
    /// Adds a record.
    pub fn add(&mut self, seq: u64, destinations: Destinations, size: Size) {
        self.runs.add(Run { first: seq, last: seq, destinations });
        self.bytes += size;
    }

    /// Takes destinations away; answers also with the bytes of the records that are gone.
    pub fn remove(&mut self, run: Run) -> (RemovedRuns, Size) {
        let before = self.runs.records();
        let taken = self.runs.remove(run);
        (taken, self.take_bytes(before, taken.records))
    }

    /// Takes a record of a known size out; answers for whom it waited, and the bytes that it counted as.
    pub fn take(&mut self, seq: u64, size: Size) -> (Destinations, Size) {
        let destinations = self.runs.take(seq);
        let is_known = destinations != Destinations::NONE;
        let part = if self.runs.is_empty() { self.bytes } else { size.min(self.bytes) };
        let part = if is_known { part } else { Size::ZERO };
        self.bytes -= part;
        (destinations, part)
    }

    /// Takes out the first records, at most so many; answers also with their bytes.
    pub fn take_first(&mut self, records: u64) -> Option<(Run, Size)> {
        let before = self.runs.records();
        let run = self.runs.take_first(records)?;
        Some((run, self.take_bytes(before, run.records())))
    }

    /// The bytes of `gone` of `before` records; the last ones take what is left.
    fn take_bytes(&mut self, before: u64, gone: u64) -> Size {
        let part = u128::from(self.bytes.0) * u128::from(gone) / u128::from(before.max(1));
        let part = Size(if gone == before { self.bytes.0 } else { part as u64 });
        self.bytes -= part;
        part
    }
}

/// All that holds where a segment begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The segment that it begins.
    pub segment: SegmentId,
    /// The last number of a stream that was given, or that must not be given.
    pub last_stream: StreamId,
    /// Every stream that is known, with its records that have no fate.
    pub streams: Vec<StreamState>,
    /// Sessions of publishers.
    pub clients: Vec<SessionState>,
    /// How far sessions have got.
    pub positions: Vec<SessionPosition>,
}

impl Default for Checkpoint {
    fn default() -> Self {
        let (segment, last_stream) = (SegmentId::default(), StreamId(0));
        let (streams, clients, positions) = (Vec::new(), Vec::new(), Vec::new());
        Checkpoint { segment, last_stream, streams, clients, positions }
    }
}

/// A stream, as a checkpoint has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamState {
    /// Its row in the table.
    pub name: StreamName,
    /// The last sequence number that it gave; 0 for none, all ones if it may give no more: damage may have
    /// eaten the last word about it.
    pub last_seq: u64,
    /// Its records without a fate, by segment, rising.
    pub live: Vec<(SegmentId, Chunk)>,
}

/// What a finished segment holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footer {
    /// Sequences of its first and its last entry.
    pub sequences: (u64, u64),
    /// Earliest and latest arrival, nanoseconds since the Unix epoch; `None` if no record had one.
    pub walls: Option<(u64, u64)>,
    /// Records.
    pub records: u64,
    /// What it has of each stream, rising by stream.
    pub streams: Vec<StreamPart>,
    /// A point about every 64 KiB, rising.
    pub points: Vec<IndexPoint>,
}

/// What a segment has of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPart {
    /// The stream.
    pub stream: StreamId,
    /// Its first and last record here.
    pub seqs: (u64, u64),
    /// How many.
    pub records: u64,
}

/// Where in a segment to begin to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexPoint {
    /// Sequence of the entry that begins at `offset`.
    pub sequence: u64,
    /// Latest arrival before it, nanoseconds since the Unix epoch; 0 where none is known.
    pub unix_ns: u64,
    /// Bytes from the beginning of the segment.
    pub offset: u32,
}

/// A fate as one byte: 0 confirmed, else 1 + the drop reason's place. Another one, [`CARRIED`], stands before
/// a neighbour's name.
pub(super) fn fate_code(fate: Fate) -> u8 {
    match fate {
        Fate::Confirmed => 0,
        Fate::Dropped(reason) => 1 + reason.index() as u8,
    }
}

/// Confirmed, by a neighbour's uplink: its name follows.
pub(super) const CARRIED: u8 = 255;

/// What acted on them is told: the fate, a neighbour's name or none, and deeds follow.
pub(super) const TOLD: u8 = 254;

/// The fate of a byte.
pub(super) fn fate_of(code: u8) -> Option<Fate> {
    match code.checked_sub(1) {
        None => Some(Fate::Confirmed),
        Some(place) => DropReason::ALL.get(usize::from(place)).map(|&reason| Fate::Dropped(reason)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::ops::RangeInclusive;

    use super::*;
    use crate::Header;

    /// The head of a segment with these outputs.
    pub(crate) fn header(segment: u32, outputs: &[&str]) -> Header {
        let outputs = outputs.iter().map(|name| (*name).into()).collect();
        let (incarnation, boot, segment) = (1, 2, SegmentId(segment));
        Header { node: "gate-7".into(), incarnation, boot, segment, outputs, is_sealed: false }
    }

    /// A record of a stream for some destinations.
    pub(crate) fn record(stream: u64, seq: u64, bits: u32) -> Entry {
        Entry::Record(Box::new(LoggedRecord {
            stream: StreamId(stream),
            seq,
            destinations: Destinations(bits),
            arrived: Time::from_millis(seq),
            deadline: Time::from_millis(seq + 50),
            expires: None,
            wall: None,
            source_unix_ns: None,
            class: "ls".into(),
            key: "plant/7".into(),
            properties: Properties::default(),
            payload: "1.5".into(),
            foreign: None,
            packet: None,
        }))
    }

    /// How deliveries of a stream ended.
    pub(crate) fn fate(stream: u64, seqs: RangeInclusive<u64>, bits: u32, fate: Fate) -> Entry {
        let run = Run { first: *seqs.start(), last: *seqs.end(), destinations: Destinations(bits) };
        let runs =
            vec![FateRun { stream: StreamId(stream), run, fate, by: None, deeds: Vec::new() }];
        Entry::Fates(FateEntry { wall: None, runs })
    }

    /// A checkpoint that begins a segment and knows records of one stream in another one.
    pub(crate) fn checkpoint(
        segment: u32,
        stream: u64,
        of: SegmentId,
        live: &[(RangeInclusive<u64>, u32)],
    ) -> Entry {
        let mut chunk = Chunk::default();
        for (seqs, bits) in live {
            let (first, last) = (*seqs.start(), *seqs.end());
            chunk.runs.add(Run { first, last, destinations: Destinations(*bits) });
        }
        let stream = StreamId(stream);
        let name = StreamName { stream, rule: "plc".into(), source: "press".into() };
        let state = StreamState { name, last_seq: 9, live: vec![(of, chunk)] };
        let (segment, streams) = (SegmentId(segment), vec![state]);
        Entry::Checkpoint(Checkpoint { segment, streams, ..Checkpoint::default() })
    }

    #[test]
    fn a_late_record_is_late_by_two_digits() {
        let spans = [0, 9, 99, 123, 12_999, 1_299_999_999, u64::MAX];
        let told = spans.map(|nanos| Deed::coarse(Duration::from_nanos(nanos)).as_nanos());
        let coarse = [0, 9, 99, 120, 12_000, 1_200_000_000, 18_000_000_000_000_000_000];
        assert_eq!(told, coarse);
    }
}
