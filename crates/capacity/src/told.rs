//! What is below finds its own capacity (a link, path by path) and tells it: a short window ahead, no pace.
//! Source: own.
//! Inputs: bytes/s that the link carries. Outputs: the window in bytes.
//! Deviations: none.
//! Limits: `AHEAD`.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use super::{Ack, Law};

/// What may wait below the scheduler, beyond what stands in the paths' own queues: enough that no wake-up
/// makes a path idle, little enough to choose late.
const AHEAD: Duration = Duration::from_millis(10);

/// The law's state: what it was told last.
#[derive(Debug, Default)]
pub(super) struct Told {
    rate: Rate,
}

impl Law for Told {
    fn acked(&mut self, _now: Time, _ack: &Ack) {}

    fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}

    fn tick(&mut self, _now: Time) {}

    fn told(&mut self, rate: Rate) {
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
        let mut law = Told::default();
        assert_eq!((law.rate(), law.window(), law.pace()), (Rate::ZERO, Size::ZERO, Rate::ZERO));
        law.told(Rate::from_bits(80e6));
        assert_eq!((law.rate(), law.window()), (Rate::from_bits(80e6), Size(100_000)));
        law.told(Rate::from_bits(40e6));
        assert_eq!(law.window(), Size(50_000));
    }
}
