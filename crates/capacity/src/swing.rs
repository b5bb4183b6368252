//! How much what a path carries changes from one round trip to the next: the statistic that tells a restless link.

use std::time::Duration;

use tidegate_types::units::Time;

/// Weight of the newest round trip.
const WEIGHT: f64 = 1.0 / 8.0;
/// What a loss leaves of the mean.
const AFTER_LOSS: f64 = 0.5;
/// Relative change a round trip above which a path is restless. At 0.15 recorded radio links lose a part of what they gain;
/// at 0.1 acknowledgements in batches of 5 to 20 ms cross it at times.
const RESTLESS: f64 = 0.1;

/// The mean relative change a round trip, of rates seen while a queue stood: those are the path's and not ours.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Swing {
    mean: f64,
    /// The last rate, and when it was seen.
    last: Option<(Time, f64)>,
    /// Rates before then do not count.
    void_until: Time,
    is_void: bool,
}

impl Swing {
    /// Takes the rate of the round trip that ends now; looks once a round trip.
    pub(super) fn push(&mut self, now: Time, round: Duration, rate: f64) {
        self.is_void = now < self.void_until;
        if self.is_void {
            self.last = None;
            return;
        }
        let Some((at, before)) = self.last else {
            self.last = Some((now, rate));
            return;
        };
        if at + round > now {
            return;
        }
        self.last = Some((now, rate));
        // What was seen long ago says how far it went, and not how fast.
        if now < at + round * 3 {
            let change = (rate - before).abs() / rate.max(before).max(1.0);
            self.mean += (change - self.mean) * WEIGHT;
        }
    }

    /// Bytes were lost: what comes in order until they are there again stalls and lumps, which says nothing of the path.
    pub(super) fn lost(&mut self, until: Time) {
        self.mean *= AFTER_LOSS;
        (self.void_until, self.is_void) = (until, true);
    }

    /// Whether the path changes so much that a drain or a slow pace costs more than it saves.
    pub(super) fn is_restless(&self) -> bool {
        self.mean > RESTLESS && !self.is_void
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_restless_while_its_rate_swings() {
        let round = Duration::from_millis(60);
        let mut swing = Swing::default();
        let mut now = Time::ZERO;
        let mut play = |swing: &mut Swing, rates: [f64; 2]| {
            for turn in 0..20 {
                now += round;
                swing.push(now, round, rates[turn % 2]);
                // Once a round trip is enough.
                swing.push(now, round, 1.0);
            }
        };
        play(&mut swing, [1e6, 1.02e6]);
        assert!(!swing.is_restless());
        play(&mut swing, [1e6, 2e6]);
        assert!(swing.is_restless());
        play(&mut swing, [1e6, 1e6]);
        assert!(!swing.is_restless());
        swing.lost(Time::from_millis(1_000_000));
        play(&mut swing, [1e6, 2e6]);
        assert!(!swing.is_restless());
    }
}
