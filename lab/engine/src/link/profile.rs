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
    /// How long a round is, and the work that can be done in it: > 0.
    period: Option<(Duration, u128)>,
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
        let mut profile = Profile { steps, period: None };
        if let Some(period) = period {
            let once = profile.work_between(Duration::ZERO, period);
            // A round without any capacity would be searched for ever.
            profile.period = Some((period, once)).filter(|_| once > 0);
        }
        Ok(profile)
    }

    /// Bits a second at a time since the beginning, and how long that lasts; `None`: for ever.
    fn at(&self, since: Duration) -> (u64, Option<Duration>) {
        let inside = self.period.map_or(since, |(period, _)| {
            nanos((since.as_nanos()) % period.as_nanos()).unwrap_or(since)
        });
        let next = self.steps.partition_point(|(from, _)| *from <= inside);
        let end =
            self.steps.get(next).map(|(from, _)| *from).or(self.period.map(|(period, _)| period));
        (self.steps[next - 1].1, end.map(|end| end - inside))
    }

    /// When work that begins at `from` is done, and what the last nanosecond could do beyond it; `None`
    /// if it never is. Times are since the profile's beginning.
    pub(super) fn finish(&self, from: Duration, work: u128) -> Option<(Duration, u128)> {
        let (mut from, mut work) = (from, work);
        if let Some((period, once)) = self.period {
            // Whole rounds at once, but for the one in which it ends.
            let rounds = work.saturating_sub(1) / once;
            from += nanos(rounds.checked_mul(period.as_nanos())?)?;
            work -= rounds * once;
        }
        // Ends: some step of the next round does work, and without rounds the steps run out.
        loop {
            let (rate, lasts) = self.at(from);
            let rate = u128::from(rate);
            let can = lasts.map_or(u128::MAX, |lasts| rate * lasts.as_nanos());
            if rate > 0 && work <= can {
                let takes = work.div_ceil(rate);
                return Some((from.checked_add(nanos(takes)?)?, takes * rate - work));
            }
            from += lasts?;
            work -= can;
        }
    }

    /// The work that can be done between two times since the profile's beginning.
    pub(super) fn work_between(&self, from: Duration, to: Duration) -> u128 {
        let (mut from, mut work) = (from, 0);
        if let Some((period, once)) = self.period {
            let rounds = to.saturating_sub(from).as_nanos() / period.as_nanos();
            from += nanos(rounds * period.as_nanos()).unwrap_or_default();
            work += rounds * once;
        }
        while from < to {
            let (rate, lasts) = self.at(from);
            let span = lasts.map_or(to - from, |lasts| lasts.min(to - from));
            work += u128::from(rate) * span.as_nanos();
            from += span;
        }
        work
    }
}

/// `None` beyond the 584 years of a clock of 64 bits.
fn nanos(count: u128) -> Option<Duration> {
    u64::try_from(count).ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn a_slow_profile_of_short_rounds_is_no_long_search() {
        let tick = Duration::from_nanos(1);
        let steps = vec![(Duration::ZERO, 1), (tick, 0)];
        let profile = Profile::new(steps, Some(tick * 2)).unwrap();
        // One bit a second, half of the time: 2 * 8 s, the last nanosecond of which is silent.
        let (end, beyond) = profile.finish(Duration::ZERO, work_of(1)).unwrap();
        assert_eq!((end, beyond), (Duration::from_secs(16) - tick, 0));
        assert_eq!(profile.work_between(Duration::ZERO, end), work_of(1));
    }

    proptest! {
        #[test]
        fn what_is_done_in_the_time_is_the_work(
            spans in prop::collection::vec((1u64..2_000_000, 0u64..1_000_000_000), 1..8),
            repeats in any::<bool>(), from in 0u64..10_000_000, bytes in 1u64..100_000,
        ) {
            let (mut steps, mut at) = (Vec::new(), Duration::ZERO);
            for (span, rate) in spans {
                steps.push((at, rate));
                at += Duration::from_nanos(span);
            }
            let profile = Profile::new(steps, repeats.then_some(at)).unwrap();
            let from = Duration::from_nanos(from);
            if let Some((end, beyond)) = profile.finish(from, work_of(bytes)) {
                prop_assert_eq!(profile.work_between(from, end), work_of(bytes) + beyond);
                let before = end - Duration::from_nanos(1);
                prop_assert!(profile.work_between(from, before) < work_of(bytes));
            } else {
                let century = Duration::from_secs(3_000_000_000);
                prop_assert!(profile.work_between(from, from + century) < work_of(bytes));
            }
        }
    }
}
