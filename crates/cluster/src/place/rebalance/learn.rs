//! Feeds what a round measured into the bias of each node.

use super::measured::Seen;
use super::{Rebalancer, Topic};
use crate::place::{LatencyModel, Machine};

/// Part of what a node can do beyond which latencies say how long that lasts, and not how fast the node is.
const FULL: f64 = 0.85;

impl Rebalancer {
    /// What was measured in this round feeds the factors of the nodes, but of those where a unit came or went, and of
    /// those that work off what has waited.
    pub(super) fn learn(&mut self, model: &dyn LatencyModel) {
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
                let seen: &&Seen = seen;
                let is_sound = predicted.is_finite() && *predicted > 0.0;
                seen.p90.filter(|_| is_sound).map(|p90| p90 / predicted)
            };
            let mut ratios: Vec<f64> = seen.iter().zip(&answer).filter_map(of).collect();
            node.bias.learn(&mut ratios);
        }
    }
}
