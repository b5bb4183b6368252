//! Percentiles, and how far they can be trusted.

/// Percentile (0..=100) of some numbers, the nearest of them; `NAN` of none.
pub fn percentile(numbers: &[f64], percent: f64) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = (sorted.len().max(1) - 1) as f64 * percent / 100.0;
    sorted.get(place.round() as usize).copied().unwrap_or(f64::NAN)
}

/// The mean; `NAN` of no numbers.
pub fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

/// A figure of several runs: its mean, and half of the 95 % interval of that.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    pub mean: f64,
    pub half: f64,
}

impl Estimate {
    /// From one figure of each independent run.
    pub fn of(runs: &[f64]) -> Self {
        let mean = mean(runs);
        let count = runs.len() as f64;
        let squares: f64 = runs.iter().map(|run| (run - mean).powi(2)).sum();
        let half = if runs.len() < 2 {
            f64::NAN
        } else {
            student(runs.len() - 1) * (squares / (count - 1.0) / count).sqrt()
        };
        Estimate { mean, half }
    }

    pub fn text(self, digits: usize) -> String {
        let Estimate { mean, half } = self;
        if half.is_nan() {
            format!("{mean:.digits$}")
        } else {
            format!("{mean:.digits$} ± {half:.digits$}")
        }
    }
}

/// What 95 % of Student's distribution lie within, for so many degrees of freedom.
fn student(freedom: usize) -> f64 {
    const FEW: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    FEW.get(freedom.saturating_sub(1)).copied().unwrap_or(1.96)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_students() {
        // By hand: mean 3, deviation sqrt(2.5), of five runs: 2.776 · sqrt(2.5 / 5) = 1.963.
        let five = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!((five.mean - 3.0).abs() < 1e-12 && (five.half - 1.963).abs() < 1e-3, "{five:?}");
        assert_eq!(Estimate::of(&[1.0, 1.0]).text(1), "1.0 ± 0.0");
        assert_eq!(Estimate::of(&[1.25]).text(2), "1.25");
    }

    #[test]
    fn percentiles_are_numbers_that_are_there() {
        let numbers = [5.0, 1.0, 3.0];
        assert_eq!([0.0, 50.0, 99.0].map(|percent| percentile(&numbers, percent)), [1.0, 3.0, 5.0]);
        assert!(percentile(&[], 50.0).is_nan());
    }
}
