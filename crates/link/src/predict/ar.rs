//! Autoregression: the next delay is a weighted sum of the last five.
//! Source: Yule 1927, Walker 1931; the recursion of Levinson 1947 and Durbin 1960. `x' - μ = Σ a_k (x_k - μ)`.
//! Inputs: delays. Outputs: a delay. O(`Series` · `ORDER` + cells · `ORDER`).
//! Deviations: the variance counts a thousandth more, which keeps the equations solvable.
//! Limits: `ORDER`.

use super::predictor::Predictor;
use super::series::Series;

/// Values that the next one follows from.
const ORDER: usize = 5;
/// Values below which the last one is as good.
const VALUES_MIN: usize = 8 * ORDER;
/// White noise that is added to the variance.
const NOISE: f64 = 1e-3;

/// The rule.
#[derive(Debug)]
pub(super) struct Ar;

/// `ORDER` coefficients that minimise the squared error, by autocorrelation: the model never grows without bound.
fn coefficients(values: &[f64]) -> [f64; ORDER] {
    let correlation = |lag: usize| {
        let pairs = values.iter().zip(&values[lag..]);
        pairs.map(|(left, right)| left * right).sum::<f64>()
    };
    let lags: [f64; ORDER + 1] = std::array::from_fn(correlation);
    let mut error = lags[0] * (1.0 + NOISE);
    let mut chosen = [0.0; ORDER];
    for order in 0..ORDER {
        if error <= 0.0 {
            break;
        }
        let known: f64 = (0..order).map(|k| chosen[k] * lags[order - k]).sum();
        let reflection = (lags[order + 1] - known) / error;
        let before = chosen;
        for k in 0..order {
            chosen[k] = before[k] - reflection * before[order - 1 - k];
        }
        chosen[order] = reflection;
        error *= 1.0 - reflection * reflection;
    }
    chosen
}

impl Predictor for Ar {
    fn predict(&mut self, series: &Series, cells: usize) -> f64 {
        let count = series.values().len();
        if count < VALUES_MIN {
            return series.last();
        }
        let mean = series.values().sum::<f64>() / count as f64;
        let values: Vec<f64> = series.values().map(|value| value - mean).collect();
        let weights = coefficients(&values);
        // The newest first.
        let mut state: [f64; ORDER] = std::array::from_fn(|k| values[count - 1 - k]);
        for _ in 0..cells {
            let next = weights.iter().zip(&state).map(|(weight, value)| weight * value).sum();
            state.rotate_right(1);
            state[0] = next;
        }
        mean + state[0]
    }
}

#[cfg(test)]
mod tests {
    use super::super::PredictorName;
    use super::super::tests::{error, noise};
    use super::*;

    #[test]
    fn a_wave_is_known_in_advance() {
        let wave: Vec<f64> =
            (0..1000).map(|cell| 0.05 + 0.01 * (0.2 * f64::from(cell)).sin()).collect();
        assert!(error(PredictorName::Ar, &wave, 1) < 0.0004);
        assert!(error(PredictorName::Ar, &wave, 1) < 0.4 * error(PredictorName::Last, &wave, 1));
    }

    #[test]
    fn the_coefficients_of_a_process_of_first_order_are_found() {
        let mut value = 0.0;
        let mut step = |n| {
            value = 0.8 * value + noise(n);
            value
        };
        let values: Vec<f64> = (0..512).map(&mut step).collect();
        let found = coefficients(&values);
        assert!((found[0] - 0.8).abs() < 0.1, "{found:?}");
        assert!(found[1..].iter().all(|weight| weight.abs() < 0.15), "{found:?}");
        assert_eq!(coefficients(&[0.0; 512]), [0.0; ORDER]);
    }
}
