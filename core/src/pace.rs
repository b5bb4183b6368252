//! Spaces out what goes to the uplink, and cuts large records.
//! Source: own; papers/janus.txt has no pacer (docs/ALGORITHMS.md#pace).
//! Inputs: pace in bytes/s, pieces. Outputs: the time at which the next piece may go; the size of a cut.
//! Deviations: none.
//! Limits: CUT_MIN, CUT_MAX; a debt of at most `DEBT_MAX`.

use std::time::Duration;

use crate::limits::{CUT_MAX, CUT_MIN, CUT_TIME};
use crate::units::{Rate, Size, Time};

/// Longest wait that urgent pieces, which never wait, can cause to the others.
const DEBT_MAX: Duration = Duration::from_millis(100);

/// Spaces pieces at a pace. A piece goes when the ones before it are paid for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    paid_at: Time,
}

impl Pacer {
    /// When the next piece may go; in the past where it may go now. Without a pace, at once.
    pub fn next_free(&self, now: Time, pace: Rate) -> Time {
        if pace.is_zero() { now } else { self.paid_at }
    }

    /// A piece goes now, whether it was free or not.
    pub fn spend(&mut self, now: Time, pace: Rate, piece: Size) {
        if !pace.is_zero() {
            let cost = pace.time_for(piece);
            self.paid_at = (self.paid_at.max(now) + cost).min(now + DEBT_MAX + cost);
        }
    }
}

/// Bytes of one cut: what `CUT_TIME` of the rate carries, so that an urgent record waits no longer.
pub fn cut_size(rate: Rate) -> Size {
    rate.in_span(CUT_TIME).clamp(CUT_MIN, CUT_MAX)
}
