//! What a predictor is.

use std::fmt;

use super::series::Series;

/// A rule that predicts.
pub trait Predictor: fmt::Debug + Send {
    /// The value so many cells after the newest of the series, which is not empty; `cells` is at least 1.
    /// Called once after each new cell, so that it can judge what it said before.
    fn predict(&mut self, series: &Series, cells: usize) -> f64;
}
