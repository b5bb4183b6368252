//! How much of the loop's time scripts may have where they can wait: the rest belongs to records that no script sees.
//!
//! What can wait is a run that was suspended, and one that may serve what came since the last. Both are paid for from
//! here; a call that must be made for each record is not.

use std::time::Duration;

use tidegate_types::units::Time;

/// Part of the time that they may have.
const SHARE: f64 = 0.375;
/// Runs begin while no more than this is unpaid: a turn of the default length.
const UNPAID_MAX: Duration = Duration::from_millis(1);

/// What was used and is not paid for yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Allowance {
    unpaid: Duration,
    at: Time,
}

impl Allowance {
    /// Whether a run may begin or go on.
    pub(super) fn is_open(&mut self, now: Time) -> bool {
        self.settle(now);
        self.unpaid < UNPAID_MAX
    }

    /// When it may, if nothing is used until then.
    pub(super) fn opens_at(&self) -> Time {
        match self.unpaid.checked_sub(UNPAID_MAX) {
            // A nanosecond more, so that it is open then whatever is rounded.
            Some(owed) => self.at + owed.div_f64(SHARE) + Duration::from_nanos(3),
            None => self.at,
        }
    }

    /// A turn took so long.
    pub(super) fn spend(&mut self, now: Time, took: Duration) {
        self.settle(now);
        self.unpaid += took;
    }

    fn settle(&mut self, now: Time) {
        let paid = now.since(self.at).mul_f64(SHARE);
        self.unpaid = self.unpaid.saturating_sub(paid);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_wait_has_no_more_than_its_share() {
        let (mut allowance, mut used) = (Allowance::default(), Duration::ZERO);
        let mut now = Time::from_millis(5);
        while now < Time::from_millis(1005) {
            assert!(allowance.is_open(now));
            allowance.spend(now, Duration::from_millis(1));
            used += Duration::from_millis(1);
            assert!(!allowance.is_open(now), "others are heard after each turn");
            now = allowance.opens_at();
        }
        assert!((370..=378).contains(&used.as_millis()), "{used:?}");
    }

    #[test]
    fn short_runs_follow_each_other_at_once() {
        let mut allowance = Allowance::default();
        let now = Time::from_millis(5);
        let fits = |_: &u32| {
            let is_open = allowance.is_open(now);
            allowance.spend(now, Duration::from_micros(50));
            is_open
        };
        assert_eq!((0..100).filter(fits).count(), 20);
    }
}
