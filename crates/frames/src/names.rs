//! The controllers by name. A new one is a file of its own and a line in each of these lists.

use std::time::Duration;

use crate::controller::Controller;
use crate::ladder::Ladder;
use crate::pi::Gains;
use crate::{feed_forward, fixed, pi};

tidegate_types::named! {
    /// A controller by name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ControllerName: "controller of frames" {
        /// The paper's, repaired.
        Pi = "pi",
        /// Ours.
        #[default]
        FeedForward = "feed-forward",
        /// The same bytes always.
        Fixed = "fixed",
    }
}

impl ControllerName {
    /// One for frames with this bound on their latency, on this ladder.
    pub fn build(self, latency: Duration, ladder: &Ladder, gains: Gains) -> Box<dyn Controller> {
        match self {
            ControllerName::Pi => Box::new(pi::Pi::new(latency, ladder, gains)),
            ControllerName::FeedForward => Box::new(feed_forward::FeedForward::default()),
            ControllerName::Fixed => Box::new(fixed::Fixed),
        }
    }
}
