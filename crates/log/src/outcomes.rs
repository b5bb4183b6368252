//! How the records of a segment ended, as far as the log says it: by entries of fates, or by a later
//! checkpoint that knows them no more.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_types::record::{Fate, StreamId};

use super::destinations::Destinations;
use super::entry::{Checkpoint, Entry, FateRun};
use super::header::Header;
use super::{Run, Runs};

/// How a delivery stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The log says nothing of its end.
    Held,
    /// An entry says its fate.
    Fate(Fate),
    /// A checkpoint knows it no more: it had a fate, which no entry tells.
    Untold,
}

/// The fates of some records: those of the entries that were met as `gather` says. Memory is for runs of
/// these records.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    outputs: Vec<Arc<str>>,
    open: BTreeMap<StreamId, Runs>,
    /// With the fate; none where only a checkpoint shows the end.
    ended: Vec<(Option<Fate>, BTreeMap<StreamId, Runs>)>,
}

impl Outcomes {
    /// Meets an entry of the segment whose records are of interest.
    pub fn gather(&mut self, header: &Header, entry: &Entry) {
        if let Entry::Record(record) = entry {
            let run =
                Run { first: record.seq, last: record.seq, destinations: record.destinations };
            let run = self.translate(header, run);
            self.open.entry(record.stream).or_default().add(run);
        }
        self.follow(header, entry);
    }

    /// Meets an entry that stands behind them.
    pub fn follow(&mut self, header: &Header, entry: &Entry) {
        match entry {
            Entry::Fates(fates) => {
                for FateRun { stream, run, fate, .. } in &fates.runs {
                    let run = self.translate(header, *run);
                    self.end(*stream, run, Some(*fate));
                }
            }
            Entry::Checkpoint(checkpoint) => self.meet_checkpoint(header, checkpoint),
            _ => {}
        }
    }

    /// Whether a checkpoint still owes all that has no end here: then no entry before it tells of one.
    pub fn is_all_owed(&mut self, header: &Header, checkpoint: &Checkpoint) -> bool {
        self.gone_by(header, checkpoint).values().all(Runs::is_empty)
    }

    /// Whether nothing is left of which the end could still be told. `held` answers whether the log's last
    /// word on a record is that it has no fate.
    pub fn is_settled(&self, held: impl Fn(StreamId, Run) -> bool) -> bool {
        self.open.iter().all(|(&stream, runs)| runs.iter().all(|run| held(stream, run)))
    }

    /// How the deliveries of a record stand, by the names of the outputs.
    pub fn of(&self, stream: StreamId, seq: u64) -> Vec<(Arc<str>, Outcome)> {
        let get = |runs: &BTreeMap<StreamId, Runs>| {
            runs.get(&stream).map_or(Destinations::NONE, |runs| runs.get(seq))
        };
        let mut found = Vec::new();
        let mut note = |destinations: Destinations, ending| {
            let names = destinations.places().filter_map(|place| self.outputs.get(place));
            found.extend(names.map(|name| (name.clone(), ending)));
        };
        note(get(&self.open), Outcome::Held);
        for (fate, runs) in &self.ended {
            note(get(runs), fate.map_or(Outcome::Untold, Outcome::Fate));
        }
        found.sort_by(|(one, _), (other, _)| one.cmp(other));
        found
    }

    fn gone_by(&mut self, header: &Header, checkpoint: &Checkpoint) -> BTreeMap<StreamId, Runs> {
        let mut gone = self.open.clone();
        for state in &checkpoint.streams {
            let Some(runs) = gone.get_mut(&state.name.stream) else { continue };
            for run in state.live.iter().flat_map(|(_, chunk)| chunk.runs.iter()) {
                runs.remove(self.translate(header, run));
            }
        }
        gone
    }

    fn meet_checkpoint(&mut self, header: &Header, checkpoint: &Checkpoint) {
        for (stream, runs) in self.gone_by(header, checkpoint) {
            runs.iter().for_each(|run| self.end(stream, run, None));
        }
    }

    /// Moves what is open of a run to what has ended.
    fn end(&mut self, stream: StreamId, run: Run, fate: Option<Fate>) {
        let Some(open) = self.open.get_mut(&stream) else { return };
        let cut = |piece: Run| Run {
            destinations: Destinations(piece.destinations.0 & run.destinations.0),
            ..piece
        };
        let pieces: Vec<Run> = open.within(run.first, run.last).map(cut).collect();
        open.remove(run);
        if open.is_empty() {
            self.open.remove(&stream);
        }
        let place = self.ended.iter().position(|(known, _)| *known == fate).unwrap_or_else(|| {
            self.ended.push((fate, BTreeMap::new()));
            self.ended.len() - 1
        });
        let ended = self.ended[place].1.entry(stream).or_default();
        pieces.into_iter().for_each(|piece| ended.add(piece));
    }

    /// The destinations of a segment as places among all names met.
    fn translate(&mut self, header: &Header, run: Run) -> Run {
        let mut destinations = Destinations::NONE;
        for place in run.destinations.places() {
            let Some(name) = header.outputs.get(place) else { continue };
            let known = self.outputs.iter().position(|other| other == name);
            let place = known.unwrap_or_else(|| {
                self.outputs.push(name.clone());
                self.outputs.len() - 1
            });
            // More names than bits: only a log whose outputs have changed again and again has so many.
            destinations = destinations | Destinations::one(place.min(31));
        }
        Run { destinations, ..run }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::record::DropReason;

    use super::*;
    use crate::SegmentId;
    use crate::entry::tests::{checkpoint, fate, header, record};

    #[test]
    fn an_end_is_told_by_fates_or_by_a_checkpoint() {
        let (first, second) = (header(1, &["cloud", "archive"]), header(2, &["archive", "cloud"]));
        let mut fates = Outcomes::default();
        for seq in 1..=4 {
            fates.gather(&first, &record(7, seq, 0b11));
        }
        fates.gather(&first, &fate(7, 1..=2, 0b01, Fate::Confirmed));
        let next = checkpoint(2, 7, SegmentId(1), &[(2..=2, 0b01), (4..=4, 0b11)]);
        fates.follow(&second, &next);
        let Entry::Checkpoint(next) = next else { unreachable!() };
        assert!(fates.is_all_owed(&second, &next));
        assert!(!fates.is_all_owed(&second, &Checkpoint::default()));
        fates.follow(&second, &fate(7, 2..=2, 0b01, Fate::Dropped(DropReason::Expired)));
        let of = |seq| {
            let told = fates.of(StreamId(7), seq).into_iter();
            told.map(|(name, ending)| (name.to_string(), ending)).collect::<Vec<_>>()
        };
        let [archive, cloud] = ["archive".to_owned(), "cloud".to_owned()];
        let confirmed = Outcome::Fate(Fate::Confirmed);
        assert_eq!(of(1), [(archive.clone(), Outcome::Untold), (cloud.clone(), confirmed)]);
        let expired = Outcome::Fate(Fate::Dropped(DropReason::Expired));
        assert_eq!(of(2), [(archive.clone(), expired), (cloud.clone(), confirmed)]);
        assert_eq!(of(3), [(archive.clone(), Outcome::Untold), (cloud.clone(), Outcome::Untold)]);
        assert_eq!(of(4), [(archive, Outcome::Held), (cloud, Outcome::Held)]);
        assert!(of(5).is_empty());
        assert!(!fates.is_settled(|_, _| false));
        assert!(fates.is_settled(|stream, run| (stream.0, run.first, run.last) == (7, 4, 4)));
    }
}
