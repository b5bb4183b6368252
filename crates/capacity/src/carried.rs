//! What the link carries when it is ours.

use tidegate_types::units::Time;

/// Seconds over which it is forgotten.
const FORGOTTEN: f64 = 60.0;

/// The largest rate of late without a queue that is not ours, bytes/s.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried {
    rate: f64,
    at: Time,
}

impl Carried {
    /// No queue stands that is not ours, and the rate is this.
    pub(super) fn push(&mut self, now: Time, rate: f64) {
        let part = (now.since(self.at).as_secs_f64() / FORGOTTEN).min(1.0);
        *self = Carried { rate: rate.max(self.rate + (rate - self.rate) * part), at: now };
    }

    /// It is at least this; somebody else may have the rest.
    pub(super) fn raise(&mut self, now: Time, rate: f64) {
        *self = Carried { rate: rate.max(self.rate), at: now };
    }

    /// It cannot be seen now, and is not forgotten meanwhile.
    pub(super) fn pause(&mut self, now: Time) {
        self.at = now;
    }

    /// It is this.
    pub(super) fn restart(&mut self, now: Time, rate: f64) {
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
        carried.push(seconds(1), 4e6);
        carried.push(seconds(31), 2e6);
        assert!((carried.get() - 3e6).abs() < 1.0);
        carried.pause(seconds(600));
        carried.push(seconds(601), 2e6);
        assert!(carried.get() > 2.9e6);
        carried.push(seconds(700), 2e6);
        assert!((carried.get() - 2e6).abs() < 1.0);
    }
}
