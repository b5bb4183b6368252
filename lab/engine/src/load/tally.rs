//! What arrived of a group of streams: latencies as a histogram, and each stream's gaps, duplicates, order.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::sequence::{Coming, Sequence};
use super::stamp::Stamp;
use crate::report::{Axis, Curve, Mark, Plot};

/// Digits of a latency that the histogram keeps.
const DIGITS: u8 = 3;
/// Points of the time series that are kept, or twice as many for a while.
const POINTS: usize = 1024;
/// Slowest records that are kept by themselves.
const SLOWEST: usize = 5;

/// The receiver's book of one group of streams: bounded memory, however much comes.
#[derive(Clone, Debug)]
pub struct Tally {
    /// From due to received, in nanoseconds, of each record's first copy.
    latencies: Histogram<u64>,
    /// When records were due and how late they came, in nanoseconds: of each few, the slowest.
    points: Vec<(u64, u64)>,
    /// How many records a point stands for.
    each: u64,
    slowest: Vec<(u64, u64)>,
    streams: BTreeMap<String, Sequence>,
    /// Copies after the first.
    pub duplicates: u64,
    /// Records that came after a later one of the stream.
    pub out_of_order: u64,
    /// Records that came while the load was on.
    pub in_time: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            latencies: Histogram::new(DIGITS).expect("so many digits are allowed"),
            points: Vec::new(),
            each: 1,
            slowest: Vec::new(),
            streams: BTreeMap::new(),
            duplicates: 0,
            out_of_order: 0,
            in_time: 0,
        }
    }
}

impl Tally {
    /// Takes a record; says whether it is the first copy. `end_ns` is the end of the load.
    pub fn take(&mut self, stamp: &Stamp, received_ns: u64, end_ns: u64) -> bool {
        // Looked up first: a key is made once a stream, not once a record.
        let coming = match self.streams.get_mut(&stamp.stream) {
            Some(stream) => stream.take(stamp.seq),
            None => self.streams.entry(stamp.stream.clone()).or_default().take(stamp.seq),
        };
        match coming {
            Coming::Again => {
                self.duplicates += 1;
                return false;
            }
            Coming::Late => self.out_of_order += 1,
            Coming::InOrder => {}
        }
        self.in_time += u64::from(received_ns <= end_ns);
        let latency = received_ns.saturating_sub(stamp.due_ns);
        // A histogram that grows by itself takes every value.
        let _ = self.latencies.record(latency);
        self.keep_point(stamp.due_ns, latency);
        let is_slow = self.slowest.last().is_none_or(|(least, _)| latency > *least);
        if is_slow || self.slowest.len() < SLOWEST {
            self.slowest.push((latency, stamp.due_ns));
            self.slowest.sort_unstable_by(|a, b| b.cmp(a));
            self.slowest.truncate(SLOWEST);
        }
        true
    }

    fn keep_point(&mut self, due_ns: u64, latency: u64) {
        match self.points.last_mut() {
            Some(last) if self.latencies.len() % self.each != 1 % self.each => {
                if latency > last.1 {
                    *last = (due_ns, latency);
                }
            }
            _ => self.points.push((due_ns, latency)),
        }
        if self.points.len() > 2 * POINTS {
            let slower = |pair: &[(u64, u64)]| pair.iter().copied().max_by_key(|point| point.1);
            self.points = self.points.chunks(2).filter_map(slower).collect();
            self.each *= 2;
        }
    }

    pub fn got(&self) -> u64 {
        self.latencies.len()
    }

    /// What has come of a stream; nothing where it is unknown.
    pub fn stream(&self, name: &str) -> Option<&Sequence> {
        self.streams.get(name)
    }

    /// The latency that this part (0..=1) of the received records keeps; zero where there are none.
    pub fn quantile(&self, part: f64) -> Duration {
        Duration::from_nanos(self.latencies.value_at_quantile(part))
    }

    /// The slowest records, slowest first: latency, and when they were due in nanoseconds since 1970.
    pub fn slowest(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.slowest.iter().map(|(latency, due_ns)| (Duration::from_nanos(*latency), *due_ns))
    }

    /// Latencies in milliseconds, and the part of the records that is not slower: a distribution.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let (all, mut so_far) = (self.got() as f64, 0.0);
        let steps = self.latencies.iter_recorded().map(|step| {
            so_far += step.count_since_last_iteration() as f64;
            (step.value_iterated_to() as f64 / 1e6, so_far / all)
        });
        steps.collect()
    }

    /// When records were due, in nanoseconds since 1970, and how many milliseconds late they came; of
    /// many records, the slowest of each few. In the order in which they were due.
    pub fn series(&self) -> Vec<(u64, f64)> {
        let mut points = self.points.clone();
        points.sort_unstable();
        points.into_iter().map(|(due_ns, latency)| (due_ns, latency as f64 / 1e6)).collect()
    }

    /// Adds what another run tallied, but for its streams and its series.
    pub fn add_latencies(&mut self, other: &Tally) {
        // Both grow by themselves.
        let _ = self.latencies.add(&other.latencies);
    }
}

/// Latencies of several groups as distributions, and over time since the load of each began.
pub fn plots(titles: [String; 2], unit: &str, of: &[(&str, Tally, &Tally, u64)]) -> Vec<Plot> {
    let distribution = |(name, all, ..): &(&str, Tally, &Tally, u64)| {
        Curve::new(name, Mark::Steps, all.distribution())
    };
    let series = |(name, _, last, began_ns): &(&str, Tally, &Tally, u64)| {
        let due = |due_ns: u64| due_ns.saturating_sub(*began_ns) as f64 / 1e9;
        let points = last.series().into_iter().map(|(due_ns, late)| (due(due_ns), late));
        Curve::new(name, Mark::Line, points.collect())
    };
    let latency = || Axis::log("latency from due to received", "ms");
    let [whole, over_time] = titles;
    let part = Axis::linear(&format!("part of the {unit}s that came"), "1");
    let when = Axis::linear(&format!("when the {unit} was due"), "s");
    let whole_curves = of.iter().map(distribution).collect();
    let curves = of.iter().map(series).collect();
    vec![
        Plot { title: whole, x: latency(), y: part, curves: whole_curves },
        Plot { title: over_time, x: when, y: latency(), curves },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(stream: &str, seq: u64, due_ns: u64) -> Stamp {
        Stamp { stream: stream.into(), seq, due_ns }
    }

    #[test]
    fn copies_gaps_and_order_are_told_apart() {
        let mut tally = Tally::default();
        for (seq, received_ns) in [(0, 10), (2, 30), (1, 40), (2, 50), (4, 99)] {
            tally.take(&stamp("a", seq, seq), received_ns, 60);
        }
        tally.take(&stamp("b", 0, 0), 60, 60);
        assert_eq!(
            (tally.got(), tally.duplicates, tally.out_of_order, tally.in_time),
            (5, 1, 1, 4)
        );
        let a = tally.stream("a").unwrap();
        assert!(a.has(4) && !a.has(3) && tally.stream("c").is_none());
    }

    #[test]
    fn quantiles_are_those_of_received_records() {
        let mut tally = Tally::default();
        for seq in 0..100 {
            tally.take(&stamp("a", seq, 0), seq + 1, 0);
        }
        let at = |part| tally.quantile(part).as_nanos();
        assert_eq!([at(0.5), at(0.99), at(1.0)], [50, 99, 100]);
        assert_eq!(tally.slowest().next(), Some((Duration::from_nanos(100), 0)));
        let distribution = tally.distribution();
        assert_eq!((distribution.len(), distribution[49]), (100, (50e-6, 0.5)));
        assert_eq!(Tally::default().quantile(0.99), Duration::ZERO);
    }

    #[test]
    fn a_long_series_keeps_its_peaks_in_little_room() {
        let mut tally = Tally::default();
        for seq in 0..1_000_000 {
            let latency = if seq == 777_777 { 9_000_000 } else { 1_000_000 };
            tally.take(&stamp("a", seq, seq), seq + latency, 0);
        }
        let series = tally.series();
        assert!((POINTS / 2..=2 * POINTS).contains(&series.len()), "{}", series.len());
        assert!(series.contains(&(777_777, 9.0)));
        assert!(series.is_sorted_by_key(|(due, _)| *due));
    }

    #[test]
    fn runs_are_added_up() {
        let mut tallies = [1_000u64, 2_000].map(|latency| {
            let mut tally = Tally::default();
            tally.take(&stamp("a", 0, 0), latency, 0);
            tally
        });
        let [first, second] = &mut tallies;
        first.add_latencies(second);
        let at = |part| first.quantile(part).as_nanos();
        assert_eq!((first.got(), at(0.5), at(1.0)), (2, 1_000, 2_000));
    }
}
