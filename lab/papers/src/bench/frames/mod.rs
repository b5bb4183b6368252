//! `lab bench frames-step`, `frames-nodes` and `frames-hop`: cameras, nodes and subscribers as processes and
//! clients on real sockets.
//!
//! All clients are threads of the lab, so that one clock stamps a frame where it is due and where it arrives.

mod client;
mod film;
pub mod hop;
mod judge;
pub mod nodes;
mod rig;
mod rival;
mod score;
pub mod step;
mod table;

/// What every subscriber asks for: from capture to arrival.
const BOUND_MS: u32 = 100;
