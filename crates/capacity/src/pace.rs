//! Spaces out what goes to the uplink, and cuts large records.
//! Source: own; papers/janus.txt has no pacer (docs/ALGORITHMS.md#pace).
//! Inputs: pace in bytes/s, pieces. Outputs: the time at which the next piece may go; the size of a cut.
//! Deviations: none.
//! Limits: CUT_MIN, CUT_MAX; a debt of at most `DEBT_MAX`, a credit of at most `CREDIT_MAX`.

use std::time::Duration;

use tidegate_types::limits::{CUT_MAX, CUT_MIN, CUT_TIME};
use tidegate_types::units::{Rate, Size, Time};

/// Longest wait that urgent pieces, which never wait, can cause to the others.
const DEBT_MAX: Duration = Duration::from_millis(100);
/// What a timer may come too late without loss of rate: timers of an operating system are this coarse.
pub(crate) const CREDIT_MAX: Duration = Duration::from_millis(2);

/// A bucket of tokens, counted as time: pieces go when the ones before them are paid for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pacer {
    paid_at: Time,
}

impl Pacer {
    /// When the next piece may go; in the past where it may go now. Without a pace, at once.
    #[inline]
    pub fn next_free(&self, now: Time, pace: Rate) -> Time {
        if pace.is_zero() { now } else { self.paid_at }
    }

    /// A piece goes now, whether it was free or not: an urgent one puts the pacer in debt.
    #[inline]
    pub fn spend(&mut self, now: Time, pace: Rate, piece: Size) {
        if !pace.is_zero() {
            let cost = pace.time_for(piece);
            // The debt of before is bounded; the piece itself is paid in full, or a slow uplink would
            // be overrun by its own cuts.
            self.paid_at = self.paid_at.clamp(now - CREDIT_MAX, now + DEBT_MAX) + cost;
        }
    }
}

/// Bytes of one cut: what `CUT_TIME` of the rate carries, so that an urgent record waits no longer.
pub fn cut_size(rate: Rate) -> Size {
    rate.in_span(CUT_TIME).clamp(CUT_MIN, CUT_MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cut_takes_eight_milliseconds_within_bounds() {
        assert_eq!(cut_size(Rate::from_bits(2e6)), Size(2000));
        assert_eq!(cut_size(Rate::ZERO), CUT_MIN);
        assert_eq!(cut_size(Rate::from_bits(1e10)), CUT_MAX);
    }

    #[test]
    fn an_urgent_piece_goes_at_once_and_the_others_pay() {
        let (mut pacer, pace) = (Pacer::default(), Rate::new(1e6));
        let now = Time::from_millis(1000);
        pacer.spend(now, pace, Size(2000));
        assert_eq!(pacer.next_free(now, pace), now + CUT_TIME / 4 - CREDIT_MAX);
        pacer.spend(now, pace, Size(10_000));
        assert_eq!(pacer.next_free(now, pace), now + Duration::from_millis(12) - CREDIT_MAX);
        for _ in 0..100 {
            pacer.spend(now, pace, Size(10_000));
        }
        assert_eq!(pacer.next_free(now, pace), now + DEBT_MAX + Duration::from_millis(10));
    }

    #[test]
    fn without_a_pace_nothing_waits() {
        let mut pacer = Pacer::default();
        pacer.spend(Time::ZERO, Rate::ZERO, Size(1 << 40));
        assert_eq!(pacer.next_free(Time::ZERO, Rate::ZERO), Time::ZERO);
    }

    proptest! {
        /// Whoever waits for `next_free` never exceeds the pace by more than the credit and one piece.
        #[test]
        fn polite_pieces_keep_the_pace(
            bits in 1e4..1e9f64,
            steps in prop::collection::vec((1u64..100_000, 0u64..50_000), 1..200),
        ) {
            let (mut pacer, pace) = (Pacer::default(), Rate::from_bits(bits));
            let start = Time::from_millis(10_000);
            let (mut now, mut sent, mut last) = (start, 0, 0);
            for (bytes, idle_micros) in steps {
                now = now.max(pacer.next_free(now, pace)) + Duration::from_micros(idle_micros);
                pacer.spend(now, pace, Size(bytes));
                sent += bytes;
                last = bytes;
                let span = now.since(start) + CREDIT_MAX;
                let allowed = pace.as_f64() * span.as_secs_f64() + last as f64 + 1.0;
                prop_assert!(sent as f64 <= allowed * (1.0 + 1e-9), "{sent} > {allowed}");
            }
            prop_assert!(last > 0);
        }

        /// Whatever urgent pieces do, nobody waits for longer than the debt and the piece before.
        #[test]
        fn the_debt_is_bounded(
            bits in 1e4..1e9f64,
            pieces in prop::collection::vec((1u64..100_000, 0u64..5_000), 1..200),
        ) {
            let (mut pacer, pace) = (Pacer::default(), Rate::from_bits(bits));
            let mut now = Time::from_millis(10_000);
            for (bytes, micros) in pieces {
                now += Duration::from_micros(micros);
                pacer.spend(now, pace, Size(bytes));
                let wait = pacer.next_free(now, pace).since(now);
                prop_assert!(wait <= DEBT_MAX + pace.time_for(Size(bytes)));
            }
        }

        #[test]
        fn a_cut_never_takes_longer_than_its_time_unless_it_is_the_smallest(bits in 0.0..1e11f64) {
            let rate = Rate::from_bits(bits);
            let cut = cut_size(rate);
            prop_assert!((CUT_MIN..=CUT_MAX).contains(&cut));
            prop_assert!(cut == CUT_MIN || rate.time_for(cut) <= CUT_TIME);
        }
    }
}
