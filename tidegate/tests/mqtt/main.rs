//! The MQTT input over real sockets, against a stand-in for the node's loop.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod access;
mod broker;
#[path = "../support/certificates.rs"]
mod certificates;
mod client;
mod clients;
mod conformance;
mod exactly_once;
mod foreign;
#[path = "../support/logs.rs"]
mod logs;
mod node;
mod sessions;
mod stress;
mod subscribers;
mod subscribing;
mod tls;
mod wills;

use std::future::Future;
use std::time::Duration;

/// Longest wait for anything: reached only by a failure.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits for what must come.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not come within {PATIENCE:?}"),
    }
}
