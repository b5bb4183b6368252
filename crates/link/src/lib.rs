//! Tidegate's own transport between nodes: records over several unequal, lossy, failing paths, each by
//! its deadline, in order within its stream and never across streams.
//!
//! A driver tells a [`Link`] which paths there are (`path_up`, `path_down`) and what came by them
//! (`receive`). After each call, and at `next_timeout` (`tick`), it sends what `poll_transmit` gives
//! for each path until that is nothing, and takes every `poll_event`.

#![forbid(unsafe_code)]

mod begun;
pub mod claims;
mod code;
mod control;
pub mod delay;
pub mod envelope;
mod error;
pub mod failure;
mod guard;
pub mod handover;
mod in_flight;
pub mod letter;
mod limits;
pub mod lineage;
mod link;
mod options;
mod outbox;
pub mod packet;
mod part;
mod path;
pub mod predict;
mod reassembly;
mod received;
mod round_trip;
pub mod schedule;
mod shared;
mod start;

pub use self::error::WireError;
pub use self::guard::GuardName;
pub use self::limits::PATHS_MAX;
pub use self::link::Link;
pub use self::options::{
    Event, GUARD_SHARE, LinkCounts, LinkOptions, OfferError, Outgoing, PathCounts, PathOptions,
    PathState, PathStatus,
};
pub use self::reassembly::READ_MAX;
