//! Metrics of a proxy: only of one. What waits, and for how long, is told by the node's own: a route is a
//! stream, its responses another one, an upstream is an output.

use super::Metric;
use super::text::{NONE, Text};
use crate::services::proxy::ProxyFigures;

pub(super) const REQUESTS: Metric = Metric::counter(
    "tidegate_proxy_requests_total",
    "Counts a request when its exchange is over, by route and first digit of the status; 4 where the \
     client went away before there was one.",
);
pub(super) const BROKEN: Metric = Metric::counter(
    "tidegate_proxy_broken_requests_total",
    "Counts a request whose response did not reach its end: either side went away.",
);
pub(super) const CLIENTS: Metric =
    Metric::gauge("tidegate_proxy_connections", "Connections of clients that are open.");
pub(super) const ACCEPTED: Metric = Metric::counter(
    "tidegate_proxy_accepted_connections_total",
    "Counts a connection of a client when it is accepted.",
);
pub(super) const TURNED_AWAY: Metric = Metric::counter(
    "tidegate_proxy_turned_away_connections_total",
    "Counts a connection that had no place, or was idle and made room for another.",
);
pub(super) const INFORMATIONAL: Metric = Metric::counter(
    "tidegate_proxy_informational_responses_total",
    "Counts an interim response (103) of an upstream by HTTP/1.1: it goes no further.",
);
pub(super) const OPENED: Metric = Metric::counter(
    "tidegate_proxy_upstream_connections_total",
    "Counts a connection to an upstream when it is made.",
);
pub(super) const FAILED: Metric = Metric::counter(
    "tidegate_proxy_upstream_failures_total",
    "Counts a connection to an upstream that could not be made.",
);

/// Adds all of them.
pub(super) fn encode(figures: Option<&ProxyFigures>, text: &mut Text) {
    let Some(figures) = figures else { return };
    const CLASSES: [&str; 6] = ["0xx", "1xx", "2xx", "3xx", "4xx", "5xx"];
    text.head(REQUESTS);
    for (route, by_class, _) in &figures.routes {
        for (class, count) in CLASSES.iter().zip(by_class).skip(1) {
            text.sample(REQUESTS.name, &[("route", route), ("status", class)], *count as f64);
        }
    }
    text.head(BROKEN);
    for (route, _, broken) in &figures.routes {
        text.sample(BROKEN.name, &[("route", route)], *broken as f64);
    }
    text.family(CLIENTS, [(NONE, figures.connections as f64)]);
    text.family(ACCEPTED, [(NONE, figures.accepted as f64)]);
    text.family(TURNED_AWAY, [(NONE, figures.turned_away as f64)]);
    text.family(INFORMATIONAL, [(NONE, figures.informational as f64)]);
    text.head(OPENED);
    for (upstream, opened, _) in &figures.upstreams {
        text.sample(OPENED.name, &[("upstream", upstream)], *opened as f64);
    }
    text.head(FAILED);
    for (upstream, _, failed) in &figures.upstreams {
        text.sample(FAILED.name, &[("upstream", upstream)], *failed as f64);
    }
}
