//! The node and the log together, through crashes at every step.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
