//! The lab on small worlds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hol;
mod hostile;
mod load;
mod net;
mod report;
mod sim;
mod traces;
mod worlds;
