//! Half of the configured rate, always.
//! Source: own; a rate controller as a newcomer writes it.
//! Inputs: the configured rate. Outputs: rate and pace in bytes/s, window in bytes.
//! Deviations: none.
//! Limits: a tenth of a second of the rate in flight.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use crate::controller::{Ack, Build, RateController};

/// How one is made.
pub(crate) const ENTRY: Build =
    |known| Box::new(Steady { rate: known.cap.unwrap_or_default().times(0.5) });

#[derive(Debug)]
struct Steady {
    rate: Rate,
}

impl RateController for Steady {
    fn acked(&mut self, _now: Time, _ack: &Ack) {}

    fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}

    fn tick(&mut self, _now: Time) {}

    fn rate(&self) -> Rate {
        self.rate
    }

    fn window(&self) -> Size {
        self.rate.in_span(Duration::from_millis(100))
    }

    fn pace(&self) -> Rate {
        self.rate
    }

    fn min_rtt(&self) -> Option<Duration> {
        None
    }
}
