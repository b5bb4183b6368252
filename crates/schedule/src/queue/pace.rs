//! The rate that one queue is held to, and when its next record may go.

use tidegate_types::units::{Rate, Time};

/// How a queue is held to a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Pace {
    /// None: it is not.
    pub(super) rate: Option<Rate>,
    /// When the next record may go; none: now, or, where the rate is 0, never.
    pub(super) free_at: Option<Time>,
    /// Bytes that were still to be waited for when the rate became 0.
    pub(super) owed: f64,
}

impl Pace {
    /// Bytes that are still to be waited for.
    pub(super) fn owed(&self, now: Time) -> f64 {
        let left = self.free_at.map(|at| at.since(now).as_secs_f64()).unwrap_or_default();
        self.owed + left * self.rate.unwrap_or_default().as_f64()
    }

    /// Whether nothing may go now.
    pub(super) fn is_held(&self) -> bool {
        self.free_at.is_some() || self.rate.is_some_and(Rate::is_zero)
    }
}
