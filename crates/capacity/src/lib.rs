//! Finding the uplink's rate without being told, and how much may be below the scheduler.
//!
//! One law an uplink. A law sees byte-level feedback only (`TCP_INFO`, packet acknowledgements), never
//! confirmations of whole records, for a broker's confirmations also measure its disk and come in lumps
//! as large as a record. It answers with a window (bytes that may be unacknowledged) and a pace.

#![forbid(unsafe_code)]

mod acked;
mod baselines;
mod capped;
mod controller;
mod doubt;
mod known;
mod max_rate;
mod names;
pub mod pace;
mod round_trip;
mod standing;
mod tide;
mod told;
#[cfg(test)]
mod trial;
mod unlimited;
pub mod uplink;
pub mod windowed;

pub use self::controller::{Ack, Law, PathSample};
pub use self::names::{LawName, UplinkOptions, build};
