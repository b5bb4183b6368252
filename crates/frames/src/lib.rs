//! Frames that shrink to fit: to which rung of a ladder a frame is encoded when it is about to leave.
//!
//! A controller says how many bytes a frame may have, a ladder which rung that is, and a subscription
//! (`subscription.rs`) what happens where no rung fits: each subscriber's bounds are kept on their own. A flow
//! (`flow.rs`) sees to it that the newest frame goes; it travels in pieces (`piece.rs`).

#![forbid(unsafe_code)]

pub mod archive;
pub mod calibrate;
pub mod channel;
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
mod split;
mod subscription;
mod transit;

pub use self::controller::{Controller, ControllerInput};
pub use self::feasibility::Infeasible;
pub use self::flow::{Flow, FlowCounts};
pub use self::ladder::{Ladder, LadderError, RUNGS_MAX, Rung};
pub use self::names::ControllerName;
pub use self::pi::Gains;
pub use self::split::Splitter;
pub use self::subscription::{
    CameraSubscription, Frame, FrameDecision, FrameTarget, InfeasiblePolicy, SkipReason,
};
pub use self::transit::TransitTime;
