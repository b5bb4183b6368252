//! The life of one record, as its log tells it.

use std::sync::Arc;

use tidegate_types::record::{Fate, StreamId};

use super::SegmentId;
use super::destinations::Destinations;
use super::entry::{Checkpoint, Deed, Entry, FateEntry, FateRun, LoggedRecord};
use super::header::Header;
use super::wall::WallTime;

/// A record and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordHistory {
    /// It.
    pub record: LoggedRecord,
    /// The segment that it is in.
    pub segment: SegmentId,
    /// The boot of the process that accepted it.
    pub boot: u64,
    /// The sequence of its entry.
    pub sequence: u64,
    /// For each of its destinations.
    pub deliveries: Vec<DeliveryHistory>,
}

/// What became of a record at one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryHistory {
    /// The output.
    pub output: Arc<str>,
    /// How it ended; `None` while it is held.
    pub end: Option<DeliveryEnd>,
}

/// How a delivery ended, and where the log says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryEnd {
    /// Its fate; `None` where only a checkpoint shows that it had one.
    pub fate: Option<Fate>,
    /// The neighbour whose uplink carried it, where one did.
    pub by: Option<Arc<str>>,
    /// What acted on it before, in order.
    pub deeds: Vec<Deed>,
    /// In which segment.
    pub segment: SegmentId,
    /// By which entry.
    pub sequence: u64,
    /// When, or up to `limits::FATES_DELAY` before. `None` where the node knew no wall time, or only a
    /// checkpoint shows the end.
    pub wall: Option<WallTime>,
}

impl RecordHistory {
    /// The life of a record that stands in a segment as the entry of this sequence.
    pub fn new(header: &Header, sequence: u64, record: LoggedRecord) -> Self {
        let names = record.destinations.places().filter_map(|place| header.outputs.get(place));
        let deliveries =
            names.map(|name| DeliveryHistory { output: name.clone(), end: None }).collect();
        let (segment, boot) = (header.segment, header.boot);
        RecordHistory { record, segment, boot, sequence, deliveries }
    }

    /// Its stream and number on the node of the log.
    pub fn place(&self) -> (StreamId, u64) {
        (self.record.stream, self.record.seq)
    }

    /// Whether it has ended everywhere: later entries can say nothing more of it.
    pub fn has_ended(&self) -> bool {
        self.deliveries.iter().all(|delivery| delivery.end.is_some())
    }

    /// Whether a checkpoint still owes all that has no end here: then no entry before it tells of one.
    pub fn is_owed(&self, header: &Header, checkpoint: &Checkpoint) -> bool {
        let mut after = self.clone();
        after.meet(header, 0, &Entry::Checkpoint(checkpoint.clone()));
        after.deliveries == self.deliveries
    }

    /// Meets the next entry of the log behind the record.
    pub fn meet(&mut self, header: &Header, sequence: u64, entry: &Entry) {
        match entry {
            Entry::Fates(FateEntry { wall, runs }) => {
                for FateRun { stream, run, fate, by, deeds } in runs {
                    if *stream == self.record.stream && run.covers(self.record.seq) {
                        let (fate, segment) = (Some(*fate), header.segment);
                        let (by, deeds, wall) = (by.clone(), deeds.clone(), *wall);
                        let end = DeliveryEnd { fate, by, deeds, segment, sequence, wall };
                        self.end(header, run.destinations, &end);
                    }
                }
            }
            Entry::Checkpoint(checkpoint) => {
                let (stream, seq) = self.place();
                let own = checkpoint.streams.iter().filter(|state| state.name.stream == stream);
                let live = own.flat_map(|state| &state.live);
                let live =
                    live.fold(Destinations::NONE, |all, (_, chunk)| all | chunk.runs.get(seq));
                let all = Destinations(u32::MAX);
                let segment = header.segment;
                let (by, deeds) = (None, Vec::new());
                let end = DeliveryEnd { fate: None, by, deeds, segment, sequence, wall: None };
                self.end(header, all - live, &end);
            }
            _ => {}
        }
    }

    fn end(&mut self, header: &Header, destinations: Destinations, end: &DeliveryEnd) {
        for delivery in self.deliveries.iter_mut().filter(|delivery| delivery.end.is_none()) {
            let place = header.outputs.iter().position(|name| *name == delivery.output);
            // A checkpoint of a node that has no such output any more says nothing of it.
            let place = place.filter(|&place| place < 32);
            if place.is_some_and(|place| destinations - Destinations::one(place) != destinations) {
                delivery.end = Some(end.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_types::record::DropReason;

    use super::*;
    use crate::entry::tests::{checkpoint, fate, header, record};

    fn at(seconds: u64) -> Option<WallTime> {
        Some(WallTime { unix_ns: seconds * 1_000_000_000, uncertainty: Duration::from_secs(1) })
    }

    fn begin(header: &Header) -> RecordHistory {
        let Entry::Record(record) = record(7, 1, 0b11) else { unreachable!() };
        RecordHistory::new(header, 100, *record)
    }

    fn fate_at(wall: Option<WallTime>, entry: Entry) -> Entry {
        let Entry::Fates(FateEntry { runs, .. }) = entry else { unreachable!() };
        Entry::Fates(FateEntry { wall, runs })
    }

    #[test]
    fn each_delivery_has_its_fate_and_when_it_was_noted() {
        let header = header(1, &["cloud", "archive"]);
        let mut life = begin(&header);
        life.meet(&header, 101, &record(7, 2, 0b11));
        life.meet(&header, 102, &fate_at(at(11), fate(7, 1..=2, 0b01, Fate::Confirmed)));
        life.meet(&header, 103, &fate_at(at(12), fate(8, 1..=2, 0b10, Fate::Confirmed)));
        assert!(!life.has_ended());
        let full = Fate::Dropped(DropReason::Full);
        life.meet(&header, 105, &fate_at(at(13), fate(7, 1..=1, 0b10, full)));
        assert!(life.has_ended());
        let end = |fate, sequence, wall| {
            let (by, deeds, segment) = (None, Vec::new(), SegmentId(1));
            Some(DeliveryEnd { fate: Some(fate), by, deeds, segment, sequence, wall })
        };
        assert_eq!(life.deliveries[0].end, end(Fate::Confirmed, 102, at(11)));
        assert_eq!(life.deliveries[1].end, end(full, 105, at(13)));
    }

    #[test]
    fn who_carried_it_is_told() {
        let header = header(1, &["cloud", "archive"]);
        let mut life = begin(&header);
        let Entry::Fates(FateEntry { wall, mut runs }) = fate(7, 1..=1, 0b01, Fate::Confirmed)
        else {
            unreachable!()
        };
        runs[0].by = Some("gate-3".into());
        life.meet(&header, 102, &Entry::Fates(FateEntry { wall, runs }));
        assert_eq!(life.deliveries[0].end.as_ref().unwrap().by.as_deref(), Some("gate-3"));
        assert_eq!(life.deliveries[1].end, None);
    }

    #[test]
    fn a_checkpoint_that_knows_it_no_more_tells_its_end_and_no_fate() {
        let mut life = begin(&header(1, &["cloud", "archive"]));
        // The outputs have changed their places.
        let next = header(2, &["archive", "cloud"]);
        life.meet(&next, 110, &checkpoint(2, 7, SegmentId(1), &[(1..=1, 0b01)]));
        assert_eq!(life.deliveries[0].end.as_ref().unwrap().fate, None);
        assert_eq!(
            (&*life.deliveries[1].output, life.deliveries[1].end.clone()),
            ("archive", None)
        );
        life.meet(&next, 111, &fate(7, 1..=1, 0b11, Fate::Confirmed));
        assert_eq!(life.deliveries[1].end.as_ref().unwrap().fate, Some(Fate::Confirmed));
    }
}
