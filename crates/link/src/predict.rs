//! What the next arrival delay of a path will be.

mod ar;
mod auto;
mod chaos;
mod ewma;
mod judge;
mod last;
mod predictor;
mod series;

pub use self::predictor::Predictor;
pub use self::series::Series;

tidegate_types::named! {
    /// The predictors, by name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum PredictorName: "predictor of delays" {
        /// The last delay.
        #[default]
        Last = "last",
        /// A smoothed delay.
        Ewma = "ewma",
        /// Autoregression.
        Ar = "ar",
        /// Chaos theory: FD-MVQS, §4.2.
        Chaos = "chaos",
        /// The one that was best of late.
        Auto = "auto",
    }
}

impl PredictorName {
    /// The predictor.
    pub fn build(self) -> Box<dyn Predictor> {
        match self {
            PredictorName::Last => Box::new(last::Last),
            PredictorName::Ewma => Box::new(ewma::Ewma),
            PredictorName::Ar => Box::new(ar::Ar),
            PredictorName::Chaos => Box::new(chaos::Chaos::default()),
            PredictorName::Auto => Box::new(auto::Auto::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::random::SplitMix;

    use super::*;

    /// Mean absolute error of a predictor over the second half of these values.
    pub(super) fn error(name: PredictorName, values: &[f64], cells: usize) -> f64 {
        let (mut predictor, mut series) = (name.build(), Series::default());
        let (mut sum, mut count) = (0.0, 0);
        for (place, &value) in values.iter().enumerate() {
            series.push(place as u64, value);
            let said = predictor.predict(&series, cells);
            if place >= values.len() / 2 && place + cells < values.len() {
                sum += (said - values[place + cells]).abs();
                count += 1;
            }
        }
        sum / f64::from(count)
    }

    /// The logistic map x' = 4x (1 - x), as delays of up to 20 ms beyond 50.
    pub(super) fn logistic(count: usize) -> Vec<f64> {
        let mut state = 0.3;
        let mut step = || {
            state = 4.0 * state * (1.0 - state);
            0.050 + 0.020 * state
        };
        (0..count).map(|_| step()).collect()
    }

    /// Numbers in -0.5..0.5 without any pattern: the n-th of a seed of 0.
    pub(super) fn noise(n: u64) -> f64 {
        SplitMix(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).share() - 0.5
    }

    #[test]
    fn names_are_those_of_the_configuration() {
        for name in PredictorName::ALL {
            assert_eq!(name.name().parse(), Ok(name));
        }
        assert!("oracle".parse::<PredictorName>().unwrap_err().contains("chaos"));
    }

    #[test]
    fn a_constant_delay_is_predicted_as_it_is() {
        for name in PredictorName::ALL {
            for cells in [1, 14] {
                let error = error(name, &[5000.07; 600], cells);
                assert!(error < 1e-9, "{}: {error}", name.name());
            }
        }
    }

    #[test]
    fn a_step_is_followed() {
        let step: Vec<f64> = (0..800).map(|cell| if cell < 390 { 0.05 } else { 0.09 }).collect();
        for name in PredictorName::ALL {
            // The mean over 400 cells: at most those of half a second are wrong by 40 ms.
            let error = error(name, &step, 1);
            assert!(error < 0.005, "{}: {error}", name.name());
        }
    }

    #[test]
    fn the_logistic_map_is_predicted_by_chaos_and_not_by_autoregression() {
        let values = logistic(1000);
        let of = |name| error(name, &values, 1);
        let [chaos, ar, last] =
            [PredictorName::Chaos, PredictorName::Ar, PredictorName::Last].map(of);
        // It has no correlation in time: the mean is the best that is linear, 20 ms · 2 / π² = 6.4 off.
        assert!((0.0055..0.0075).contains(&ar), "{ar}");
        assert!(last > ar, "{last}");
        assert!(chaos < 0.0005, "{chaos}");
        assert!(of(PredictorName::Auto) < 0.0005, "{}", of(PredictorName::Auto));
    }

    #[test]
    fn at_the_age_of_feedback_chaos_is_no_better_than_the_mean() {
        let values = logistic(1000);
        let of = |name| error(name, &values, 14);
        assert!(of(PredictorName::Chaos) > 0.8 * of(PredictorName::Ar));
    }

    #[test]
    fn few_values_and_wild_ones_give_numbers() {
        let wild = [0.0, 1e9, -1e9, 1e-12, 5e3];
        for name in PredictorName::ALL {
            let (mut predictor, mut series) = (name.build(), Series::default());
            for turn in 0..700 {
                series.push(turn * 3, wild[(turn * turn % 5) as usize]);
                assert!(predictor.predict(&series, 1 + turn as usize % 64).is_finite());
            }
        }
    }
}
