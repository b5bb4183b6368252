//! The paper's models: a polynomial for a topic alone, a neural network for each number of topics.
//! Source: papers/topic-placement.txt, §IV-D (six features), §VI-B (degree 4).
//! Inputs: work and rate of each topic. Outputs: 90th percentile of each topic, seconds. O(n weights).
//! Deviations: the code's hidden 100 ms are not added; the logarithm of the latency is what is learned, as its accuracy tells
//! (docs/algorithms-place.md#paper).
//! Limits: [`WEIGHTS_MAX`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::Topic;
use super::ModelError;

/// Weights of a network at most.
pub(super) const WEIGHTS_MAX: usize = 1_000_000;
/// Features of a topic among others: p, r and d of its own, then the sums of the others'.
const FEATURES: usize = 6;

/// The models of one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperModel {
    /// Of a topic alone, by work in seconds and rate.
    pub polynomial: Option<Polynomial>,
    /// By the number of topics.
    pub networks: BTreeMap<usize, NeuralNetwork>,
}

/// A polynomial in standardised features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Polynomial {
    /// What is taken from work and rate.
    pub mean: [f64; 2],
    /// What they are divided by then.
    pub scale: [f64; 2],
    /// Powers of both, and their coefficient.
    pub terms: Vec<(u8, u8, f64)>,
}

/// A network: layers of weighted sums with zero as their least value, but for the last one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NeuralNetwork {
    /// What is taken from each feature.
    pub mean: [f64; FEATURES],
    /// What it is divided by then.
    pub scale: [f64; FEATURES],
    /// The layers.
    pub layers: Vec<NetworkLayer>,
}

/// A layer of a network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkLayer {
    /// A row for each output.
    pub weights: Vec<Vec<f64>>,
    /// A number for each output.
    pub bias: Vec<f64>,
}

impl PaperModel {
    /// # Errors
    /// A network whose layers do not fit together.
    pub(super) fn check(&self) -> Result<(), ModelError> {
        let wrong = self.networks.iter().find(|(_, network)| !network.is_sound());
        match wrong {
            Some((together, _)) => Err(ModelError::Network(*together)),
            None => Ok(()),
        }
    }

    /// 90th percentiles, seconds; infinite for more topics than there is a network for.
    pub(super) fn p90(&self, topics: &[&Topic], answer: &mut Vec<f64>) {
        let of = |topic: &Topic| [topic.work.as_secs_f64(), topic.rate, topic.load()];
        let mut all = [0.0; 3];
        topics.iter().for_each(|topic| {
            all.iter_mut().zip(of(topic)).for_each(|(sum, value)| *sum += value);
        });
        for topic in topics {
            let [p, r, d] = of(topic);
            let features = [p, r, d, all[0] - p, all[1] - r, all[2] - d];
            let ln = match (topics.len(), &self.polynomial) {
                (1, Some(polynomial)) => Some(polynomial.of([p, r])),
                (together, _) => self.networks.get(&together).map(|network| network.of(features)),
            };
            answer.push(ln.map_or(f64::INFINITY, f64::exp));
        }
    }
}

impl Polynomial {
    fn of(&self, features: [f64; 2]) -> f64 {
        let [work, rate] =
            [0, 1].map(|place| (features[place] - self.mean[place]) / self.scale[place]);
        let term = |(of_work, of_rate, coefficient): &(u8, u8, f64)| {
            coefficient * work.powi(i32::from(*of_work)) * rate.powi(i32::from(*of_rate))
        };
        self.terms.iter().map(term).sum()
    }
}

impl NeuralNetwork {
    fn is_sound(&self) -> bool {
        let mut inputs = FEATURES;
        for layer in &self.layers {
            let rows = layer.weights.len();
            let fits = layer.weights.iter().all(|row| row.len() == inputs);
            if rows == 0 || rows != layer.bias.len() || !fits || rows * inputs > WEIGHTS_MAX {
                return false;
            }
            inputs = rows;
        }
        inputs == 1 && !self.layers.is_empty()
    }

    fn of(&self, features: [f64; FEATURES]) -> f64 {
        let scaled = features.iter().zip(self.mean.iter().zip(&self.scale));
        let mut values: Vec<f64> =
            scaled.map(|(value, (mean, scale))| (value - mean) / scale).collect();
        for (place, layer) in self.layers.iter().enumerate() {
            let is_last = place + 1 == self.layers.len();
            let of = |(row, bias): (&Vec<f64>, &f64)| {
                let sum =
                    row.iter().zip(&values).map(|(weight, value)| weight * value).sum::<f64>();
                if is_last { sum + bias } else { (sum + bias).max(0.0) }
            };
            values = layer.weights.iter().zip(&layer.bias).map(of).collect();
        }
        values.first().copied().unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::samples::topic;
    use super::*;

    fn layer(weights: &[&[f64]], bias: &[f64]) -> NetworkLayer {
        NetworkLayer {
            weights: weights.iter().map(|row| row.to_vec()).collect(),
            bias: bias.to_vec(),
        }
    }

    #[test]
    fn a_polynomial_for_one_and_a_network_for_two() {
        let polynomial = Polynomial {
            mean: [0.01, 40.0],
            scale: [0.01, 10.0],
            terms: vec![(0, 0, -3.0), (1, 2, 0.5)],
        };
        // The sum of the loads, if it is above 1, and half of it is below.
        let network = NeuralNetwork {
            mean: [0.0; 6],
            scale: [1.0; 6],
            layers: vec![
                layer(&[&[0.0, 0.0, 1.0, 0.0, 0.0, 1.0], &[0.0; 6]], &[-1.0, 3.0]),
                layer(&[&[1.0, -1.0]], &[0.5]),
            ],
        };
        let paper = PaperModel { polynomial: Some(polynomial), networks: [(2, network)].into() };
        paper.check().unwrap();
        let (one, other) = (topic(20, 60.0), topic(10, 20.0));
        let mut answer = Vec::new();
        paper.p90(&[&one], &mut answer);
        paper.p90(&[&one, &other], &mut answer);
        paper.p90(&[&one, &other, &other], &mut answer);
        // -3 + 0.5 x 1 x 2 squared; (1.2 + 0.2 - 1) - 3 + 0.5.
        let wanted = [(-1.0_f64).exp(), (-2.1_f64).exp(), (-2.1_f64).exp()];
        assert!(answer.iter().zip(wanted).all(|(p90, wanted)| (p90 - wanted).abs() < 1e-12));
        assert_eq!(answer[3..], [f64::INFINITY; 3]);
    }

    #[test]
    fn layers_that_do_not_fit_are_refused() {
        let of = |layers: Vec<NetworkLayer>| {
            let network = NeuralNetwork { mean: [0.0; 6], scale: [1.0; 6], layers };
            PaperModel { polynomial: None, networks: [(3, network)].into() }.check()
        };
        assert!(of(vec![layer(&[&[0.0; 6]], &[0.0])]).is_ok());
        assert!(of(vec![]).is_err() && of(vec![layer(&[&[0.0; 5]], &[0.0])]).is_err());
        assert!(of(vec![layer(&[&[0.0; 6], &[0.0; 6]], &[0.0, 0.0])]).is_err());
        assert!(of(vec![layer(&[&[0.0; 6]], &[0.0, 1.0])]).is_err());
    }
}
