//! Who publishes records in a world, and where they are read.

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::World;
use super::link::is_span;
use super::process::Program;
use crate::sim::{Amount, Span};

/// Records of one topic: MQTT with QoS 1, open loop, each with its number and the time at which it was
/// due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Source {
    /// Its name in tables and checks.
    pub name: String,
    /// The publishing host.
    pub from: String,
    /// The process that takes them, at MQTT's port of its host.
    pub to: String,
    /// Their topic.
    pub topic: String,
    /// The broker at which they are read again.
    pub at: String,
    /// Records a second.
    pub per_second: f64,
    /// How they are spread.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Payload of each; two for evenly distributed ones from the first to the second.
    pub size: Sizes,
    /// When the first is due.
    #[serde(default)]
    pub start: Span,
    /// When no more are due; without it the end of the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Span>,
}

/// How records are spread over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Evenly.
    #[default]
    Constant,
    /// Independently of each other.
    Poisson,
}

/// Payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Sizes {
    /// All the same.
    One(Amount),
    /// Evenly distributed from the first to the second.
    Between(Amount, Amount),
}

impl Sizes {
    /// The smallest and the largest.
    pub fn range(self) -> (Amount, Amount) {
        match self {
            Sizes::One(size) => (size, size),
            Sizes::Between(from, to) => (from, to),
        }
    }
}

/// A stamp must fit, and what a listener takes by default is the most.
const SIZE: std::ops::RangeInclusive<u64> = 64..=1_000_000;

impl Source {
    /// When no more are due.
    ///
    /// # Errors
    /// It has no end.
    pub fn end(&self, world: &World) -> anyhow::Result<Span> {
        self.until.or(world.length).context("needs until, or a world with a length")
    }

    pub(super) fn validate(&self, world: &World) -> anyhow::Result<()> {
        world.has_host(&self.from)?;
        world.process(&self.to)?;
        let broker = world.process(&self.at)?;
        let is_broker = matches!(broker.program(), Program::Broker(_));
        ensure!(is_broker, "records can be read at a broker, and {} is none", self.at);
        let rate = (0.001..=1e5).contains(&self.per_second);
        ensure!(rate, "per-second is between 0.001 and 100000");
        let (least, most) = self.size.range();
        ensure!(least <= most, "the first size is the smaller one");
        let fits = SIZE.contains(&least.0) && SIZE.contains(&most.0);
        ensure!(fits, "size is between {}B and {}B", SIZE.start(), SIZE.end());
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "/-_".contains(char);
        ensure!(!self.topic.is_empty() && self.topic.chars().all(is_plain), "no plain topic");
        let end = self.end(world)?;
        ensure!(is_span(end.0), "until is too late");
        ensure!(self.start < end, "it ends before it begins");
        Ok(())
    }
}
