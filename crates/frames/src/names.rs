//! The controllers by name. A new one is a file of its own and a line in each of these lists.

use std::str::FromStr;
use std::time::Duration;

use crate::controller::Controller;
use crate::ladder::Ladder;
use crate::pi::Gains;
use crate::{feed_forward, fixed, pi};

/// A controller by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControllerName {
    /// The paper's, repaired.
    Pi,
    /// Ours.
    #[default]
    FeedForward,
    /// The same bytes always.
    Fixed,
}

impl ControllerName {
    /// All of them.
    pub const ALL: [ControllerName; 3] =
        [ControllerName::Pi, ControllerName::FeedForward, ControllerName::Fixed];

    /// As in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            ControllerName::Pi => "pi",
            ControllerName::FeedForward => "feed-forward",
            ControllerName::Fixed => "fixed",
        }
    }

    /// One for frames with this bound on their latency, on this ladder.
    pub fn build(self, latency: Duration, ladder: &Ladder, gains: Gains) -> Box<dyn Controller> {
        match self {
            ControllerName::Pi => Box::new(pi::Pi::new(latency, ladder, gains)),
            ControllerName::FeedForward => Box::new(feed_forward::FeedForward::default()),
            ControllerName::Fixed => Box::new(fixed::Fixed),
        }
    }
}

impl FromStr for ControllerName {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let found = ControllerName::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| format!("no controller {name:?}: pi, feed-forward or fixed"))
    }
}
