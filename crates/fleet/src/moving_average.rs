//! Averages of which the past fades with time, however often they are fed.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

/// A value, averaged with weights that fall by e in each time constant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Smooth {
    value: f64,
    since: Option<Time>,
}

impl Smooth {
    /// From the last time to `now` it was `value`; the first one counts wholly.
    pub(super) fn add(&mut self, now: Time, value: f64, constant: Duration) {
        let Some(since) = self.since.replace(now) else {
            self.value = value;
            return;
        };
        let faded = (-now.since(since).as_secs_f64() / constant.as_secs_f64()).exp();
        self.value = value + (self.value - value) * faded;
    }

    pub(super) fn value(&self) -> f64 {
        self.value
    }
}

/// A rate of what is counted, averaged in the same way. It begins at nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct CarriedFlow {
    smooth: Smooth,
    counted: u64,
    since: Time,
}

/// Counts are turned into a rate this often: single records are no rate.
const INTERVAL: Duration = Duration::from_millis(50);

impl CarriedFlow {
    pub(super) fn new(now: Time) -> Self {
        let mut smooth = Smooth::default();
        smooth.add(now, 0.0, INTERVAL);
        CarriedFlow { smooth, counted: 0, since: now }
    }

    pub(super) fn count(&mut self, size: Size) {
        self.counted += size.0;
    }

    /// The rate up to now.
    pub(super) fn rate(&mut self, now: Time, constant: Duration) -> Rate {
        let span = now.since(self.since);
        if span >= INTERVAL {
            self.smooth.add(now, self.counted as f64 / span.as_secs_f64(), constant);
            (self.counted, self.since) = (0, now);
        }
        Rate::new(self.smooth.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_step_is_seen_to_two_thirds_after_a_time_constant() {
        for steps in [1, 10, 1000] {
            let mut smooth = Smooth::default();
            smooth.add(Time::ZERO, 100.0, SECOND);
            for step in 1..=steps {
                let now = Time::from_secs_f64(f64::from(step) / f64::from(steps));
                smooth.add(now, 200.0, SECOND);
            }
            assert!((smooth.value() - 163.2).abs() < 0.1, "{} in {steps} steps", smooth.value());
        }
    }

    #[test]
    fn a_rate_is_what_was_counted_over_time() {
        let mut flow = CarriedFlow::new(Time::ZERO);
        for step in 1..=100 {
            flow.count(Size(500));
            flow.rate(Time::from_millis(step * 50), SECOND);
        }
        let rate = flow.rate(Time::from_millis(5000), SECOND).as_f64();
        assert!((rate / 10_000.0 - 1.0).abs() < 0.01, "{rate}");
    }
}
