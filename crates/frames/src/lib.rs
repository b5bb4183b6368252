//! Frames that shrink to fit: to which rung of a ladder a frame is encoded when it is about to leave.
//!
//! A controller says how many bytes a frame may have, a ladder which rung that is, and a subscription
//! (`subscription.rs`) what happens where no rung fits: each subscriber's bounds are kept on their own. A flow
//! (`flow.rs`) sees to it that the newest frame goes; it travels in pieces (`piece.rs`).

#![forbid(unsafe_code)]

pub mod calibrate;
mod controller;
mod feasibility;
mod feed_forward;
mod fixed;
mod flow;
pub mod jpeg;
mod ladder;
mod names;
mod pi;
pub mod piece;
pub mod site;
mod split;
pub mod stored;
mod subscription;
mod transit;

pub use self::controller::{Controller, Moment};
pub use self::feasibility::Infeasible;
pub use self::flow::{Flow, FlowCounts};
pub use self::ladder::{Ladder, LadderError, RUNGS_MAX, Rung};
pub use self::names::ControllerName;
pub use self::pi::Gains;
pub use self::split::Splitter;
pub use self::subscription::{Choice, Frame, Policy, Skip, Subscription, Target};
pub use self::transit::Transit;
