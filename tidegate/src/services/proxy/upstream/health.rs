//! Whether endpoints live: those that are asked for it in the configuration always, others once a
//! connection to them failed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::header::HOST;
use hyper::{Request, StatusCode};

use super::connect::{Address, Endpoint};
use super::{Shared, send_by};
use crate::config::Protocol;
use crate::services::proxy::body::Passing;

/// How often an endpoint that is down is tried, where the configuration does not say.
const EVERY: Duration = Duration::from_secs(1);
/// How long such a try may take.
const TIMEOUT: Duration = Duration::from_secs(1);

impl Shared {
    /// Asks for ever.
    pub(in crate::services::proxy) async fn care(self: Arc<Self>) {
        let health = self.config.health.as_ref();
        let every = health.map_or(EVERY, |health| health.every.0);
        loop {
            let is_any_down = self.addresses.iter().any(|address| address.is_down());
            if health.is_none() && !is_any_down {
                self.found_down.notified().await;
            }
            tokio::time::sleep(every).await;
            for address in &self.addresses {
                if health.is_some() || address.is_down() {
                    let lives = self.lives(address).await;
                    address.is_down.store(!lives, Ordering::Relaxed);
                }
            }
            if !self.addresses.is_empty() {
                self.refresh();
            }
        }
    }

    async fn lives(&self, address: &Arc<Address>) -> bool {
        let health = self.config.health.as_ref();
        let timeout = health.map_or(TIMEOUT, |health| health.timeout.0);
        match health.and_then(|health| health.path.as_deref()) {
            None => matches!(tokio::time::timeout(timeout, address.dial()).await, Ok(Ok(_))),
            Some(path) => {
                let answer = tokio::time::timeout(timeout, self.ask(address, path)).await;
                matches!(answer, Ok(Ok(status)) if status.is_success() || status.is_redirection())
            }
        }
    }

    /// Asks by a connection of its own, which is closed again.
    async fn ask(&self, address: &Arc<Address>, path: &str) -> anyhow::Result<StatusCode> {
        let wants_http2 = self.settings.protocol == Protocol::Http2;
        let endpoint = Endpoint::new(address.clone());
        let sender = endpoint.connect(&self.settings, &self.sockets, wants_http2).await?;
        let host = format!("{}:{}", address.host, address.port);
        let request = Request::get(path).header(HOST, host).body(Passing::empty())?;
        let sent = send_by(sender, request).await;
        let (response, _) = sent.map_err(|_| anyhow::anyhow!("no answer"))?;
        Ok(response.status())
    }
}
