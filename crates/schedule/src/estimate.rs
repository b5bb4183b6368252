//! Estimates each class's rates and queueing delay from what passes.
//! Source: papers/janus.txt, §IV-A, Eq. 1; Alg. 1 line 3 (`Counter`).
//! Inputs: arrivals and departures (bytes, records), backlog, allocated rate. Outputs: rates in bytes/s
//! and records/s, delays in seconds. O(1) an arrival.
//! Deviations: s is the queue's length (Eq. 1 counts an interval's arrivals twice); the delay is finite
//! at V = 0 (docs/ALGORITHMS.md#estimate).
//! Limits: none.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

/// Interval of one count (t of Alg. 1): the smallest bound is 50 ms, two counts see it.
pub const INTERVAL: Duration = Duration::from_millis(100);
/// Weight of the newest count: half of a step is seen after 3 counts.
const WEIGHT: f64 = 0.25;

/// Intervals after which nothing is left of any rate: the first count of a clock with a far origin, too.
const FADED: u128 = 200;

/// Counts what passes and answers with its rate: an average over about 4 intervals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    since: Time,
    total: Size,
    bytes: u64,
    records: u64,
    rate: Rate,
    records_per_second: f64,
}

impl Meter {
    /// Counts one record of so many bytes.
    #[inline]
    pub fn count(&mut self, now: Time, size: Size) {
        self.roll(now);
        self.total += size;
        self.bytes += size.0;
        self.records += 1;
    }

    /// Bytes counted, ever.
    #[inline]
    pub fn total(&self) -> Size {
        self.total
    }

    /// Bytes/s at `now`.
    #[inline]
    pub fn rate(&mut self, now: Time) -> Rate {
        self.roll(now);
        self.rate
    }

    /// Records/s at `now`.
    #[inline]
    pub fn records_per_second(&mut self, now: Time) -> f64 {
        self.roll(now);
        self.records_per_second
    }

    /// Closes the intervals that are over.
    fn roll(&mut self, now: Time) {
        let elapsed = now.since(self.since);
        if elapsed < INTERVAL {
            return;
        }
        let intervals = elapsed.as_nanos() / INTERVAL.as_nanos();
        if intervals > FADED {
            *self = Meter { since: now, total: self.total, ..Meter::default() };
            return;
        }
        let intervals = intervals as i32;
        let span = INTERVAL.as_secs_f64();
        // The first of them holds the count, the others were empty.
        let fade = (1.0 - WEIGHT).powi(intervals - 1);
        let blend =
            |old: f64, count: u64| (old * (1.0 - WEIGHT) + count as f64 / span * WEIGHT) * fade;
        self.rate = Rate::new(blend(self.rate.as_f64(), self.bytes));
        self.records_per_second = blend(self.records_per_second, self.records);
        (self.bytes, self.records) = (0, 0);
        self.since += INTERVAL * intervals as u32;
    }
}

/// The node's own processing delay (ε of Eq. 1), as an average of measured ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessingDelay(f64);

impl ProcessingDelay {
    /// Takes a measured delay: from reading to queueing, or from picking to the wire, of a small record.
    #[inline]
    pub fn measure(&mut self, delay: Duration) {
        const SMOOTHING: f64 = 1.0 / 64.0;
        self.0 += (delay.as_secs_f64() - self.0) * SMOOTHING;
    }

    /// The average.
    #[inline]
    pub fn get(&self) -> Duration {
        Duration::from_secs_f64(self.0)
    }
}

/// Estimated queueing delay d = s / V + ε. JANUS Eq. 1.
/// backlog: bytes that wait (s); allocated: bytes/s (V); processing: ε. At V = 0 with a backlog, an hour.
pub fn queue_delay(backlog: Size, allocated: Rate, processing: Duration) -> Duration {
    if backlog == Size::ZERO { processing } else { allocated.time_for(backlog) + processing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_is_measured_exactly_in_the_end() {
        let mut meter = Meter::default();
        let mut now = Time::ZERO;
        for _ in 0..500 {
            meter.count(now, Size(200));
            now += Duration::from_millis(10);
        }
        assert!((meter.rate(now).as_f64() - 20_000.0).abs() < 1.0);
        assert!((meter.records_per_second(now) - 100.0).abs() < 0.01);
    }

    #[test]
    fn silence_fades() {
        let mut meter = Meter::default();
        meter.count(Time::ZERO, Size(1000));
        let soon = meter.rate(Time::from_millis(100));
        let later = meter.rate(Time::from_millis(1100));
        assert_eq!(soon, Rate::new(2500.0));
        assert!(later.as_f64() < soon.as_f64() * 0.06, "{later}");
    }

    #[test]
    fn a_clock_with_a_far_origin_is_no_long_silence() {
        let mut meter = Meter::default();
        let now = Time::from_secs_f64(1.7e9);
        meter.count(now, Size(1000));
        assert_eq!(meter.rate(now + INTERVAL), Rate::new(2500.0));
    }

    #[test]
    fn equation_1_by_hand() {
        // 100 kB wait, 250 kB/s are allocated, the node itself takes 2 ms: 402 ms.
        let delay = queue_delay(Size(100_000), Rate::new(250_000.0), Duration::from_millis(2));
        assert_eq!(delay, Duration::from_millis(402));
        assert_eq!(queue_delay(Size::ZERO, Rate::ZERO, Duration::ZERO), Duration::ZERO);
        assert_eq!(queue_delay(Size(1), Rate::ZERO, Duration::ZERO), Duration::from_secs(3600));
    }
}
