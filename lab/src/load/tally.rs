//! What arrived: latencies, gaps, duplicates and order of one stream.

use std::collections::BTreeSet;
use std::time::Duration;

use super::stamp::Stamp;

/// The receiver's book of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// From due to received, in nanoseconds, and the place in the stream, of each record's first copy.
    latencies_ns: Vec<(u64, u64)>,
    seen: BTreeSet<u64>,
    newest: Option<u64>,
    /// Copies after the first.
    pub duplicates: u64,
    /// Records that came after a later one of the stream.
    pub out_of_order: u64,
    /// Records that came while the load was on.
    pub in_time: u64,
}

impl Tally {
    /// Takes a record. `end_ns` is the end of the load.
    pub fn take(&mut self, stamp: &Stamp, received_ns: u64, end_ns: u64) {
        if !self.seen.insert(stamp.seq) {
            self.duplicates += 1;
            return;
        }
        if self.newest.is_some_and(|newest| newest > stamp.seq) {
            self.out_of_order += 1;
        }
        self.newest = self.newest.max(Some(stamp.seq));
        self.in_time += u64::from(received_ns <= end_ns);
        self.latencies_ns.push((received_ns.saturating_sub(stamp.due_ns), stamp.seq));
    }

    /// Different records received.
    pub fn got(&self) -> u64 {
        self.seen.len() as u64
    }

    /// The latency that this part (0..=1) of the received records keeps; zero where there are none.
    pub fn quantile(&self, part: f64) -> Duration {
        let sorted = self.sorted();
        let rank = (part * sorted.len() as f64).ceil() as usize;
        Duration::from_nanos(sorted.get(rank.saturating_sub(1)).map_or(0, |(latency, _)| *latency))
    }

    /// The slowest records, slowest first: latency and place in the stream.
    pub fn slowest(&self, count: usize) -> Vec<(Duration, u64)> {
        let slowest = self.sorted().into_iter().rev().take(count);
        slowest.map(|(latency, seq)| (Duration::from_nanos(latency), seq)).collect()
    }

    /// All latencies in milliseconds, shortest first.
    pub fn sorted_ms(&self) -> Vec<f64> {
        self.sorted().iter().map(|(latency, _)| *latency as f64 / 1e6).collect()
    }

    /// Place in the stream and latency in milliseconds of each record, by place.
    pub fn by_place(&self) -> Vec<(u64, f64)> {
        let mut places: Vec<(u64, f64)> =
            self.latencies_ns.iter().map(|(latency, seq)| (*seq, *latency as f64 / 1e6)).collect();
        places.sort_unstable_by_key(|(seq, _)| *seq);
        places
    }

    fn sorted(&self) -> Vec<(u64, u64)> {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_gaps_and_order_are_told_apart() {
        let mut tally = Tally::default();
        for (seq, received_ns) in [(0, 10), (2, 30), (1, 40), (2, 50), (4, 99)] {
            tally.take(&Stamp { stream: "a".into(), seq, due_ns: seq }, received_ns, 60);
        }
        assert_eq!(
            (tally.got(), tally.duplicates, tally.out_of_order, tally.in_time),
            (4, 1, 1, 3)
        );
    }

    #[test]
    fn quantiles_are_those_of_received_records() {
        let mut tally = Tally::default();
        for seq in 0..100 {
            tally.take(&Stamp { stream: "a".into(), seq, due_ns: 0 }, seq + 1, 0);
        }
        let at = |part| tally.quantile(part).as_nanos();
        assert_eq!([at(0.5), at(0.99), at(1.0)], [50, 99, 100]);
        assert_eq!(tally.slowest(1), [(Duration::from_nanos(100), 99)]);
        assert_eq!(Tally::default().quantile(0.99), Duration::ZERO);
    }
}
