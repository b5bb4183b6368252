//! The MQTT input over real sockets, against a stand-in for the node's loop.

mod access;
mod balanced;
mod broker;
mod client;
mod clients;
mod conformance;
mod exactly_once;
mod foreign;
mod hostile;
mod node;
mod patience;
mod quotas;
mod reload;
mod sessions;
mod standard;
mod stress;
mod subscribers;
mod subscribing;
mod tls;
mod tokens;
mod websocket;
mod wills;

pub(crate) use crate::support::PATIENCE;
use std::future::Future;

/// Waits for what must come.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what} did not come within {PATIENCE:?}"),
    }
}
