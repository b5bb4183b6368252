//! Tells a path that became longer from a link that was silent.

use std::time::Duration;

use tidegate_types::units::Time;

/// Round trips of a longer path differ by no more than this part of what it became longer by; those of a
/// link that falls silent and returns, or that carries a packet now and then, differ by more.
const SPREAD: f64 = 0.25;
/// Round trips that must agree.
const HEARD_MIN: u32 = 3;

/// The round trips of bytes that were sent with nearly none of ours on the path, from the first one that
/// says that the path is longer on, until one as long as that is over. A link that was silent looks
/// longer to the first byte only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RouteChange {
    /// Bytes sent since then count.
    pub(super) since: Time,
    until: Time,
    least: f64,
    most: f64,
    heard: u32,
}

impl RouteChange {
    /// Bytes sent since `since` count; the first of them took `rtt`.
    pub(super) fn new(now: Time, since: Time, rtt: Duration) -> Self {
        let first = rtt.as_secs_f64();
        RouteChange { since, until: now + rtt, least: first, most: first, heard: 1 }
    }

    /// The same with one more round trip.
    #[must_use]
    pub(super) fn with(self, rtt: Duration) -> Self {
        let rtt = rtt.as_secs_f64();
        let (least, most) = (self.least.min(rtt), self.most.max(rtt));
        RouteChange { least, most, heard: self.heard + 1, ..self }
    }

    /// Whether enough time is over to decide.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.until <= now
    }

    /// The shortest round trip so far, in seconds.
    pub(super) fn least(&self) -> f64 {
        self.least
    }

    /// Whether they agree that the path, which took `before` seconds, is longer.
    pub(super) fn is_agreed(&self, before: f64) -> bool {
        self.heard >= HEARD_MIN && self.most - self.least <= SPREAD * (self.least - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubt(millis: &[u64]) -> RouteChange {
        let at = Time::from_millis(1000);
        let rtt = Duration::from_millis;
        let first = RouteChange::new(at, Time::from_millis(900), rtt(millis[0]));
        millis[1..].iter().fold(first, |doubt, &millis| doubt.with(rtt(millis)))
    }

    #[test]
    fn a_longer_path_is_longer_to_every_byte() {
        assert!(doubt(&[160, 162, 170]).is_agreed(0.060));
        assert!(!doubt(&[160, 162, 200]).is_agreed(0.060), "they differ");
        assert!(!doubt(&[160, 160]).is_agreed(0.060), "too few");
        let silent = doubt(&[1600, 900, 62]);
        assert!(!silent.is_agreed(0.060) && (silent.least() - 0.062).abs() < 1e-9);
    }

    #[test]
    fn it_lasts_as_long_as_its_first_round_trip() {
        let doubt = doubt(&[160, 170]);
        assert!(!doubt.is_over(Time::from_millis(1159)) && doubt.is_over(Time::from_millis(1160)));
    }
}
