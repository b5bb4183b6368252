//! Round trips of one path, and how long an answer may take.

use std::time::Duration;

use super::received::ACK_DELAY;

/// Round trip that is taken for one that is not measured yet.
const RTT_GUESS: Duration = Duration::from_millis(200);
/// Least variation that a time-out allows for, beside an eighth of the round trip: timers are this coarse,
/// and a rate controller lets queues grow as much.
const GRANULARITY: Duration = Duration::from_millis(10);
/// Smoothed round trips (RFC 6298; γ of Eq. 3 is 1/8).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    latest: Duration,
    /// Smoothed, Eq. 3; `None` before the first.
    smoothed: Option<Duration>,
    variation: Duration,
    least: Option<Duration>,
}

impl RoundTrip {
    /// Takes a round trip.
    pub(super) fn push(&mut self, rtt: Duration) {
        self.latest = rtt;
        self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        match self.smoothed {
            None => (self.smoothed, self.variation) = (Some(rtt), rtt / 2),
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(rtt)) / 4;
                self.smoothed = Some((smoothed * 7 + rtt) / 8);
            }
        }
    }

    /// The smoothed one, or a guess.
    pub(super) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(RTT_GUESS)
    }

    /// Mean deviation from the smoothed one.
    pub(super) fn variation(&self) -> Duration {
        self.variation
    }

    /// The time after which a packet is taken for lost if a later one has come.
    pub(super) fn patience(&self) -> Duration {
        self.smoothed().max(self.latest) * 9 / 8 + Duration::from_millis(1)
    }

    /// The time after which silence means something.
    pub(super) fn probe_timeout(&self) -> Duration {
        let variation = if self.smoothed.is_some() { self.variation } else { RTT_GUESS / 2 };
        let smoothed = self.smoothed();
        smoothed + (variation * 4).max(smoothed / 8).max(GRANULARITY) + ACK_DELAY
    }

    /// The smoothed one, if there was any.
    pub(super) fn measured(&self) -> Option<Duration> {
        self.smoothed
    }

    /// The least one.
    pub(super) fn least(&self) -> Option<Duration> {
        self.least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn equation_3_moves_an_eighth_of_the_way() {
        let mut trips = RoundTrip::default();
        trips.push(MS(100));
        trips.push(MS(180));
        assert_eq!(trips.measured(), Some(MS(110)));
        assert_eq!(trips.least(), Some(MS(100)));
    }

    #[test]
    fn an_answer_may_take_longer_where_round_trips_vary() {
        let mut calm = RoundTrip::default();
        (0..200).for_each(|_| calm.push(MS(160)));
        assert_eq!(calm.probe_timeout(), MS(160 + 20 + 5));
        assert_eq!(calm.patience(), MS(181));
        let mut wild = calm;
        (0..50).for_each(|turn| wild.push(MS(100 + 120 * (turn % 2))));
        assert!(wild.probe_timeout() > MS(300), "{:?}", wild.probe_timeout());
        assert_eq!(RoundTrip::default().probe_timeout(), MS(605));
    }
}
