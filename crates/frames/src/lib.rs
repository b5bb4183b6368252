//! Frames that shrink to fit: to which rung of a ladder a frame is encoded when it is about to leave.
//!
//! A controller says how many bytes a frame may have, a ladder which rung that is, and a subscription
//! (`subscription.rs`) what happens where no rung fits: each subscriber's bounds are kept on their own. A flow
//! (`flow.rs`) sees to it that the newest frame goes; it travels in pieces (`piece.rs`).

#![forbid(unsafe_code)]

pub mod calibrate;
mod feasibility;
mod feed_forward;
mod fixed;
mod flow;
pub mod jpeg;
mod ladder;
mod pi;
pub mod piece;
pub mod site;
mod split;
pub mod stored;
mod subscription;
mod transit;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tidegate_types::units::{Size, Time};

pub use self::feasibility::Infeasible;
pub use self::flow::{Flow, FlowCounts};
pub use self::ladder::{Ladder, LadderError, RUNGS_MAX, Rung};
pub use self::pi::Gains;
use self::site::Site;
pub use self::split::Splitter;
pub use self::subscription::{Choice, Frame, Policy, Skip, Subscription, Target};
pub use self::transit::Transit;

/// What a controller may know when it is asked for a budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Time that the frame's bytes have, from its first on the way to its last at the far end:
    /// propagation and encoding are taken out.
    pub left: Duration,
    /// Bytes of earlier frames that are sent and not acknowledged.
    pub backlog: Size,
}

/// Says how many bytes a frame may have. It hears of acknowledgements by this node's clock alone.
pub trait Controller: fmt::Debug + Send {
    /// Bytes that the next frame may have; below 0 where even what is under way is too much.
    fn budget(&mut self, now: Time, moment: &Moment) -> f64;
    /// A frame begins to leave.
    fn sent(&mut self, now: Time);
    /// So many more bytes of what was sent have arrived.
    fn acked(&mut self, now: Time, newly: Size);
    /// A frame arrived after so long since its capture, or was given up.
    fn ended(&mut self, now: Time, latency: Option<Duration>);
    /// What is known of the channel before the first frame.
    fn begin_at(&mut self, _site: &Site, _ladder: &Ladder) {}
}

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
