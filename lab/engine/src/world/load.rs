//! What is sent in a world, whatever becomes of it: the rate does not wait for answers.

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::World;
use super::link::is_span;
use crate::sim::{Amount, Span};

/// Datagrams of one size at a constant rate, each with its number and the time at which it was due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Load {
    /// Its name in tables and checks.
    pub name: String,
    /// The sending host.
    pub from: String,
    /// The link that they take; the receiver is at its other end.
    pub link: String,
    /// Datagrams a second.
    pub per_second: f64,
    /// Bytes of each on the link, headers included.
    pub size: Amount,
    /// When the first is due.
    #[serde(default)]
    pub start: Span,
    /// When no more are due; without it the end of the world.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Span>,
}

/// Headers, a number and two times; the largest packet of a link.
const SIZE: std::ops::RangeInclusive<u64> = 52..=1500;

impl Load {
    pub(super) fn validate(&self, world: &World) -> anyhow::Result<()> {
        world.has_host(&self.from)?;
        let link = world.link(&self.link).with_context(|| format!("no link {:?}", self.link))?;
        ensure!(link.ends.contains(&self.from), "{} is not at an end of {}", self.from, self.link);
        let per_second = (0.001..=1e6).contains(&self.per_second);
        ensure!(per_second, "per-second is between 0.001 and 1000000");
        let (least, most) = (SIZE.start(), SIZE.end());
        ensure!(SIZE.contains(&self.size.0), "size is between {least}B and {most}B");
        let end = self.until.or(world.length).context("needs until, or a world with a length")?;
        ensure!(is_span(end.0), "until is too late");
        Ok(())
    }
}
