//! The arrival delay of a path: how long packets take to the peer, but for a constant that is the same
//! on every path.
//! Source: papers/fd-mvqs.txt, §4.2, Eq. 14.
//! Inputs: sending times by our clock, receiving times by the peer's. Outputs: seconds. O(1) amortised.
//! Deviations: the last delay in place of the chaotic prediction (docs/algorithms-link.md#delay).
//! Limits: `WINDOW`.

use std::time::Duration;

use crate::capacity::windowed::{Extreme, Windowed};
use crate::units::Time;

/// Time over which the least delay counts: clocks drift apart by less than a millisecond meanwhile, and
/// a law of capacity drains the path more often.
const WINDOW: Duration = Duration::from_secs(15);

/// Delays of one path, in seconds of two clocks that run alike but began at different times.
#[derive(Clone, Debug)]
pub struct ArrivalDelay {
    last: Option<f64>,
    least: Windowed,
    /// Least of round trip - arrival delay: what the way back takes, on the same two clocks.
    back: Windowed,
}

impl ArrivalDelay {
    /// Nothing has been measured.
    pub fn new() -> Self {
        ArrivalDelay {
            last: None,
            least: Windowed::new(Extreme::Min),
            back: Windowed::new(Extreme::Min),
        }
    }

    /// A packet was sent at `sent_at`, came at `received_at` (microseconds of the peer's clock), and was
    /// acknowledged now after a round trip of `rtt`, Eq. 14.
    pub fn push(&mut self, now: Time, sent_at: Time, received_at: u64, rtt: Duration) {
        // The difference of two clocks may have either sign; a peer may say anything.
        let micros = received_at.wrapping_sub(sent_at.as_nanos() / 1000) as i64;
        let delay = micros as f64 / 1e6;
        self.last = Some(delay);
        let (place, span) = (now.as_nanos(), WINDOW.as_nanos() as u64);
        self.least.push(place, span, delay);
        self.back.push(place, span, rtt.as_secs_f64() - delay);
    }

    /// The delay of a packet that is sent now, AD; `None` before the first.
    pub fn predicted(&self) -> Option<f64> {
        self.last
    }

    /// The least delay of late.
    pub fn least(&self) -> Option<f64> {
        self.least.get()
    }

    /// The time that packets stand in queues on the way to the peer, seconds >= 0.
    pub fn queue(&self) -> f64 {
        self.last.zip(self.least()).map_or(0.0, |(last, least)| (last - least).max(0.0))
    }

    /// The round trip without the queues of the way back: what a law of capacity should see, for these are
    /// not its own. At least zero.
    pub fn forward_rtt(&self) -> Option<Duration> {
        let seconds = self.last? + self.back.get()?;
        Some(Duration::try_from_secs_f64(seconds.clamp(0.0, 3600.0)).unwrap_or_default())
    }
}

impl Default for ArrivalDelay {
    fn default() -> Self {
        ArrivalDelay::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn clocks_that_began_at_different_times_compare_paths_all_the_same() {
        let millis = Duration::from_millis;
        for offset in [0, 7 * SECOND, 0_u64.wrapping_sub(3 * SECOND)] {
            let [mut near, mut far] = [ArrivalDelay::new(), ArrivalDelay::new()];
            let sent = Time::from_millis(10_000);
            let at = |ms: u64| (10_000_000 + ms * 1000).wrapping_add(offset);
            near.push(sent + millis(140), sent, at(70), millis(140));
            far.push(sent + millis(200), sent, at(130), millis(200));
            let difference = far.predicted().unwrap() - near.predicted().unwrap();
            assert!((difference - 0.060).abs() < 1e-6, "{difference}");
            assert!(near.queue() < 1e-9);
        }
    }

    #[test]
    fn a_queue_on_the_way_back_is_not_seen_and_one_on_the_way_there_is() {
        let mut delay = ArrivalDelay::new();
        let mut push = |at: u64, there: u64, back: u64| {
            let (sent, rtt) = (Time::from_millis(at), Duration::from_millis(there + back));
            delay.push(sent + rtt, sent, (at + there) * 1000, rtt);
            (delay.queue(), delay.forward_rtt().unwrap())
        };
        assert_eq!(push(0, 50, 50).1, Duration::from_millis(100));
        assert_eq!(push(100, 50, 90).1, Duration::from_millis(100));
        let (queue, rtt) = push(200, 75, 50);
        assert!((queue - 0.025).abs() < 1e-6);
        assert_eq!(rtt, Duration::from_millis(125));
    }
}
