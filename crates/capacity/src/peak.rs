//! Remembers the most that a path carried of late: a restless one may carry that again before anybody hears of it.
//! Source: own (docs/ALGORITHMS.md#tide).
//! Inputs: delivery rates in bytes/s, whether no queue shows. Outputs: bytes/s to be added to the rate.
//! Deviations: none.
//! Limits: constant memory, amortised O(1).

use std::time::Duration;

use tidegate_types::units::Time;

use super::window_filter::{Extreme, WindowFilter};

/// Round trips for which a rate is remembered. At 16 alarms wait for more than 150 ms still 1.5 s after a fall to an eighth.
const ROUNDS: u32 = 8;
/// Part of the time without a queue at which all of it counts. At 0.15 paths that hardly lose anything have longer queues.
const DRY: f64 = 0.3;
/// Seconds over which that part is taken.
const DRY_PERIOD: f64 = 5.0;
/// Longest gap between two acknowledgements that counts, in seconds: a silence says nothing of the queue.
const GAP_MAX: f64 = 0.1;

/// The largest rate of late, and how often the path had nothing to carry although something waited.
#[derive(Debug)]
pub(super) struct Peak {
    rates: WindowFilter,
    dry: f64,
    heard_at: Time,
}

impl Peak {
    pub(super) fn new() -> Self {
        Peak { rates: WindowFilter::new(Extreme::Max), dry: 0.0, heard_at: Time::ZERO }
    }

    /// So many bytes/s came; `round`: the shortest round trip.
    pub(super) fn push(&mut self, now: Time, round: Duration, rate: f64) {
        self.rates.push(now.as_nanos(), (round * ROUNDS).as_nanos() as u64, rate);
    }

    /// An acknowledgement came. `is_dry`: no queue shows; `None` while that is not what we want to know, for we drain the path
    /// or have nothing to send.
    pub(super) fn heard(&mut self, now: Time, is_dry: Option<bool>) {
        let gap = now.since(self.heard_at).as_secs_f64().min(GAP_MAX);
        self.heard_at = now;
        if let Some(is_dry) = is_dry {
            self.dry += (f64::from(u8::from(is_dry)) - self.dry) * gap / DRY_PERIOD;
        }
    }

    /// What the path may carry beyond so many bytes/s a moment from now, weighed by what its emptiness costs.
    pub(super) fn above(&self, rate: f64) -> f64 {
        let most = self.rates.get().unwrap_or_default();
        (most - rate).max(0.0) * (self.dry / DRY).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Duration = Duration::from_millis(60);

    #[test]
    fn what_came_counts_as_far_as_the_path_was_empty_since() {
        let mut peak = Peak::new();
        peak.push(Time::from_millis(1000), ROUND, 4e6);
        peak.heard(Time::from_millis(1000), Some(false));
        assert_eq!(peak.above(1e6), 0.0, "the path was never empty");
        for milli in 1001..1600 {
            peak.heard(Time::from_millis(milli), Some(true));
        }
        let part = (1.0 - (-0.6_f64 / DRY_PERIOD).exp()) / DRY;
        assert!((peak.above(1e6) / 3e6 - part).abs() < 0.01, "{}", peak.above(1e6));
        assert_eq!(peak.above(5e6), 0.0);
        for milli in 1600..20_000 {
            peak.heard(Time::from_millis(milli), None);
        }
        assert!(peak.above(1e6) > 0.0, "a drain says nothing");
        for milli in 20_000..60_000 {
            peak.heard(Time::from_millis(milli), Some(false));
        }
        assert!(peak.above(1e6) < 1e4);
    }

    #[test]
    fn it_is_forgotten_after_some_round_trips_and_a_silence_is_no_emptiness() {
        let mut peak = Peak::new();
        peak.heard(Time::from_millis(60_000), Some(true));
        assert!((peak.dry - GAP_MAX / DRY_PERIOD).abs() < 1e-9);
        peak.push(Time::from_millis(60_000), ROUND, 4e6);
        peak.push(Time::from_millis(60_000) + ROUND * ROUNDS, ROUND, 1e6);
        assert!(peak.above(2e6) > 0.0);
        peak.push(Time::from_millis(60_001) + ROUND * ROUNDS, ROUND, 1e6);
        assert_eq!(peak.above(2e6), 0.0);
    }
}
