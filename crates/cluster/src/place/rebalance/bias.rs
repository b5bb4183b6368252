//! What was measured at a node over what the model says, learnt from round to round.
//! Source: own.
//! Inputs: 90th percentiles measured and predicted, seconds. Outputs: a factor. O(units log units) a round.
//! Deviations: none.
//! Limits: [`BIAS`].

/// The least and the greatest factor.
pub const BIAS: (f64, f64) = (0.5, 4.0);
/// Part of the way to what was measured that is gone in a round.
const GAIN: f64 = 0.3;

/// The factor's logarithm.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bias(f64);

impl Bias {
    pub(super) fn factor(self) -> f64 {
        self.0.exp()
    }

    /// `ratios` are measured over predicted without it, of the units of a round: their median counts.
    pub(super) fn learn(&mut self, ratios: &mut [f64]) {
        ratios.sort_by(f64::total_cmp);
        if let Some(median) = ratios.get(ratios.len() / 2) {
            let wanted = median.clamp(BIAS.0, BIAS.1).ln();
            self.0 += GAIN * (wanted - self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_a_part_of_the_way_and_stays_within_its_bounds() {
        let mut bias = Bias::default();
        bias.learn(&mut []);
        assert!((bias.factor() - 1.0).abs() < 1e-12);
        bias.learn(&mut [2.0]);
        assert!((bias.factor() - 2.0_f64.powf(GAIN)).abs() < 1e-9);
        (0..100).for_each(|_| bias.learn(&mut [1.0, 50.0, 100.0]));
        assert!((bias.factor() - BIAS.1).abs() < 1e-6);
        (0..100).for_each(|_| bias.learn(&mut [0.001]));
        assert!((bias.factor() - BIAS.0).abs() < 1e-6);
    }
}
