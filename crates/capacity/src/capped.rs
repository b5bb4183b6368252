//! A configured rate is a cap of whatever a law finds, never a pace of its own.
//!
//! The law below sees its own traffic only as fast as the cap lets it out, so its estimate ends at the
//! cap or below it; the cap holds its pace from the first byte on.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use super::{Ack, Law};

/// A law that never goes beyond a rate.
#[derive(Debug)]
pub(super) struct Capped {
    law: Box<dyn Law>,
    cap: Rate,
}

impl Capped {
    /// Holds `law` to `cap`.
    pub(super) fn new(law: Box<dyn Law>, cap: Rate) -> Self {
        Capped { law, cap }
    }
}

impl Law for Capped {
    fn acked(&mut self, now: Time, ack: &Ack) {
        self.law.acked(now, ack);
    }

    fn sent(&mut self, now: Time, bytes: Size, in_flight: Size) {
        self.law.sent(now, bytes, in_flight);
    }

    fn tick(&mut self, now: Time) {
        self.law.tick(now);
    }

    fn patient(&mut self, is_patient: bool) {
        self.law.patient(is_patient);
    }

    fn told(&mut self, rate: Rate) {
        self.law.told(rate);
    }

    fn rate(&self) -> Rate {
        self.law.rate().min(self.cap)
    }

    fn window(&self) -> Size {
        self.law.window()
    }

    fn pace(&self) -> Rate {
        let pace = self.law.pace();
        if pace.is_zero() { self.cap } else { pace.min(self.cap) }
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.law.min_rtt()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.law.next_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unlimited::Unlimited;

    #[test]
    fn a_law_without_a_pace_gets_one() {
        let cap = Rate::from_bits(1e6);
        let law = Capped::new(Box::new(Unlimited), cap);
        assert_eq!((law.pace(), law.rate()), (cap, Rate::ZERO));
    }
}
