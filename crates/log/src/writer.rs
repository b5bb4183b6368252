//! From entries to the bytes that a spool writes, segment by segment.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_types::codec::Sink;
use tidegate_types::crc::crc32c;
use tidegate_types::limits::LOG_ENTRY_MAX;
use tidegate_types::record::StreamId;

use super::entry::{Entry, Footer, IndexPoint, LoggedRecord, StreamPart};
use super::header::Header;
use super::scan::{END_MAGIC, FOOTER_BIT, FRAME};
use super::seal::{Key, SegmentKey, TAG_LENGTH};
use super::{Keys, SegmentId};

/// Bytes between two points of a segment's index.
const POINT_EVERY: usize = 64 * 1024;

/// Whose log it is, and which process writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogName {
    /// The node's name.
    pub node: Arc<str>,
    /// Which life of its log.
    pub incarnation: u64,
    /// A random number of this process, never used by another one of this log.
    pub boot: u64,
    /// The node's outputs, in the order of its options.
    pub outputs: Vec<Arc<str>>,
}

/// Bytes for the end of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentWrite {
    /// Which one.
    pub segment: SegmentId,
    /// Whether the segment begins with them: then its file must not exist, and must be made.
    pub is_new: bool,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Why an entry is not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// No log can hold it.
    #[error("an entry of {0} bytes is more than a log takes")]
    TooLarge(usize),
    /// The first entry, or the first one after `Writer::fail`, is no checkpoint.
    #[error("a segment begins with a checkpoint, and this entry is none")]
    NoCheckpoint,
}

/// Encodes entries. It holds no file: a spool takes what is to be written and writes it.
#[derive(Debug)]
pub struct Writer {
    name: LogName,
    key: Option<Key>,
    open: Option<Open>,
    writes: Vec<SegmentWrite>,
}

/// The segment that grows.
#[derive(Debug)]
struct Open {
    segment: SegmentId,
    /// What seals its entries, if something does.
    key: Option<SegmentKey>,
    salt: u32,
    /// Bytes so far, those not yet taken included.
    size: usize,
    footer: Footer,
    streams: BTreeMap<StreamId, StreamPart>,
    next_point: usize,
}

impl Writer {
    /// A writer that has begun no segment yet: its first entry must be a checkpoint.
    pub fn new(name: LogName, keys: &Keys) -> Self {
        Writer { name, key: keys.first().cloned(), open: None, writes: Vec::new() }
    }

    /// Segments that begin from now on name these outputs.
    pub fn name_outputs(&mut self, outputs: Vec<Arc<str>>) {
        self.name.outputs = outputs;
    }

    /// Encodes an entry. A checkpoint finishes the present segment and begins the one that it names.
    ///
    /// # Errors
    /// See [`WriteError`]; nothing was encoded.
    pub fn push(&mut self, sequence: u64, entry: &Entry) -> Result<(), WriteError> {
        let size = entry.body_size();
        if size > LOG_ENTRY_MAX - TAG_LENGTH {
            return Err(WriteError::TooLarge(size));
        }
        if self.open.is_none() && !matches!(entry, Entry::Checkpoint(_)) {
            return Err(WriteError::NoCheckpoint);
        }
        if let Entry::Checkpoint(checkpoint) = entry {
            self.finish();
            self.begin(checkpoint.segment);
        }
        self.note(sequence, entry);
        self.encode(sequence, entry);
        Ok(())
    }

    /// What must be written, in this order; the writer forgets it.
    pub fn take(&mut self) -> Vec<SegmentWrite> {
        std::mem::take(&mut self.writes)
    }

    /// The last writes failed: what was not taken is forgotten, and the present segment is left as it is.
    pub fn fail(&mut self) {
        self.writes.clear();
        self.open = None;
    }

    /// Finishes the present segment with its footer, if there is one.
    pub fn finish(&mut self) {
        let Some(open) = &mut self.open else { return };
        let mut footer = std::mem::take(&mut open.footer);
        footer.streams = std::mem::take(&mut open.streams).into_values().collect();
        let (offset, salt) = (open.size, open.salt);
        self.encode(footer.sequences.1 | FOOTER_BIT, &Entry::Footer(footer));
        let mut end = END_MAGIC.to_vec();
        end.u32(offset as u32);
        let crc = crc32c(salt, &end);
        end.u32(crc);
        self.extend(&end);
        self.open = None;
    }

    fn begin(&mut self, segment: SegmentId) {
        let LogName { node, incarnation, boot, outputs } = self.name.clone();
        let is_sealed = self.key.is_some();
        let header = Header { node, incarnation, boot, segment, outputs, is_sealed };
        let key = self.key.as_ref().map(|key| header.key(key));
        let (bytes, salt) = header.encode(key.as_ref());
        self.open = Some(Open {
            segment,
            key,
            salt,
            size: bytes.len(),
            footer: Footer::default(),
            streams: BTreeMap::new(),
            next_point: 0,
        });
        self.writes.push(SegmentWrite { segment, is_new: true, bytes });
    }

    /// Notes for the footer what the entry is.
    fn note(&mut self, sequence: u64, entry: &Entry) {
        let open = self.open.as_mut().expect("a segment begins with a checkpoint");
        let footer = &mut open.footer;
        if footer.sequences.0 == 0 {
            footer.sequences.0 = sequence;
        }
        footer.sequences.1 = sequence;
        if open.size >= open.next_point {
            let unix_ns = footer.walls.map_or(0, |(_, latest)| latest);
            let offset = open.size as u32;
            footer.points.push(IndexPoint { sequence, unix_ns, offset });
            open.next_point = open.size + POINT_EVERY;
        }
        let Entry::Record(record) = entry else { return };
        let LoggedRecord { stream, seq, wall, .. } = **record;
        footer.records += 1;
        if let Some(wall) = wall {
            let (earliest, latest) = footer.walls.unwrap_or((wall.unix_ns, wall.unix_ns));
            footer.walls = Some((earliest.min(wall.unix_ns), latest.max(wall.unix_ns)));
        }
        let part = StreamPart { stream, seqs: (seq, seq), records: 0 };
        let part = open.streams.entry(stream).or_insert(part);
        part.seqs = (part.seqs.0.min(seq), part.seqs.1.max(seq));
        part.records += 1;
    }

    /// Puts the entry behind what is to be written: frame, body, tag.
    fn encode(&mut self, sequence: u64, entry: &Entry) {
        let open = self.open.as_mut().expect("a segment begins with a checkpoint");
        let bytes = bytes_of(&mut self.writes, open.segment);
        let begin = bytes.len();
        bytes.put(&[0; 8]);
        bytes.u64(sequence);
        bytes.u8(entry.kind());
        entry.encode(bytes);
        let tag = open.key.as_ref().map_or(0, |_| TAG_LENGTH);
        let length = bytes.len() - begin - FRAME + tag;
        bytes[begin + 4..begin + 8].copy_from_slice(&(length as u32).to_le_bytes());
        if let Some(key) = &open.key {
            let (head, body) = bytes[begin..].split_at_mut(FRAME);
            let tag = key.seal(sequence, &head[4..], body).expect("an entry is not that large");
            bytes.put(&tag);
        }
        let crc = crc32c(open.salt, &bytes[begin + 4..]);
        bytes[begin..begin + 4].copy_from_slice(&crc.to_le_bytes());
        open.size += bytes.len() - begin;
    }

    fn extend(&mut self, bytes: &[u8]) {
        let open = self.open.as_mut().expect("a segment begins with a checkpoint");
        open.size += bytes.len();
        bytes_of(&mut self.writes, open.segment).put(bytes);
    }
}

/// The bytes that are to be written at the end of a segment.
fn bytes_of(writes: &mut Vec<SegmentWrite>, segment: SegmentId) -> &mut Vec<u8> {
    if writes.last().is_none_or(|write| write.segment != segment) {
        writes.push(SegmentWrite { segment, is_new: false, bytes: Vec::new() });
    }
    &mut writes.last_mut().expect("one was made").bytes
}
