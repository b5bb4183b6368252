//! Links between nodes, over loopback: whole nodes in this process, and as processes that are killed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/certificates.rs"]
mod certificates;
mod far;
mod nodes;
#[path = "../support/process.rs"]
mod process;
mod processes;
mod vanish;

use std::time::Duration;

/// Long enough for a busy machine; reached only where a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
