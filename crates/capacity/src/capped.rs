//! A configured rate is a cap of whatever a rate controller finds, never a pace of its own.
//!
//! The rate controller below sees its own traffic only as fast as the cap lets it out, so its estimate ends at the
//! cap or below it; the cap holds its pace from the first byte on.
//!
//! The cap is below what the path carries, so no queue stands, and a window that a controller bounds by the path's own
//! content is tiny on a short path: room for one cut. Then the next one waited for an acknowledgement, which a kernel
//! delays or which is seen when the kernel is asked, and a rate of 2 Mbit/s carried 1.65 to 1.77. The pace bounds what
//! goes, so the window has room for two cuts: one that is paced, and one of which nobody has heard yet.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use super::{Ack, RateController};
use crate::pace::cut_size;

/// Cuts that the window has room for: two, with their framing.
const CUTS: f64 = 2.25;

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

    fn urgent(&mut self, bound: Option<Duration>) {
        self.controller.urgent(bound);
    }

    fn couple(&mut self, factor: f64) {
        self.controller.couple(factor);
    }

    fn report_rate(&mut self, rate: Rate) {
        self.controller.report_rate(rate);
    }

    fn rate(&self) -> Rate {
        self.controller.rate().min(self.cap)
    }

    fn window(&self) -> Size {
        let cuts = self.cut().as_f64() * CUTS;
        self.controller.window().max(Size(cuts as u64))
    }

    fn pace(&self) -> Rate {
        let pace = self.controller.pace();
        if pace.is_zero() { self.cap } else { pace.min(self.cap) }
    }

    fn cut(&self) -> Size {
        self.controller.cut().min(cut_size(self.rate()))
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

    /// Finds a rate, and no more of a path than one cut.
    #[derive(Debug)]
    struct OneCut(Rate);

    impl RateController for OneCut {
        fn acked(&mut self, _now: Time, _ack: &Ack) {}
        fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}
        fn tick(&mut self, _now: Time) {}
        fn rate(&self) -> Rate {
            self.0
        }
        fn window(&self) -> Size {
            Size(3000)
        }
        fn pace(&self) -> Rate {
            self.0
        }
        fn min_rtt(&self) -> Option<Duration> {
            None
        }
    }

    #[test]
    fn the_window_has_room_for_two_cuts_with_their_framing() {
        let cap = Rate::from_bits(2e6);
        let short = Capped::new(Box::new(OneCut(cap.times(2.0))), cap);
        assert_eq!(short.window(), Size(4500));
        // Where the path carries less than the cap, the cuts are those of what it carries.
        let slow = Capped::new(Box::new(OneCut(Rate::from_bits(1e5))), cap);
        assert_eq!(slow.window(), Size(3150));
        let wide = Capped::new(Box::new(Unlimited), cap);
        assert_eq!(wide.window(), Unlimited.window());
    }
}
