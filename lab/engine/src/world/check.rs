//! What must hold at the end of a world.

use anyhow::{bail, ensure};
use serde::{Deserialize, Serialize};

use super::World;
use crate::sim::{Span, Speed};

/// A bound on what became of a load or of a source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Check {
    /// Which load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Which source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Latency that half of what arrived keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<Span>,
    /// Latency that 99 of 100 keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<Span>,
    /// Part that may be lost: of what a load sent, of what was accepted from a source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<f64>,
    /// Least payload of a source that arrives while it sends, as a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<Speed>,
}

/// What became of a load or of a source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fate {
    /// What was sent; of a source, what was accepted.
    pub sent: u64,
    /// Latencies of what arrived, from due to received, sorted.
    pub latencies: Vec<std::time::Duration>,
    /// Payload that arrived while the source sent, in bits a second.
    pub goodput: f64,
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
    /// The load or source that it is about.
    pub(crate) fn subject(&self) -> &str {
        self.load.as_ref().or(self.source.as_ref()).map_or("", String::as_str)
    }

    /// What does not hold, one line each.
    pub fn broken(&self, fate: &Fate) -> Vec<String> {
        let mut broken = Vec::new();
        for (name, part, bound) in [("p50", 0.5, self.p50), ("p99", 0.99, self.p99)] {
            let Some(bound) = bound else { continue };
            match fate.quantile(part) {
                Some(value) if value <= bound => {}
                Some(value) => broken.push(format!(
                    "{} {name} is {}, not {}",
                    self.subject(),
                    String::from(value),
                    String::from(bound)
                )),
                None => broken.push(format!("{} {name}: nothing arrived", self.subject())),
            }
        }
        if let Some(bound) = self.lost.filter(|bound| fate.lost() > *bound) {
            broken.push(format!("{} lost {:.4}, not {bound}", self.subject(), fate.lost()));
        }
        let goodput = self.goodput.map(|least| least.0.as_bits());
        if let Some(least) = goodput.filter(|least| fate.goodput < *least) {
            let (got, least) = (fate.goodput / 1e6, least / 1e6);
            broken.push(format!("{} goodput is {got:.3}, not {least} Mbit/s", self.subject()));
        }
        broken
    }

    pub(super) fn validate(&self, world: &World) -> anyhow::Result<()> {
        match (&self.load, &self.source) {
            (Some(name), None) => {
                ensure!(world.load.iter().any(|load| load.name == *name), "no load {name:?}");
                ensure!(self.goodput.is_none(), "goodput is a source's");
            }
            (None, Some(name)) => {
                let is_there = world.source.iter().any(|source| source.name == *name);
                ensure!(is_there, "no source {name:?}");
            }
            _ => bail!("needs a load or a source"),
        }
        let bounds = [self.p50.is_some(), self.p99.is_some(), self.lost.is_some()];
        let has_bound = bounds.contains(&true) || self.goodput.is_some();
        ensure!(has_bound, "needs p50, p99, lost or goodput");
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
        let fate = Fate { sent: 200, latencies, goodput: 1e6 };
        let check = |p50, p99, lost| Check {
            load: Some("alarm".into()),
            p50,
            p99,
            lost,
            ..Check::default()
        };
        let kept = check(Some(Span::millis(50)), Some(Span::millis(99)), Some(0.5));
        assert_eq!(kept.broken(&fate), [""; 0]);
        let broken = check(Some(Span::millis(49)), None, Some(0.1)).broken(&fate);
        assert_eq!(broken, ["alarm p50 is 50ms, not 49ms", "alarm lost 0.5000, not 0.1"]);
        let slow = Check { source: Some("bulk".into()), ..Check::default() };
        let slow = Check { goodput: Some(Speed::megabits(1.5)), ..slow };
        assert_eq!(slow.broken(&fate), ["bulk goodput is 1.000, not 1.5 Mbit/s"]);
        let nothing = Fate { sent: 1, ..Fate::default() };
        assert_eq!(kept.broken(&nothing).len(), 3);
    }
}
