//! What an orchestrator answers over HTTP: `/metrics`, `/healthz`, and `/readyz` where it leads.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Response, StatusCode};

use super::hub::Hub;
use crate::observe::http::{Answers, text, typed};
use crate::observe::metrics::orchestrator::encode;

/// The answers. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct HubSite(pub(super) Hub);

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
