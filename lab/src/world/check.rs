//! What must hold at the end of a world.

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::World;
use crate::sim::Span;

/// A bound on what became of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Check {
    /// Which load.
    pub load: String,
    /// Latency that half of what arrived keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<Span>,
    /// Latency that 99 of 100 keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Span>,
    /// Part of what was sent that may be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<f64>,
}

/// What became of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fate {
    /// What was sent.
    pub sent: u64,
    /// Latencies of what arrived, from due to received, sorted.
    pub latencies: Vec<std::time::Duration>,
}

impl Fate {
    /// The latency that this part (0..=1) of what arrived keeps; `None` where nothing did.
    pub fn quantile(&self, part: f64) -> Option<Span> {
        let rank = (part * self.latencies.len() as f64).ceil() as usize;
        self.latencies.get(rank.saturating_sub(1)).copied().map(Span)
    }

    /// The part that was lost.
    pub fn lost(&self) -> f64 {
        1.0 - self.latencies.len() as f64 / self.sent.max(1) as f64
    }
}

impl Check {
    /// What does not hold, one line each.
    pub fn broken(&self, fate: &Fate) -> Vec<String> {
        let mut broken = Vec::new();
        for (name, part, bound) in [("p50", 0.5, self.p50), ("p99", 0.99, self.p99)] {
            let Some(bound) = bound else { continue };
            match fate.quantile(part) {
                Some(value) if value <= bound => {}
                Some(value) => broken.push(format!(
                    "{} {name} is {}, not {}",
                    self.load,
                    String::from(value),
                    String::from(bound)
                )),
                None => broken.push(format!("{} {name}: nothing arrived", self.load)),
            }
        }
        if let Some(bound) = self.lost.filter(|bound| fate.lost() > *bound) {
            broken.push(format!("{} lost {:.4}, not {bound}", self.load, fate.lost()));
        }
        broken
    }

    pub(super) fn validate(&self, world: &World) -> anyhow::Result<()> {
        let is_there = world.load.iter().any(|load| load.name == self.load);
        ensure!(is_there, "no load {:?}", self.load);
        let is_empty = self.p50.is_none() && self.p99.is_none() && self.lost.is_none();
        ensure!(!is_empty, "needs p50, p99 or lost");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_does_not_hold_is_named() {
        let latencies = (1..=100).map(Duration::from_millis).collect();
        let fate = Fate { sent: 200, latencies };
        let check = |p50, p99, lost| Check { load: "alarm".into(), p50, p99, lost };
        let kept = check(Some(Span::millis(50)), Some(Span::millis(99)), Some(0.5));
        assert_eq!(kept.broken(&fate), [""; 0]);
        let broken = check(Some(Span::millis(49)), None, Some(0.1)).broken(&fate);
        assert_eq!(broken, ["alarm p50 is 50ms, not 49ms", "alarm lost 0.5000, not 0.1"]);
        let nothing = Fate { sent: 1, ..Fate::default() };
        assert_eq!(kept.broken(&nothing).len(), 3);
    }
}
