//! How likely a packet on a path fails: transmission failure estimation (TFE).
//! Source: papers/fd-mvqs.txt, §4.1, Eq. 1-13.
//! Inputs: packets that arrived and that were lost, in order; RTT and window ratios. Outputs: loss rate
//! and transmission factor in [0, 1]. O(1) a packet.
//! Deviations: closed form of the likelihood, counted packets, a window per path; two forms of Eq. 1
//! (docs/algorithms-link.md#failure).
//! Limits: `INTERVALS_MAX`.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_types::units::Time;

/// Base μ of the exponential in Eq. 1 (§5.1).
pub const FACTOR_BASE: f64 = 10.0;
/// Offset ν of the exponent in Eq. 1 (§5.1).
pub const FACTOR_OFFSET: f64 = 0.8;
/// Loss intervals that count: at 1 % loss about 6,400 packets, at 10 % about 640.
const INTERVALS_MAX: usize = 64;
/// Intervals forgotten at once by age.
const AGED: usize = INTERVALS_MAX / 8;
/// Packets after which a path is known: those of its first train, and one.
const KNOWN: f64 = 8.0;
/// An unknown path is taken for one that has lost one packet of so many: as heavy as loss of links usually is.
const UNKNOWN: f64 = 10.0;

/// The loss rate ρ of one path, from the packets between its losses.
#[derive(Clone, Debug, Default)]
pub struct LossRate {
    /// Packets that arrived before each of the last losses, N_k.
    intervals: VecDeque<u64>,
    /// Their sum.
    sum: u64,
    /// Packets that arrived since the last loss.
    since: u64,
    /// Losses of congestion count no more before then.
    overflow_until: Time,
}

impl LossRate {
    /// Packets arrived.
    pub fn arrived(&mut self, packets: u64) {
        self.since = self.since.saturating_add(packets);
    }

    /// A packet was lost.
    pub fn lost(&mut self) {
        if self.intervals.len() == INTERVALS_MAX
            && let Some(oldest) = self.intervals.pop_front()
        {
            self.sum = self.sum.saturating_sub(oldest);
        }
        let interval = std::mem::take(&mut self.since);
        self.intervals.push_back(interval);
        self.sum = self.sum.saturating_add(interval);
    }

    /// So many packets were lost, and a queue explains it: what overflows in one round trip says no more
    /// about the path than one loss does.
    pub fn overflowed(&mut self, now: Time, rtt: Duration, packets: usize) {
        if packets > 0 && self.overflow_until <= now {
            self.lost();
            self.overflow_until = now + rtt;
        }
    }

    /// Forgets part of what is known, the oldest first: a path that nobody uses because of its losses would
    /// never show that it has become better.
    pub fn age(&mut self) {
        for _ in 0..AGED {
            let oldest = self.intervals.pop_front().unwrap_or(0);
            self.sum = self.sum.saturating_sub(oldest);
        }
    }

    /// The maximum of the likelihood, Eq. 7-13: `s / (s + ΣN_k)`, where the interval that has not ended
    /// counts as well. In [0, 1]; 0 before the first loss.
    pub fn get(&self) -> f64 {
        let losses = self.intervals.len() as f64;
        if losses > 0.0 { losses / (losses + (self.sum as f64) + self.since as f64) } else { 0.0 }
    }

    /// What to reckon with: while little is known of a path, it may lose as much as a bad one.
    pub fn cautious(&self) -> f64 {
        let losses = self.intervals.len() as f64;
        let known = losses + self.sum as f64 + self.since as f64;
        if known < KNOWN { (losses + 1.0) / (known + UNKNOWN) } else { self.get() }
    }
}

/// The transmission factor φ as printed, Eq. 1. It *falls* with the loss rate, although Eq. 22 takes it
/// for a probability of failure. loss_rate: [0, 1]; rtt_ratio, window_ratio: >= 0.
pub fn printed_factor(loss_rate: f64, rtt_ratio: f64, window_ratio: f64) -> f64 {
    let weight = 1.0 - loss_rate;
    1.0 / (1.0 + FACTOR_BASE.powf(FACTOR_OFFSET - weight * rtt_ratio * window_ratio))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-3
    }

    #[test]
    fn as_printed_the_factor_falls_with_loss_and_is_never_below_a_seventh() {
        // By hand: 1 / (1 + 10^(0.8 - 1)) and 1 / (1 + 10^(0.8 - 0.8)).
        assert!(near(printed_factor(0.0, 1.0, 1.0), 0.613));
        assert!(near(printed_factor(0.2, 1.0, 1.0), 0.5));
        assert!(near(printed_factor(1.0, 1.0, 1.0), 0.137));
    }

    #[test]
    fn the_likelihood_is_largest_at_losses_over_packets() {
        let mut rate = LossRate::default();
        rate.arrived(50);
        assert!(near(rate.get(), 0.0));
        rate.lost();
        rate.arrived(29);
        rate.lost();
        rate.arrived(19);
        // Intervals of 50 and 29, and 19 since: 2 / (2 + 98).
        assert!(near(rate.get(), 0.02));
        // Eq. 11 by search over a grid: the closed form is its maximum.
        let likelihood = |rho: f64| 98.0 * (1.0 - rho).ln() + 2.0 * rho.ln();
        let best = (1..1000).map(|n| f64::from(n) / 1000.0);
        let best = best.max_by(|a, b| likelihood(*a).total_cmp(&likelihood(*b)));
        assert!(near(best.unwrap_or_default(), rate.get()));
    }

    #[test]
    fn an_overflow_counts_once_a_round_trip() {
        let (mut rate, rtt) = (LossRate::default(), Duration::from_millis(100));
        rate.arrived(98);
        for millis in [0, 50, 99, 100] {
            rate.overflowed(Time::from_millis(millis), rtt, 40);
        }
        rate.overflowed(Time::from_millis(300), rtt, 0);
        assert!(near(rate.get(), 0.02), "{}", rate.get());
    }

    #[test]
    fn old_intervals_are_forgotten() {
        let mut rate = LossRate::default();
        (0..1000).for_each(|_| rate.lost());
        assert!(near(rate.get(), 1.0));
        for _ in 0..INTERVALS_MAX {
            rate.arrived(9);
            rate.lost();
        }
        assert!(near(rate.get(), 0.1));
        (0..8).for_each(|_| rate.age());
        assert!(near(rate.get(), 0.0), "all of them are old");
        rate.arrived(u64::MAX);
        rate.lost();
        rate.arrived(u64::MAX);
        rate.lost();
        assert!(rate.get() >= 0.0);
    }
}
