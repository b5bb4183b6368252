//! Cameras end to end: from who publishes, by nodes that are processes, to who subscribes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client;
mod edge;
mod hostile;
mod local;
mod sources;

#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/process.rs"]
mod process;

use std::time::Duration;

/// Long enough for a busy machine; reached only where a test fails.
const PATIENCE: Duration = Duration::from_secs(90);
