//! Finding the uplink's rate without being told, and how much may be below the scheduler.
//!
//! One rate controller an uplink. A rate controller sees byte-level feedback only (`TCP_INFO`, packet acknowledgements), never
//! confirmations of whole records, for a broker's confirmations also measure its disk and come in lumps
//! as large as a record. It answers with a window (bytes that may be unacknowledged) and a pace.

#![forbid(unsafe_code)]

mod baselines;
mod capped;
mod controller;
mod delivery_rate;
mod known;
mod max_rate;
mod names;
pub mod pace;
mod reported;
mod round_trip;
mod route_change;
mod standing_queue;
#[cfg(test)]
mod test_link;
mod tide;
mod unlimited;
pub mod uplink;
pub mod window_filter;

pub use self::controller::{Ack, PathSample, RateController};
pub use self::names::{RateControllerName, UplinkOptions, build};
