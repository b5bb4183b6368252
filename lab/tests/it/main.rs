//! The lab on small worlds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "a test says what it skipped and what it saw")]

mod hol;
mod hostile;
mod load;
mod net;
mod report;
mod sim;
mod traces;
mod worlds;
