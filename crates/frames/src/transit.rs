//! How long frames were on their way, told at the far end by two clocks that are never compared.
//! Source: own.
//! Inputs: when each frame left, by the sender's clock, and came, by ours. Outputs: time on the way. O(1).
//! Deviations: none.
//! Limits: `PERIOD`.
//!
//! What two clocks of steady pace show apart is constant but for what frames waited on their way: the least difference
//! of late is a frame that did not wait. How long the empty way is the sender says, who hears its own
//! acknowledgements; where it says nothing the way is taken for no time at all, so a frame is never called later than
//! it is.

use std::time::Duration;

use tidegate_types::units::Time;

/// A least difference counts for one to two of these: clocks drift by 3 ms in it at most (50 ppm).
const PERIOD: Duration = Duration::from_secs(30);

/// What is known of one sender's frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransitTime {
    /// Since when the present period is, and the least difference of it and of the one before, nanoseconds.
    period: Option<(Time, i128)>,
    before: Option<i128>,
}

impl TransitTime {
    /// A frame left at `left`, by its sender's clock, and came at `now`. `way`: the shortest time on the way, as its
    /// sender knows it. Answers how long it was on its way.
    pub fn came(&mut self, now: Time, left: Duration, way: Duration) -> Duration {
        let apart = now.since(Time::ZERO).as_nanos() as i128 - left.as_nanos() as i128;
        match &mut self.period {
            Some((since, least)) if *since + PERIOD > now => *least = apart.min(*least),
            Some((since, least)) => {
                // What nothing came after says nothing about the clocks of today.
                self.before = (*since + PERIOD * 2 > now).then_some(*least);
                (*since, *least) = (now, apart);
            }
            None => self.period = Some((now, apart)),
        }
        let least = self.period.map(|(_, least)| least).into_iter().chain(self.before).min();
        let waited = apart - least.unwrap_or(apart);
        way + Duration::from_nanos(u64::try_from(waited).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: Duration = Duration::from_millis(5);

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A frame that leaves at so many milliseconds of a clock that began long before ours, or after it, and is so long
    /// under way.
    fn came(transit: &mut TransitTime, left: u64, took: u64, ahead: u64) -> Duration {
        transit.came(Time::from_millis(100_000 + left + took), millis(ahead + left), WAY)
    }

    #[test]
    fn what_waits_on_its_way_is_found_whatever_the_clocks_say() {
        for ahead in [0, 100_000, 9_000_000] {
            let mut transit = TransitTime::default();
            assert_eq!(came(&mut transit, 0, 5, ahead), WAY, "the first is the measure");
            assert_eq!(came(&mut transit, 100, 85, ahead), millis(85));
            assert_eq!(came(&mut transit, 200, 3, ahead), WAY, "a shorter one is the new measure");
            assert_eq!(came(&mut transit, 300, 85, ahead), millis(87));
        }
    }

    #[test]
    fn clocks_that_drift_are_measured_again() {
        let mut transit = TransitTime::default();
        came(&mut transit, 0, 5, 0);
        // The sender's clock is stopped for 20 ms: all seem to take longer, for a minute at most.
        assert_eq!(came(&mut transit, 1000, 25, 0), millis(25));
        assert_eq!(came(&mut transit, 31_000, 25, 0), millis(25));
        assert_eq!(came(&mut transit, 62_000, 25, 0), WAY);
        // After a long silence nothing of before counts.
        assert_eq!(came(&mut transit, 500_000, 70, 0), WAY);
    }
}
