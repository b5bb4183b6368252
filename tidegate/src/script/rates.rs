//! Rates that a script holds queues to.

use tidegate_node::io::QueueId;
use tidegate_types::units::Rate;

use super::stage::{Stage, Told, wrong};

/// Queues whose rates one call may change.
const RATES_MAX: usize = 64;

impl Stage {
    /// Holds a queue to a rate, or no more; the newest word counts.
    pub(super) fn set_rate(&mut self, queue: QueueId, rate: Option<Rate>) -> Told<()> {
        self.node()?;
        let rates = &mut self.effects.rates;
        rates.retain(|(known, _)| *known != queue);
        if rates.len() >= RATES_MAX {
            return wrong(format!("more than {RATES_MAX} queues' rates in one call"));
        }
        rates.push((queue, rate));
        Ok(())
    }

    /// The rate that a queue is held to, as decided so far.
    pub(super) fn rate(&mut self, queue: QueueId) -> Told<Option<Rate>> {
        let decided = self.effects.rates.iter().find(|(known, _)| *known == queue);
        match decided.map(|(_, rate)| *rate) {
            Some(rate) => Ok(rate),
            None => Ok(self.facts(queue)?.and_then(|facts| facts.rate)),
        }
    }
}
