//! A fleet over loopback: an orchestrator, and nodes whose uplinks carry each other's records.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "a test says what it skipped and what it saw")]

#[path = "../support/certificates.rs"]
mod certificates;
mod etcd;
mod explaining;
mod gate;
mod orchestrators;
mod several;
mod together;

use std::time::Duration;

/// Long enough for a busy machine; reached only where a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
