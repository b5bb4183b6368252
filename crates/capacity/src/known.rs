//! Paces at 92 % of a rate that somebody knows: the reference for the rate controllers that must find it.
//! Source: own; the share is that of the first measurements of this project (docs/ALGORITHMS.md#known).
//! Inputs: the rate. Outputs: rate and pace in bytes/s, window in bytes.
//! Deviations: none.
//! Limits: a second of the rate in flight, so that a wrong rate cannot fill a path without end.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use crate::controller::{Ack, Build, RateController};

/// Part of the known rate that is used.
const SHARE: f64 = 0.92;
/// Time that the window takes at the rate.
const WINDOW: Duration = Duration::from_secs(1);
/// Smallest window: on the slowest links the known rate still needs a few packets.
const WINDOW_MIN: Size = Size(6_000);

/// How one is made.
pub(crate) const ENTRY: Build = |known| Box::new(Known::new(known.cap.unwrap_or_default()));

/// The rate controller's state.
#[derive(Debug)]
struct Known {
    rate: Rate,
    min_rtt: Option<Duration>,
}

impl Known {
    /// A rate controller for an uplink of this rate.
    fn new(rate: Rate) -> Self {
        Known { rate: rate.times(SHARE), min_rtt: None }
    }
}

impl RateController for Known {
    fn acked(&mut self, _now: Time, ack: &Ack) {
        self.min_rtt = Some(self.min_rtt.map_or(ack.rtt, |least| least.min(ack.rtt)));
    }

    fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}

    fn tick(&mut self, _now: Time) {}

    fn rate(&self) -> Rate {
        self.rate
    }

    fn window(&self) -> Size {
        self.rate.in_span(WINDOW).max(WINDOW_MIN)
    }

    fn pace(&self) -> Rate {
        self.rate
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }
}
