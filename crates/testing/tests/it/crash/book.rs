//! What the log is told, entry by entry: which records it has, how they ended, and which ends a crash may
//! undo.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_log::{Entry, FateRun, LoggedRecord};
use tidegate_node::io::Append;
use tidegate_types::record::{DropReason, Fate, StreamId};

use crate::crash::clock::Clock;
use crate::crash::far::Name;

/// A delivery that the far end confirmed, as the log names it.
type Confirmed = (StreamId, u64, u16);

#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Which record has which place in the log.
    places: BTreeMap<(StreamId, u64), Name>,
    /// Records that were ever written.
    pub(crate) logged: BTreeSet<Name>,
    /// Confirmed, and perhaps not yet known to the log.
    unsafe_fates: BTreeSet<Confirmed>,
    /// The same, by the number of the append that says so.
    on_the_way: Vec<(u64, Vec<Confirmed>)>,
}

impl Book {
    /// An entry goes to the disk.
    pub(crate) fn written(&mut self, append: &Append, clock: &Clock) {
        let fates = match &append.entry {
            Entry::Record(record) => return self.record(record),
            Entry::Fates(fates) => {
                fates.runs.iter().for_each(|run| self.fate(run, clock));
                fates.runs.iter().flat_map(flat).collect()
            }
            Entry::Checkpoint(_) => self.unsafe_fates.iter().copied().collect(),
            _ => return,
        };
        self.on_the_way.push((append.number, fates));
    }

    fn record(&mut self, record: &LoggedRecord) {
        let name = Name::from_le_bytes(*record.payload.first_chunk().expect("a name"));
        let known = *self.places.entry((record.stream, record.seq)).or_insert(name);
        assert_eq!(known, name, "a place in the log has one record");
        self.logged.insert(name);
    }

    /// Nothing expires before its time.
    fn fate(&self, fates: &FateRun, clock: &Clock) {
        let &FateRun { stream, run, fate, .. } = fates;
        if fate == Fate::Dropped(DropReason::Expired) {
            let names = (run.first..=run.last).filter_map(|seq| self.places.get(&(stream, seq)));
            names.for_each(|name| clock.expired(*name));
        }
    }

    /// The far end has this.
    pub(crate) fn confirmed(&mut self, stream: StreamId, seq: u64, output: u16) {
        self.unsafe_fates.insert((stream, seq, output));
    }

    /// The disk has made safe what it was given, but for these.
    pub(crate) fn synced(&mut self, failed: &[u64]) {
        for (number, fates) in std::mem::take(&mut self.on_the_way) {
            let is_safe = !failed.contains(&number);
            for fate in fates.into_iter().filter(|_| is_safe) {
                self.unsafe_fates.remove(&fate);
            }
        }
    }

    /// The process ends: so many confirmations the next one may not know.
    pub(crate) fn crash(&mut self) -> u64 {
        self.on_the_way.clear();
        let count = self.unsafe_fates.len() as u64;
        self.unsafe_fates.clear();
        count
    }
}

fn flat(fates: &FateRun) -> impl Iterator<Item = Confirmed> {
    let &FateRun { stream, run, .. } = fates;
    (run.first..=run.last).flat_map(move |seq| {
        run.destinations.places().map(move |place| (stream, seq, place as u16))
    })
}
