//! The last delay is the next one.
//! Source: own; the plainest rival.
//! Inputs: delays. Outputs: a delay. O(1).
//! Deviations: none.
//! Limits: none.

use super::predictor::Predictor;
use super::series::Series;

/// The rule.
#[derive(Debug)]
pub(super) struct Last;

impl Predictor for Last {
    fn predict(&mut self, series: &Series, _cells: usize) -> f64 {
        series.last()
    }
}
