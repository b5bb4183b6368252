//! What is below finds its own capacity (a link, path by path) and tells it: a short window ahead, no pace.
//! Source: own.
//! Inputs: bytes/s that the link carries. Outputs: the window in bytes.
//! Deviations: none.
//! Limits: `AHEAD`.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use crate::controller::{Ack, Build, RateController};

/// What may wait below the scheduler, beyond what stands in the paths' own queues: enough that no wake-up
/// makes a path idle, little enough to choose late.
const AHEAD: Duration = Duration::from_millis(10);

/// How one is made.
pub(crate) const ENTRY: Build = |_| Box::new(Reported::default());

/// The rate controller's state: what it was told last.
#[derive(Debug, Default)]
struct Reported {
    rate: Rate,
}

impl RateController for Reported {
    fn acked(&mut self, _now: Time, _ack: &Ack) {}

    fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}

    fn tick(&mut self, _now: Time) {}

    fn report_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    fn rate(&self) -> Rate {
        self.rate
    }

    fn window(&self) -> Size {
        self.rate.in_span(AHEAD)
    }

    fn pace(&self) -> Rate {
        Rate::ZERO
    }

    fn min_rtt(&self) -> Option<Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_milliseconds_of_what_the_link_carries_wait_below() {
        let mut controller = Reported::default();
        assert_eq!(
            (controller.rate(), controller.window(), controller.pace()),
            (Rate::ZERO, Size::ZERO, Rate::ZERO)
        );
        controller.report_rate(Rate::from_bits(80e6));
        assert_eq!(
            (controller.rate(), controller.window()),
            (Rate::from_bits(80e6), Size(100_000))
        );
        controller.report_rate(Rate::from_bits(40e6));
        assert_eq!(controller.window(), Size(50_000));
    }
}
