//! What an orchestrator answers over HTTP: `/metrics`, `/healthz`, and `/readyz` where it leads.

use anyhow::Context;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Response, StatusCode};

use crate::config::HttpConfig;
use crate::observe::http::{Answers, serve, text, typed};
use crate::observe::metrics::orchestrator::encode;
use crate::services::fleet::orchestrate::{Hub, OrchestrateOptions, Orchestrating};

/// Starts an orchestrator, and what is read of it over HTTP where its options say where.
///
/// # Errors
/// An address cannot be listened on, or a file cannot be used. That etcd does not answer is none: it waits.
pub async fn start(options: OrchestrateOptions) -> anyhow::Result<Orchestrating> {
    let (http, hosts) = (options.http, options.http_hosts.clone());
    let mut running = crate::services::fleet::orchestrate::start(options).await?;
    if let Some(address) = http {
        let manner = (&HttpConfig { hosts, ..HttpConfig::default() }).into();
        let (bound, task) = serve(address, HubSite(running.hub().clone()), manner)
            .await
            .with_context(|| format!("cannot listen on {address} ([orchestrator] http)"))?;
        tracing::info!("metrics at http://{bound}/metrics");
        running.keep(task);
    }
    Ok(running)
}

/// The answers. Cheap to clone.
#[derive(Clone, Debug)]
struct HubSite(Hub);

impl Answers for HubSite {
    async fn answer(&self, path: &str) -> Response<Full<Bytes>> {
        if !["/healthz", "/readyz", "/metrics"].contains(&path) {
            return text(StatusCode::NOT_FOUND, "try /metrics, /healthz, /readyz\n");
        }
        let Ok(figures) = self.0.figures().await else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "the orchestrator is stopping\n");
        };
        match path {
            "/metrics" => typed("text/plain; version=0.0.4", encode(&figures)),
            "/readyz" if !figures.leads => {
                text(StatusCode::SERVICE_UNAVAILABLE, "it does not lead\n")
            }
            _ => text(StatusCode::OK, "alive\n"),
        }
    }
}
