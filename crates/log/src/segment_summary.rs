//! What a segment holds, by its footer or by reading it, and how sound it is.

use std::collections::BTreeMap;

use tidegate_types::limits::LOG_DAMAGES_MAX;
use tidegate_types::record::StreamId;

use super::damage::{Damage, DamageKind};
use super::entry::{Entry, Footer, LoggedRecord, StreamPart};
use super::header::OpenedHeader;
use super::scan::Scanned;

/// What is known of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Records.
    pub records: u64,
    /// Sequences of its first and last entry; `None` where it has none.
    pub sequences: Option<(u64, u64)>,
    /// Earliest and latest arrival, nanoseconds since the Unix epoch; `None` if no record had one.
    pub walls: Option<(u64, u64)>,
    /// What it has of each stream.
    pub streams: BTreeMap<StreamId, StreamPart>,
    /// Whether it ends with a footer.
    pub is_finished: bool,
    /// Whether it begins with a checkpoint.
    pub begins: bool,
    /// Bytes that hold nothing, the first `LOG_DAMAGES_MAX` places.
    pub damage: Vec<Damage>,
    /// How many more there are.
    pub more_damage: u64,
}

impl SegmentSummary {
    /// What a footer says.
    pub fn of_footer(footer: &Footer) -> Self {
        SegmentSummary {
            records: footer.records,
            sequences: Some(footer.sequences),
            walls: footer.walls,
            streams: footer.streams.iter().map(|part| (part.stream, *part)).collect(),
            is_finished: true,
            begins: true,
            ..SegmentSummary::default()
        }
    }

    /// Counts what a scan of the segment finds. Answers with the entry, if it is one.
    pub fn meet(&mut self, opened: &OpenedHeader, found: Scanned<'_>) -> Option<Entry> {
        let segment = opened.header.segment;
        let (from, to, verdict) = match found {
            Scanned::Frame(frame) => match frame.entry(opened) {
                Some(entry) => {
                    self.count(opened, frame.number(), (frame.offset, frame.end()), &entry);
                    return Some(entry);
                }
                None => (frame.offset, frame.end(), DamageKind::Corrupt),
            },
            Scanned::Damage { from, to, is_tail: true } => (from, to, DamageKind::Torn),
            Scanned::Damage { from, to, is_tail: false } => (from, to, DamageKind::Corrupt),
        };
        self.note(Damage { segment, from: from as u64, to: to as u64, verdict });
        None
    }

    /// Notes what holds nothing.
    pub fn note(&mut self, damage: Damage) {
        if self.damage.len() < LOG_DAMAGES_MAX {
            self.damage.push(damage);
        } else {
            self.more_damage += 1;
        }
    }

    /// Whether something is missing that was written: more than a torn end, which every crash may leave.
    pub fn is_damaged(&self) -> bool {
        let is_harmless = |damage: &Damage| damage.verdict.is_harmless();
        self.more_damage > 0 || !self.damage.iter().all(is_harmless)
    }

    fn count(&mut self, opened: &OpenedHeader, number: u64, place: (usize, usize), entry: &Entry) {
        match entry {
            Entry::Footer(footer) => {
                self.is_finished = true;
                // Where the reading met damage, the footer knows of more than was read.
                if self.damage.is_empty() && !self.agrees_with(footer) {
                    let (from, to) = (place.0 as u64, place.1 as u64);
                    let (segment, verdict) = (opened.header.segment, DamageKind::Corrupt);
                    self.note(Damage { segment, from, to, verdict });
                }
                return;
            }
            Entry::Checkpoint(_) if self.sequences.is_none() => self.begins = true,
            Entry::Record(record) => self.count_record(record),
            _ => {}
        }
        let (first, last) = self.sequences.unwrap_or((number, number));
        self.sequences = Some((first.min(number), last.max(number)));
    }

    fn count_record(&mut self, record: &LoggedRecord) {
        let LoggedRecord { stream, seq, wall, .. } = *record;
        self.records += 1;
        if let Some(wall) = wall {
            let (earliest, latest) = self.walls.unwrap_or((wall.unix_ns, wall.unix_ns));
            self.walls = Some((earliest.min(wall.unix_ns), latest.max(wall.unix_ns)));
        }
        let part = StreamPart { stream, seqs: (seq, seq), records: 0 };
        let part = self.streams.entry(stream).or_insert(part);
        part.seqs = (part.seqs.0.min(seq), part.seqs.1.max(seq));
        part.records += 1;
    }

    fn agrees_with(&self, footer: &Footer) -> bool {
        let streams = footer.streams.iter();
        self.records == footer.records
            && self.sequences == Some(footer.sequences)
            && self.walls == footer.walls
            && self.streams.values().eq(streams)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{checkpoint, record};
    use crate::{Header, LogName, Scanner, SegmentId, Writer, find_footer, read_footer};

    fn segment() -> Vec<u8> {
        let (node, outputs) = ("gate-7".into(), vec!["cloud".into()]);
        let mut writer = Writer::new(LogName { node, incarnation: 1, boot: 2, outputs }, &[]);
        writer.push(10, &checkpoint(3, 7, SegmentId(1), &[])).unwrap();
        for seq in 1..=5 {
            writer.push(10 + seq, &record(7, seq, 1)).unwrap();
        }
        writer.finish();
        writer.take().into_iter().flat_map(|write| write.bytes).collect()
    }

    fn survey(bytes: &[u8]) -> SegmentSummary {
        let opened = Header::open(bytes, &[]).unwrap();
        let mut survey = SegmentSummary::default();
        Scanner::new(&opened, bytes).for_each(|found| drop(survey.meet(&opened, found)));
        survey
    }

    #[test]
    fn reading_all_tells_what_the_footer_tells() {
        let bytes = segment();
        let opened = Header::open(&bytes, &[]).unwrap();
        let offset = find_footer(&opened, &bytes).unwrap();
        let footer = read_footer(&opened, offset, &bytes[offset..]).unwrap();
        let read = survey(&bytes);
        assert_eq!(read, SegmentSummary::of_footer(&footer));
        assert_eq!((read.records, read.sequences), (5, Some((10, 15))));
        assert!(!read.is_damaged());
    }

    #[test]
    fn a_torn_end_is_no_damage_and_a_hole_is() {
        let bytes = segment();
        let opened = Header::open(&bytes, &[]).unwrap();
        let offset = find_footer(&opened, &bytes).unwrap();
        let torn = survey(&bytes[..offset - 3]);
        assert_eq!((torn.records, torn.is_finished, torn.is_damaged()), (4, false, false));
        assert_eq!(torn.damage[0].verdict, DamageKind::Torn);
        let mut spoilt = bytes;
        spoilt[offset - 3] ^= 1;
        let holed = survey(&spoilt);
        assert_eq!((holed.records, holed.is_finished, holed.is_damaged()), (4, true, true));
        assert_eq!((holed.damage.len(), holed.damage[0].verdict), (1, DamageKind::Corrupt));
    }
}
