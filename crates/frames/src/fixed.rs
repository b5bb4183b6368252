//! The best rung for every frame, whatever the channel does: the baseline.
//! Source: own.
//! Inputs: none. Outputs: a budget without end.
//! Deviations: none.
//! Limits: none.

use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::{Controller, ControllerInput};

/// Nothing to remember.
#[derive(Debug)]
pub(super) struct Fixed;

impl Controller for Fixed {
    fn budget(&mut self, _now: Time, _moment: &ControllerInput) -> f64 {
        f64::INFINITY
    }
    fn sent(&mut self, _now: Time) {}
    fn acked(&mut self, _now: Time, _newly: Size) {}
    fn ended(&mut self, _now: Time, _latency: Option<Duration>) {}
}
