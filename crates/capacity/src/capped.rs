//! A configured rate is a cap of whatever a rate controller finds, never a pace of its own.
//!
//! The rate controller below sees its own traffic only as fast as the cap lets it out, so its estimate ends at the
//! cap or below it; the cap holds its pace from the first byte on.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use super::{Ack, RateController};

/// A rate controller that never goes beyond a rate.
#[derive(Debug)]
pub(super) struct Capped {
    controller: Box<dyn RateController>,
    cap: Rate,
}

impl Capped {
    /// Holds `rate controller` to `cap`.
    pub(super) fn new(controller: Box<dyn RateController>, cap: Rate) -> Self {
        Capped { controller, cap }
    }
}

impl RateController for Capped {
    fn acked(&mut self, now: Time, ack: &Ack) {
        self.controller.acked(now, ack);
    }

    fn sent(&mut self, now: Time, bytes: Size, in_flight: Size) {
        self.controller.sent(now, bytes, in_flight);
    }

    fn tick(&mut self, now: Time) {
        self.controller.tick(now);
    }

    fn patient(&mut self, is_patient: bool) {
        self.controller.patient(is_patient);
    }

    fn report_rate(&mut self, rate: Rate) {
        self.controller.report_rate(rate);
    }

    fn rate(&self) -> Rate {
        self.controller.rate().min(self.cap)
    }

    fn window(&self) -> Size {
        self.controller.window()
    }

    fn pace(&self) -> Rate {
        let pace = self.controller.pace();
        if pace.is_zero() { self.cap } else { pace.min(self.cap) }
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.controller.min_rtt()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.controller.next_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unlimited::Unlimited;

    #[test]
    fn a_rate_controller_without_a_pace_gets_one() {
        let cap = Rate::from_bits(1e6);
        let controller = Capped::new(Box::new(Unlimited), cap);
        assert_eq!((controller.pace(), controller.rate()), (cap, Rate::ZERO));
    }
}
