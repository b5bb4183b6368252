//! A smoothed delay is the next one.
//! Source: RFC 6298, as Eq. 3 of papers/fd-mvqs.txt has it for round trips: `s' = (1 - γ) s + γ x`, γ = 1/8.
//! Inputs: delays. Outputs: a delay. O(`SPAN`).
//! Deviations: none that shows: of values older than `SPAN` a thousandth would be left.
//! Limits: `SPAN`.

use super::predictor::Predictor;
use super::series::Series;

/// γ.
const WEIGHT: f64 = 0.125;
/// Values that count.
const SPAN: usize = 64;

/// The rule.
#[derive(Debug)]
pub(super) struct Ewma;

impl Predictor for Ewma {
    fn predict(&mut self, series: &Series, _cells: usize) -> f64 {
        let skipped = series.values().len().saturating_sub(SPAN);
        let recent = series.values().skip(skipped);
        recent.reduce(|mean, value| mean + WEIGHT * (value - mean)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_moves_an_eighth_of_the_way() {
        let mut series = Series::default();
        for (cell, value) in [(0, 100.0), (1, 180.0), (2, 110.0)] {
            series.push(cell, value);
        }
        assert!((Ewma.predict(&series, 1) - 110.0).abs() < 1e-9);
    }
}
