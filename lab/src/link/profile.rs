//! A rate that changes with time, in exact arithmetic.
//!
//! Work is counted in bits times 10^9, so that a rate of whole bits a second does a whole amount of work
//! in every nanosecond: nothing is rounded but the end of a packet, and that remainder is handed on.

use std::time::Duration;

/// Work of one byte.
const BYTE: u128 = 8 * 1_000_000_000;

/// What it takes to send so many bytes.
pub(super) fn work_of(bytes: u64) -> u128 {
    u128::from(bytes) * BYTE
}

/// A rate in steps; with a period it begins again after it, otherwise the last step stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// When each step begins, from the profile's beginning, and its bits a second. The first is at 0.
    steps: Vec<(Duration, u64)>,
    period: Option<Duration>,
}

/// Why a list of steps is no profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// Nothing in it.
    #[error("a rate needs at least one step")]
    Empty,
    /// The first step is later than the beginning.
    #[error("the first step must be at 0")]
    Late,
    /// Times that do not rise, or a period that is over before the last step.
    #[error("the times of the steps must rise, and end before the period does")]
    Unsorted,
}

impl Profile {
    /// One rate for ever, in bits a second.
    pub fn constant(bits_per_second: u64) -> Self {
        Profile { steps: vec![(Duration::ZERO, bits_per_second)], period: None }
    }

    /// Steps (beginning, bits a second), repeated after `period` if there is one.
    ///
    /// # Errors
    /// No step, the first not at 0, times that do not rise.
    pub fn new(
        steps: Vec<(Duration, u64)>,
        period: Option<Duration>,
    ) -> Result<Self, ProfileError> {
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
            return Err(ProfileError::Empty);
        };
        if !first.0.is_zero() {
            return Err(ProfileError::Late);
        }
        let rises = steps.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !rises || period.is_some_and(|period| period <= last.0) {
            return Err(ProfileError::Unsorted);
        }
        // A period without any capacity would be searched for ever.
        let period = period.filter(|_| steps.iter().any(|(_, rate)| *rate > 0));
        Ok(Profile { steps, period })
    }

    /// Bits a second at a time since the beginning, and how long that lasts; `None`: for ever.
    fn at(&self, since: Duration) -> (u64, Option<Duration>) {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let inside = self.period.map_or(since, |period| {
            // Both fit: the clock itself is 64 bits of nanoseconds.
            Duration::from_nanos(nanos(since) % nanos(period))
        });
        let next = self.steps.partition_point(|(from, _)| *from <= inside);
        let end = self.steps.get(next).map(|(from, _)| *from).or(self.period);
        (self.steps[next - 1].1, end.map(|end| end - inside))
    }

    /// When work that begins at `from` is done, and what the last nanosecond could do beyond it; `None`
    /// if it never is. Times are since the profile's beginning.
    pub(super) fn finish(&self, from: Duration, work: u128) -> Option<(Duration, u128)> {
        let (mut from, mut work) = (from, work);
        // Ends: with a period some step does work, without one the steps run out.
        loop {
            let (rate, lasts) = self.at(from);
            let rate = u128::from(rate);
            let can = lasts.map_or(u128::MAX, |lasts| rate * lasts.as_nanos());
            if rate > 0 && work <= can {
                let nanos = work.div_ceil(rate);
                let end = from + Duration::from_nanos(u64::try_from(nanos).ok()?);
                return Some((end, nanos * rate - work));
            }
            from += lasts?;
            work -= can;
        }
    }

    /// The work that can be done between two times since the profile's beginning.
    pub(super) fn work_between(&self, from: Duration, to: Duration) -> u128 {
        let (mut from, mut work) = (from, 0);
        while from < to {
            let (rate, lasts) = self.at(from);
            let span = lasts.map_or(to - from, |lasts| lasts.min(to - from));
            work += u128::from(rate) * span.as_nanos();
            from += span;
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_constant_rate_is_exact_and_hands_its_remainder_on() {
        let profile = Profile::constant(120_000_000);
        assert_eq!(
            profile.finish(Duration::ZERO, work_of(1200)),
            Some((Duration::from_micros(80), 0))
        );
        let third = Profile::constant(3);
        let (end, beyond) = third.finish(Duration::ZERO, work_of(1)).unwrap();
        assert_eq!((end, beyond), (Duration::from_nanos(2_666_666_667), 1));
    }

    #[test]
    fn steps_are_crossed_and_outages_waited_for() {
        // 1 Mbit/s for 1 s, nothing for 1 s, again.
        let steps = vec![(ms(0), 1_000_000), (ms(1000), 0)];
        let profile = Profile::new(steps, Some(ms(2000))).unwrap();
        // 250 kB are two seconds of sending.
        assert_eq!(profile.finish(ms(0), work_of(250_000)), Some((ms(3000), 0)));
        assert_eq!(profile.finish(ms(1500), work_of(1000)), Some((ms(2008), 0)));
        assert_eq!(profile.work_between(ms(500), ms(2500)), work_of(125_000));
    }

    #[test]
    fn without_a_period_the_last_step_stays() {
        let ends = Profile::new(vec![(ms(0), 8000), (ms(10), 0)], None).unwrap();
        assert_eq!(ends.finish(ms(0), work_of(10)), Some((ms(10), 0)));
        assert_eq!(ends.finish(ms(0), work_of(11)), None);
        let silent = Profile::new(vec![(ms(0), 0)], Some(ms(5))).unwrap();
        assert_eq!(silent.finish(ms(0), 1), None);
    }

    #[test]
    fn mistakes_are_named() {
        assert_eq!(Profile::new(vec![], None), Err(ProfileError::Empty));
        assert_eq!(Profile::new(vec![(ms(1), 1)], None), Err(ProfileError::Late));
        let twice = vec![(ms(0), 1), (ms(0), 2)];
        assert_eq!(Profile::new(twice, None), Err(ProfileError::Unsorted));
        assert_eq!(Profile::new(vec![(ms(0), 1)], Some(ms(0))), Err(ProfileError::Unsorted));
    }
}
