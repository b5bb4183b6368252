//! Whether endpoints live: those that are asked for it in the configuration always, others once a
//! connection to them failed.

use std::rc::Rc;
use std::time::Duration;

use hyper::header::HOST;
use hyper::{Request, StatusCode};
use tokio::net::TcpStream;

use super::connect::Endpoint;
use super::{Upstream, send_by};
use crate::config::Protocol;
use crate::services::proxy::body::Passing;

/// How often an endpoint that is down is tried, where the configuration does not say.
const EVERY: Duration = Duration::from_secs(1);
/// How long such a try may take.
const TIMEOUT: Duration = Duration::from_secs(1);

impl Upstream {
    /// Asks for ever.
    pub(in crate::services::proxy) async fn care(self: Rc<Self>) {
        let every = self.health.as_ref().map_or(EVERY, |health| health.every.0);
        loop {
            let is_any_down = self.endpoints.iter().any(|endpoint| endpoint.is_down.get());
            if self.health.is_none() && !is_any_down {
                tokio::select! {
                    () = self.found_down.notified() => {}
                    () = tokio::time::sleep(self.manner.idle_timeout) => self.sweep(),
                }
            }
            tokio::time::sleep(every).await;
            for endpoint in &self.endpoints {
                if self.health.is_some() || endpoint.is_down.get() {
                    endpoint.is_down.set(!self.lives(endpoint).await);
                }
            }
            if !self.endpoints.is_empty() {
                self.refresh();
            }
            self.sweep();
        }
    }

    fn sweep(&self) {
        let all = self.endpoints.iter();
        all.for_each(|endpoint| endpoint.sweep(self.manner.idle_timeout));
        let originals = self.originals.borrow();
        originals.values().for_each(|endpoint| endpoint.sweep(self.manner.idle_timeout));
    }

    async fn lives(&self, endpoint: &Endpoint) -> bool {
        let timeout = self.health.as_ref().map_or(TIMEOUT, |health| health.timeout.0);
        let path = self.health.as_ref().and_then(|health| health.path.as_deref());
        match path {
            None => {
                let connecting = TcpStream::connect((endpoint.host.as_str(), endpoint.port));
                matches!(tokio::time::timeout(timeout, connecting).await, Ok(Ok(_)))
            }
            Some(path) => {
                let answer = tokio::time::timeout(timeout, self.ask(endpoint, path)).await;
                matches!(answer, Ok(Ok(status)) if status.is_success() || status.is_redirection())
            }
        }
    }

    /// Asks by a connection of its own, which is closed again.
    async fn ask(&self, endpoint: &Endpoint, path: &str) -> anyhow::Result<StatusCode> {
        let wants_http2 = self.manner.protocol == Protocol::Http2;
        let sender = endpoint.connect(&self.manner, &self.sockets, wants_http2).await?;
        let host = format!("{}:{}", endpoint.host, endpoint.port);
        let request = Request::get(path).header(HOST, host).body(Passing::empty())?;
        let sent = send_by(sender, request).await;
        let (response, _) = sent.map_err(|_| anyhow::anyhow!("no answer"))?;
        Ok(response.status())
    }
}
