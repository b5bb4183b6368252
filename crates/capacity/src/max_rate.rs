//! The largest delivery rate of the last round trips.

use tidegate_types::units::{Size, Time};

use super::Ack;
use super::window_filter::{Extreme, WindowFilter};

/// Round trips over which the largest delivery rate counts.
const ROUNDS: u64 = 8;

/// Delivery rates in bytes/s. Round trips in which we limited ourselves do not count, so a pause never
/// makes the rate old.
#[derive(Debug)]
pub(super) struct MaxRate {
    rate: f64,
    rates: WindowFilter,
    round: u64,
    /// `delivered` at which the present round trip ends.
    round_end: Size,
    /// Samples of bytes sent earlier are void.
    void_before: Time,
}

impl MaxRate {
    /// Nothing is known but a first guess, 0 for none.
    pub(super) fn new(rate: f64) -> Self {
        MaxRate {
            rate,
            rates: WindowFilter::new(Extreme::Max),
            round: 0,
            round_end: Size::ZERO,
            void_before: Time::ZERO,
        }
    }

    /// The rate; 0 while unknown.
    pub(super) fn get(&self) -> f64 {
        self.rate
    }

    /// Whether no round trip has been proven yet.
    pub(super) fn is_young(&self) -> bool {
        self.round_end == Size::ZERO
    }

    /// Takes the delivery rate of the newest acknowledged byte. Where we limited ourselves it is a lower
    /// bound, no more, and `may_only_raise`.
    pub(super) fn push(&mut self, now: Time, ack: &Ack, may_only_raise: bool) {
        if !may_only_raise && ack.delivered_at_send >= self.round_end {
            self.round += 1;
            self.round_end = ack.delivered;
        }
        let sample = ack.delivery_rate(now).filter(|_| ack.sent_at >= self.void_before);
        if let Some(sample) = sample.filter(|&sample| !may_only_raise || sample > self.rate) {
            self.rates.push(self.round, ROUNDS, sample);
            self.rate = self.rates.get().unwrap_or(sample);
        }
    }

    /// The path was seen to carry so much now; it counts as long as any other sample.
    pub(super) fn raise(&mut self, rate: f64) {
        if rate > self.rate {
            self.rate = rate;
            self.rates.push(self.round, ROUNDS, rate);
        }
    }

    /// It is no more than this.
    pub(super) fn limit(&mut self, most: f64) {
        if self.rate > most {
            self.rate = most;
            self.rates.clear();
            self.rates.push(self.round, ROUNDS, most);
        }
    }

    /// The rate is this, whatever was measured before.
    pub(super) fn restart(&mut self, now: Time, rate: f64) {
        self.rate = rate;
        self.rates.clear();
        self.rates.push(self.round, ROUNDS, rate);
        self.void_before = now;
    }
}
