//! The promises of the decisions, each with a test that fails without it: one program, so that core is linked once.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod fleet;
mod keep;
mod link;
mod log;
mod moves;
mod node;
mod properties;
mod tidy;
