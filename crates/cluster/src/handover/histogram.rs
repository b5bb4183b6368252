//! Spans of time, counted in buckets that all programs have alike, so that counts can be told to others and one count
//! taken from a later one.
//! Source: own; buckets of a sixteenth of an octave, as in the usual histograms with a high dynamic range.
//! Inputs: spans. Outputs: quantiles, to a part of a bucket's width (6 %). O(buckets).
//! Deviations: none.
//! Limits: [`BUCKETS`].

use std::collections::BTreeMap;
use std::time::Duration;

/// Buckets of an octave.
const PARTS: u64 = 16;
/// Longest span that is told apart, microseconds: an hour, as in `status`.
const MOST_US: u64 = 3_600_000_000;
/// Number of buckets: up to `MOST_US`.
pub const BUCKETS: u16 = 29 * PARTS as u16;

/// How many spans fell into which bucket; only those where any did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeHistogram(BTreeMap<u16, u64>);

impl TimeHistogram {
    /// Counts spans of so many microseconds.
    pub fn add(&mut self, micros: u64, count: u64) {
        if count > 0 {
            let known = self.0.entry(bucket(micros)).or_default();
            *known = known.saturating_add(count);
        }
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// The `share` quantile; zero while nothing is counted. Within a bucket spans are taken to lie evenly.
    pub fn quantile(&self, share: f64) -> Duration {
        let wanted = self.count() as f64 * share.clamp(0.0, 1.0);
        let mut below = 0.0;
        for (&bucket, &count) in &self.0 {
            let count = count as f64;
            if below + count >= wanted {
                let (from, to) = (edge(bucket) as f64, edge(bucket + 1) as f64);
                let part = ((wanted - below) / count).clamp(0.0, 1.0);
                return Duration::from_secs_f64((from + part * (to - from)) / 1e6);
            }
            below += count;
        }
        Duration::ZERO
    }

    /// What was counted since `earlier`; `None` where that is no earlier one of the same count.
    pub fn since(&self, earlier: &TimeHistogram) -> Option<TimeHistogram> {
        let mut left = self.0.clone();
        for (bucket, before) in &earlier.0 {
            let now = left.get_mut(bucket)?;
            *now = now.checked_sub(*before)?;
        }
        left.retain(|_, count| *count > 0);
        Some(TimeHistogram(left))
    }

    /// Buckets and their counts, in order.
    pub(super) fn buckets(&self) -> impl ExactSizeIterator<Item = (u16, u64)> {
        self.0.iter().map(|(bucket, count)| (*bucket, *count))
    }

    /// Adds to a bucket that another program told; false where there is none of this number.
    pub(super) fn add_to(&mut self, bucket: u16, count: u64) -> bool {
        if bucket < BUCKETS && count > 0 {
            let known = self.0.entry(bucket).or_default();
            *known = known.saturating_add(count);
        }
        bucket < BUCKETS
    }
}

/// The bucket of a span: up to 16 us one for each microsecond, then sixteen an octave.
fn bucket(micros: u64) -> u16 {
    let micros = micros.min(MOST_US);
    if micros < PARTS {
        return micros as u16;
    }
    let octave = u64::from(micros.ilog2()) - 4;
    ((octave + 1) * PARTS + (micros >> octave) % PARTS) as u16
}

/// The shortest span of a bucket, microseconds.
fn edge(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < PARTS {
        return bucket;
    }
    (PARTS + bucket % PARTS) << (bucket / PARTS - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_span_is_in_its_bucket(micros in 0..MOST_US) {
            let found = bucket(micros);
            prop_assert!(found < BUCKETS);
            prop_assert!(edge(found) <= micros && micros < edge(found + 1), "{} {}", found, micros);
        }
    }

    #[test]
    fn quantiles_are_right_to_a_part_of_a_bucket() {
        let mut times = TimeHistogram::default();
        assert_eq!(times.quantile(0.9), Duration::ZERO);
        (1..=1000).for_each(|millis| times.add(millis * 1000, 1));
        let p90 = times.quantile(0.9).as_secs_f64();
        assert!((p90 - 0.9).abs() < 0.02, "{p90}");
        times.add(u64::MAX, u64::MAX);
        assert_eq!((times.count(), bucket(u64::MAX)), (u64::MAX, bucket(MOST_US)));
    }

    #[test]
    fn what_came_since_is_the_difference_and_of_another_count_there_is_none() {
        let (mut before, mut more) = (TimeHistogram::default(), TimeHistogram::default());
        before.add(500, 3);
        more.add(500, 1);
        more.add(70_000, 2);
        let mut after = before.clone();
        more.buckets().for_each(|(bucket, count)| assert!(after.add_to(bucket, count)));
        assert_eq!(after.since(&before), Some(more.clone()));
        assert_eq!((more.since(&after), more.since(&before)), (None, None));
        assert!(!more.add_to(BUCKETS, 1));
    }
}
