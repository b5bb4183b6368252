//! Remembers what the link carries when it is ours.
//! Source: own (docs/ALGORITHMS.md#tide).
//! Inputs: rates, bytes/s. Outputs: the largest of late, bytes/s.
//! Deviations: none.
//! Limits: constant memory, O(1).

use tidegate_types::units::Time;

/// Seconds over which it is forgotten.
const FORGOTTEN: f64 = 60.0;

/// The largest rate of late without a queue that is not ours, bytes/s.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried {
    rate: f64,
    /// When it was seen last; `Time::ZERO` before.
    at: Time,
}

impl Carried {
    /// The link carries so many bytes/s now, and only ours: a larger rate counts at once, what was remembered fades.
    pub(super) fn alone(&mut self, now: Time, rate: f64) {
        let is_first = self.at == Time::ZERO;
        let silence = if is_first { 0.0 } else { now.since(self.at).as_secs_f64() };
        let part = (silence / FORGOTTEN).min(1.0);
        *self = Carried { rate: rate.max(self.rate + (rate - self.rate) * part), at: now };
    }

    /// The link carries at least so many bytes/s; a rival may have the rest.
    pub(super) fn shared(&mut self, now: Time, rate: f64) {
        *self = Carried { rate: rate.max(self.rate), at: now };
    }

    /// A rival's bytes hide what the link carries, which is not forgotten meanwhile.
    pub(super) fn hidden(&mut self, now: Time) {
        self.at = now;
    }

    /// The link was found to carry so many bytes/s, whatever was remembered.
    pub(super) fn found(&mut self, now: Time, rate: f64) {
        *self = Carried { rate, at: now };
    }

    /// Bytes/s; 0 while nothing is known.
    pub(super) fn get(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_a_rise_at_once_and_a_fall_within_a_minute_that_can_be_seen() {
        let mut carried = Carried::default();
        let seconds = |seconds: u64| Time::from_millis(seconds * 1000);
        carried.alone(seconds(1), 4e6);
        carried.alone(seconds(31), 2e6);
        assert!((carried.get() - 3e6).abs() < 1.0);
        carried.hidden(seconds(600));
        carried.alone(seconds(601), 2e6);
        assert!(carried.get() > 2.9e6);
        carried.alone(seconds(700), 2e6);
        assert!((carried.get() - 2e6).abs() < 1.0);
        carried.shared(seconds(701), 1e6);
        assert!((carried.get() - 2e6).abs() < 1.0, "somebody else has the rest");
        carried.found(seconds(702), 1e6);
        assert!((carried.get() - 1e6).abs() < 1.0);
    }

    #[test]
    fn a_rate_of_an_earlier_run_is_not_forgotten_before_it_is_seen() {
        let mut carried = Carried::default();
        carried.found(Time::ZERO, 4e6);
        carried.alone(Time::from_millis(900_000), 1e6);
        assert!((carried.get() - 4e6).abs() < 1.0);
    }
}
