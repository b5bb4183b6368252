//! Chooses the quality of a video frame when the frame is about to leave.
//!
//! A *rung* is one quality setting; a *ladder* is the list of rungs that nothing beats in both bytes and accuracy. A
//! *controller* says how many bytes a frame may have. A *subscription* keeps one subscriber's bounds and decides what
//! happens where no rung fits. A *flow* keeps the newest frame and skips older ones. A frame travels in *pieces*.
//!
//! | file | what |
//! |---|---|
//! | `ladder.rs`, `knobs.rs` | rungs, and their bytes corrected by recent frames; what only the paper does to a picture |
//! | `controller.rs`, `names.rs` | the `Controller` trait; the controllers by name |
//! | `feed_forward.rs`, `pi.rs`, `fixed.rs` | the default controller, the paper's, and one that never changes |
//! | `feasibility.rs`, `subscription.rs` | whether a subscriber's bounds can be kept; what becomes of a frame |
//! | `flow.rs`, `piece.rs`, `transit.rs` | the newest frame first; a frame in pieces; how long frames were under way |
//! | `calibrate.rs`, `channel.rs`, `tune.rs` | accuracy of a rung by a detector; latency of a channel by probes; gains of `pi` |
//! | `jpeg.rs`, `split.rs`, `archive.rs` | the header of a JPEG; JPEGs out of a byte stream; frames in a file |
//!
//! ```
//! use std::time::Duration;
//!
//! use tidegate_frames::{Ladder, Rung};
//!
//! let rung = |quality, bytes, accuracy| Rung {
//!     eighths: 8,
//!     quality,
//!     is_gray: false,
//!     knobs: Default::default(),
//!     bytes,
//!     accuracy,
//!     accuracy_low: accuracy,
//!     cost: Duration::ZERO,
//! };
//! let ladder = Ladder::new(vec![rung(40, 1e4, 0.80), rung(60, 2e4, 0.90), rung(80, 4e4, 0.96)]).unwrap();
//! assert_eq!(ladder.largest_within(30_000.0), Some(1));
//! assert_eq!(ladder.least_of(0.95), Some(2));
//! ```

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
pub mod knobs;
mod ladder;
mod names;
mod pi;
pub mod piece;
mod split;
mod subscription;
mod transit;
pub mod tune;

pub use self::controller::{Controller, ControllerInput};
pub use self::feasibility::Infeasible;
pub use self::flow::{Flow, FlowCounts, FrameEnding, FrameResult};
pub use self::ladder::{Ladder, LadderError, RUNGS_MAX, Rung};
pub use self::names::ControllerName;
pub use self::pi::Gains;
pub use self::split::Splitter;
pub use self::subscription::{
    CameraSubscription, Frame, FrameDecision, FrameTarget, InfeasiblePolicy, SkipReason,
};
pub use self::transit::TransitTime;
