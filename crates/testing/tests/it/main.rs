//! The node with its log, its scripts and its neighbours, and through crashes at every step.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapting;
mod changing;
mod crash;
mod gathering;
mod lent;
mod limiting;
mod logged;
mod marking;
mod outputs;
mod patient;
mod sharing;
