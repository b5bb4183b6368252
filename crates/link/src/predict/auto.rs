//! The predictor that was best of late.
//! Source: own.
//! Inputs: delays. Outputs: a delay. As much work as all of them.
//! Deviations: none.
//! Limits: none.

use super::ar::Ar;
use super::chaos::Chaos;
use super::ewma::Ewma;
use super::judge::Judge;
use super::last::Last;
use super::predictor::Predictor;
use super::series::Series;

/// Another one must be better by so much to be chosen.
const BETTER: f64 = 0.9;

/// The rule.
#[derive(Debug)]
pub(super) struct Auto {
    candidates: Vec<(Box<dyn Predictor>, Judge)>,
    chosen: usize,
}

impl Default for Auto {
    fn default() -> Self {
        let all: [Box<dyn Predictor>; 4] =
            [Box::new(Last), Box::new(Ewma), Box::new(Ar), Box::new(Chaos::default())];
        let candidates = all.map(|predictor| (predictor, Judge::default()));
        Auto { candidates: candidates.into(), chosen: 0 }
    }
}

impl Predictor for Auto {
    fn predict(&mut self, series: &Series, cells: usize) -> f64 {
        let mut values = Vec::with_capacity(self.candidates.len());
        for (predictor, judge) in &mut self.candidates {
            judge.compare(series);
            let value = predictor.predict(series, cells);
            judge.say(series, cells, value);
            values.push(value);
        }
        let error = |place: usize| self.candidates[place].1.error();
        for place in 0..self.candidates.len() {
            if error(place) < BETTER * error(self.chosen) {
                self.chosen = place;
            }
        }
        values[self.chosen]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{logistic, noise};
    use super::*;
    use crate::predict::PredictorName;

    /// In the order of the candidates.
    const NAMES: [PredictorName; 4] =
        [PredictorName::Last, PredictorName::Ewma, PredictorName::Ar, PredictorName::Chaos];

    #[test]
    fn it_changes_its_mind_with_the_errors() {
        let (mut auto, mut series) = (Auto::default(), Series::default());
        let mut feed = |from: u64, values: &[f64]| {
            for (place, &value) in values.iter().enumerate() {
                series.push(from + place as u64, value);
                auto.predict(&series, 1);
            }
            NAMES[auto.chosen]
        };
        assert_eq!(feed(0, &[0.05; 100]), PredictorName::Last);
        assert_eq!(feed(100, &logistic(900)), PredictorName::Chaos);
        // Of white noise nothing can be known but its mean.
        let white: Vec<f64> = (0..900).map(|n| 0.05 + 0.02 * noise(n)).collect();
        assert!(matches!(feed(1000, &white), PredictorName::Ar | PredictorName::Ewma));
    }
}
