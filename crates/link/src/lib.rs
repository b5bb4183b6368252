//! Tidegate's own transport between nodes: records over several unequal, lossy, failing paths, each by
//! its deadline, in order within its stream and never across streams.
//!
//! A driver tells a [`Link`] which paths there are (`path_up`, `path_down`) and what came by them
//! (`receive`). After each call, and at `next_timeout` (`tick`), it sends what `poll_transmit` gives
//! for each path until that is nothing, and takes every `poll_event`.

#![forbid(unsafe_code)]

pub mod arrival_delay;
pub mod claims;
mod codec;
pub mod delegation;
pub mod envelope;
mod erasure_code;
mod error;
pub mod handover;
mod in_flight;
mod limits;
pub mod lineage;
mod link;
pub mod loss_rate;
mod options;
mod outbox;
mod outgoing_record;
pub mod packet;
mod path;
pub mod path_scheduler;
mod piece;
pub mod predict;
mod rate_control;
mod reassembly;
mod received;
mod redundancy;
mod round_trip;
mod shared_bottleneck;
mod startup;

pub use self::error::WireError;
pub use self::limits::PATHS_MAX;
pub use self::link::Link;
pub use self::options::{
    GUARD_SHARE, LinkCounts, LinkEvent, LinkOptions, OfferError, Outgoing, PathCounts, PathHealth,
    PathOptions, PathStatus,
};
pub use self::reassembly::READ_MAX;
pub use self::redundancy::RedundancyName;
