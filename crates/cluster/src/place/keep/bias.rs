//! What was measured at a node over what the model says, learnt from round to round.
//! Source: own.
//! Inputs: 90th percentiles measured and predicted, seconds. Outputs: a factor. O(units log units) a round.
//! Deviations: none.
//! Limits: [`BIAS`].

use super::{Keeper, Topic};
use crate::place::{Machine, Model};

/// The least and the greatest factor.
pub const BIAS: (f64, f64) = (0.5, 4.0);
/// Part of the way to what was measured that is gone in a round.
const GAIN: f64 = 0.3;
/// Part of what a node can do beyond which latencies say how long that lasts, and not how fast the node is.
const FULL: f64 = 0.85;

/// The factor's logarithm.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bias(f64);

impl Bias {
    pub(super) fn factor(self) -> f64 {
        self.0.exp()
    }

    /// `ratios` are measured over predicted without it, of the units of a round: their median counts.
    fn learn(&mut self, ratios: &mut [f64]) {
        ratios.sort_by(f64::total_cmp);
        if let Some(median) = ratios.get(ratios.len() / 2) {
            let wanted = median.clamp(BIAS.0, BIAS.1).ln();
            self.0 += GAIN * (wanted - self.0);
        }
    }
}

impl Keeper {
    /// What was measured in this round feeds the factors of the nodes, but of those where a unit came or went, and of
    /// those that work off what has waited.
    pub(super) fn learn(&mut self, model: &dyn Model) {
        let mut answer = Vec::new();
        for (name, node) in &mut self.nodes {
            if !node.is_here || node.is_unsettled || node.is_behind {
                continue;
            }
            // Loads of this very round, not smoothed: they made what was measured.
            let own = || self.units.values().filter(|unit| unit.node == *name);
            let seen: Vec<_> = own().filter_map(|unit| unit.seen.as_ref()).collect();
            if seen.len() < own().count() {
                // What is not known makes the others late all the same.
                continue;
            }
            let topics: Vec<&Topic> = seen.iter().map(|seen| &seen.topic).collect();
            let usual = self.options.usual;
            let threads = node.loads.as_ref().map_or(1, |it| it.threads.min(it.processors)).max(1);
            let machine = Machine { cores: f64::from(threads).min(usual.cores), ..usual };
            let load: f64 = topics.iter().map(|topic| topic.load()).sum();
            if load > FULL * model.load_max(&machine, topics.len()) {
                continue;
            }
            answer.clear();
            model.p90(&machine, &topics, &mut answer);
            let of = |(seen, predicted): (_, &f64)| {
                let seen: &&super::Seen = seen;
                let is_sound = predicted.is_finite() && *predicted > 0.0;
                seen.p90.filter(|_| is_sound).map(|p90| p90 / predicted)
            };
            let mut ratios: Vec<f64> = seen.iter().zip(&answer).filter_map(of).collect();
            node.bias.learn(&mut ratios);
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
