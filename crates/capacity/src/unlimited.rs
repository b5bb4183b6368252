//! No network below (a file, a local process): a fixed window, no pace.
//! Source: own.
//! Inputs: none. Outputs: the window in bytes.
//! Deviations: none.
//! Limits: `WINDOW`.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use crate::controller::{Ack, Build, RateController};

/// Enough to keep a disk busy, little enough to choose late.
const WINDOW: Size = Size::from_kib(256);

/// How one is made.
pub(crate) const ENTRY: Build = |_| Box::new(Unlimited);

/// The rate controller's state: none.
#[derive(Debug)]
pub(super) struct Unlimited;

impl RateController for Unlimited {
    fn acked(&mut self, _now: Time, _ack: &Ack) {}

    fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}

    fn tick(&mut self, _now: Time) {}

    fn rate(&self) -> Rate {
        Rate::ZERO
    }

    fn window(&self) -> Size {
        WINDOW
    }

    fn pace(&self) -> Rate {
        Rate::ZERO
    }

    fn min_rtt(&self) -> Option<Duration> {
        None
    }
}
