//! Which records of a stream still wait for whom: runs of sequence numbers, because a backlog is mostly
//! contiguous and may have millions of records.

use std::collections::BTreeMap;

use super::Destinations;

/// Records `first..=last` that all wait for the same destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Sequence number of the first.
    pub first: u64,
    /// Sequence number of the last, at least `first`.
    pub last: u64,
    /// Who has not had them; never empty.
    pub destinations: Destinations,
}

impl Run {
    /// How many records.
    pub fn records(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Whether a record is one of them.
    pub fn covers(&self, seq: u64) -> bool {
        (self.first..=self.last).contains(&seq)
    }
}

/// What a change took away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedRuns {
    /// (record, destination) pairs.
    pub deliveries: u64,
    /// Records that wait for nobody any more.
    pub records: u64,
}

/// Runs of records, in order, none overlapping another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// By the first number: the last one, and for whom.
    runs: BTreeMap<u64, (u64, Destinations)>,
    records: u64,
}

impl Runs {
    /// How many records.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many (record, destination) pairs.
    pub fn deliveries(&self) -> u64 {
        self.iter().map(|run| run.records() * u64::from(run.destinations.count())).sum()
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.runs.iter().map(|(&first, &(last, destinations))| Run { first, last, destinations })
    }

    /// For whom a record waits; nobody if it is not here.
    pub fn get(&self, seq: u64) -> Destinations {
        let run = self.runs.range(..=seq).next_back();
        run.filter(|(_, (last, _))| *last >= seq).map_or(Destinations::NONE, |(_, run)| run.1)
    }

    /// The runs of `from..=to`, cut to it.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = Run> + '_ {
        let before = self.runs.range(..from).next_back().filter(|(_, (last, _))| *last >= from);
        let inside = if from <= to { Some(self.runs.range(from..=to)) } else { None };
        let all =
            before.into_iter().filter(move |_| from <= to).chain(inside.into_iter().flatten());
        all.map(move |(&first, &(last, destinations))| Run {
            first: first.max(from),
            last: last.min(to),
            destinations,
        })
    }

    /// Adds records. What overlaps one that is here already waits for both's destinations. A run that
    /// ends before it begins, or waits for nobody, adds nothing.
    pub fn add(&mut self, run: Run) {
        let mut next = run.first;
        if run.destinations == Destinations::NONE {
            return;
        }
        while next <= run.last {
            // From `next` on: either a piece of what is here, or a gap up to the next piece.
            let here = self.split_off(next, run.last);
            let end = match here {
                Some(Run { first, last, destinations }) if first == next => {
                    self.put(first, last, destinations | run.destinations);
                    last
                }
                Some(Run { first, last, destinations }) => {
                    self.put(first, last, destinations);
                    self.put(next, first - 1, run.destinations);
                    first - 1
                }
                None => {
                    self.put(next, run.last, run.destinations);
                    run.last
                }
            };
            let Some(after) = end.checked_add(1) else { return };
            next = after;
        }
    }

    /// Takes destinations away from records; a record without any is gone.
    pub fn remove(&mut self, run: Run) -> RemovedRuns {
        let mut taken = RemovedRuns::default();
        let mut next = run.first;
        while let Some(piece) = self.split_off(next, run.last) {
            let left = piece.destinations - run.destinations;
            let gone = u64::from(piece.destinations.count() - left.count());
            taken.deliveries += gone * piece.records();
            if left == Destinations::NONE {
                taken.records += piece.records();
            } else {
                self.put(piece.first, piece.last, left);
            }
            let Some(after) = piece.last.checked_add(1) else { break };
            next = after;
        }
        taken
    }

    /// Takes a record out; answers for whom it waited.
    pub fn take(&mut self, seq: u64) -> Destinations {
        self.split_off(seq, seq).map_or(Destinations::NONE, |run| run.destinations)
    }

    /// Takes the first `records` records out, at most one run of them.
    pub fn take_first(&mut self, records: u64) -> Option<Run> {
        let first = self.iter().next().filter(|_| records > 0)?;
        self.split_off(first.first, first.first.saturating_add(records - 1))
    }

    /// Takes out the first run that touches `from..=to`, cut to it.
    fn split_off(&mut self, from: u64, to: u64) -> Option<Run> {
        if from > to {
            return None;
        }
        let before = self.runs.range(..=from).next_back().filter(|(_, (last, _))| *last >= from);
        let (&first, &(last, destinations)) =
            before.or_else(|| self.runs.range(from..=to).next())?;
        self.runs.remove(&first);
        self.records -= last - first + 1;
        let (begin, end) = (first.max(from), last.min(to));
        if first < begin {
            self.put(first, begin - 1, destinations);
        }
        if end < last {
            self.put(end + 1, last, destinations);
        }
        Some(Run { first: begin, last: end, destinations })
    }

    /// Puts a run where nothing is, joined with an equal neighbour.
    fn put(&mut self, mut first: u64, mut last: u64, destinations: Destinations) {
        self.records += last - first + 1;
        let before = self.runs.range(..first).next_back().map(|(&at, &run)| (at, run));
        if let Some((at, (end, theirs))) = before
            && end + 1 == first
            && theirs == destinations
        {
            self.runs.remove(&at);
            first = at;
        }
        let after = last.checked_add(1).and_then(|next| self.runs.get(&next).copied());
        if let Some((end, theirs)) = after
            && theirs == destinations
        {
            self.runs.remove(&(last + 1));
            last = end;
        }
        self.runs.insert(first, (last, destinations));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(first: u64, last: u64, bits: u32) -> Run {
        Run { first, last, destinations: Destinations(bits) }
    }

    #[test]
    fn a_contiguous_backlog_is_one_run() {
        let mut runs = Runs::default();
        (1..=1000).for_each(|seq| runs.add(run(seq, seq, 1)));
        assert_eq!(runs.iter().collect::<Vec<_>>(), [run(1, 1000, 1)]);
        assert_eq!(runs.take_first(10), Some(run(1, 10, 1)));
        assert_eq!(runs.take(500), Destinations(1));
        assert_eq!(runs.iter().collect::<Vec<_>>(), [run(11, 499, 1), run(501, 1000, 1)]);
        runs.add(run(500, 500, 1));
        assert_eq!((runs.iter().count(), runs.records()), (1, 990));
    }

    #[test]
    fn the_ends_of_the_numbers_are_no_trap() {
        let mut runs = Runs::default();
        runs.add(run(u64::MAX - 1, u64::MAX, 3));
        runs.add(run(5, 4, 3));
        runs.add(run(1, 9, 0));
        assert_eq!(runs.get(u64::MAX), Destinations(3));
        let taken = runs.remove(run(0, u64::MAX, 1));
        assert_eq!(taken, RemovedRuns { deliveries: 2, records: 0 });
        assert_eq!(runs.take(u64::MAX), Destinations(2));
        assert_eq!(runs.records(), 1);
    }

    proptest! {
        #[test]
        fn runs_are_a_map_of_records(
            steps in proptest::collection::vec((0..3_u8, 0..40_u64, 0..12_u64, 0..8_u32), 0..60)
        ) {
            let (mut runs, mut model) = (Runs::default(), BTreeMap::<u64, u32>::new());
            for (kind, first, length, bits) in steps {
                let change = run(first, first + length, bits);
                match kind {
                    0 => {
                        runs.add(change);
                        (first..=first + length).for_each(|seq| *model.entry(seq).or_default() |= bits);
                    }
                    1 => {
                        let taken = runs.remove(change);
                        let mut gone = 0;
                        for (_, mask) in model.range_mut(first..=first + length) {
                            gone += u64::from((*mask & bits).count_ones());
                            *mask &= !bits;
                        }
                        prop_assert_eq!(taken.deliveries, gone);
                    }
                    _ => {
                        let taken = runs.take(first);
                        prop_assert_eq!(taken.0, model.remove(&first).unwrap_or(0));
                    }
                }
                model.retain(|_, mask| *mask != 0);
                let flat = runs.iter().flat_map(|run| (run.first..=run.last).map(move |seq| (seq, run.destinations.0)));
                prop_assert!(flat.eq(model.iter().map(|(&seq, &mask)| (seq, mask))));
                prop_assert_eq!(runs.records(), model.len() as u64);
                let pieces: Vec<Run> = runs.iter().collect();
                let joined = |pair: &[Run]| pair[0].last + 1 < pair[1].first || pair[0].destinations != pair[1].destinations;
                prop_assert!(pieces.windows(2).all(joined), "equal neighbours are one run");
            }
        }
    }
}
