//! Which route a request takes: the first whose listener, host and path fit.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use hyper::header::{HOST, HeaderValue};
use hyper::http::request::Parts;
use tidegate_node::io::OutputId;
use tidegate_node::rules::RuleId;

use super::counts::RouteCounts;
use crate::config::{BodyMode, WhenDown};

/// A route.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) name: String,
    pub(super) counts: Arc<RouteCounts>,
    /// Messages that wait.
    pub(super) waits: Arc<AtomicU32>,
    /// Listeners, by the output of their clients; all where there is none.
    pub(super) listeners: Vec<OutputId>,
    pub(super) hosts: Vec<String>,
    pub(super) path: String,
    pub(super) to: OutputId,
    /// The rule of its requests, and those of its responses to the clients of each listener.
    pub(super) requests: RuleId,
    pub(super) responses: Vec<(OutputId, RuleId)>,
    /// Whether requests and responses wait.
    pub(super) queues: [bool; 2],
    /// Whether a script sees them.
    pub(super) scripts: [bool; 2],
    pub(super) timeout: Duration,
    pub(super) waiting: u32,
    pub(super) message_max: u64,
    pub(super) body: BodyMode,
    pub(super) down: WhenDown,
    pub(super) dropped: u16,
    /// What connections may become.
    pub(super) upgrades: Vec<String>,
}

impl Route {
    /// The rule of responses to the clients of a listener.
    pub(super) fn responses_to(&self, listener: OutputId) -> Option<RuleId> {
        let found = self.responses.iter().find(|(to, _)| *to == listener);
        found.map(|(_, rule)| *rule)
    }

    fn fits(&self, listener: OutputId, parts: &Parts) -> bool {
        (self.listeners.is_empty() || self.listeners.contains(&listener))
            && parts.uri.path().starts_with(&self.path)
            && (self.hosts.is_empty()
                || self.hosts.iter().any(|host| is_host(host, host_of(parts))))
    }
}

/// The route that takes a request.
pub(super) fn find<'a>(
    routes: &'a [Arc<Route>],
    listener: OutputId,
    parts: &Parts,
) -> Option<&'a Arc<Route>> {
    routes.iter().find(|route| route.fits(listener, parts))
}

/// The host that a request is for, without its port. Where there are two they are the same (`target.rs`).
fn host_of(parts: &Parts) -> &str {
    if let Some(host) = parts.uri.host() {
        return host;
    }
    let host = parts.headers.get(HOST).map(HeaderValue::to_str);
    let host = host.and_then(Result::ok).unwrap_or_default();
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether a host is the one of a pattern, or below it.
fn is_host(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => {
            let at = host.len().saturating_sub(end.len());
            at > 0 && host.get(at..).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
        }
        None => host.eq_ignore_ascii_case(pattern),
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    #[test]
    fn hosts_fit_their_patterns() {
        for (pattern, host, fits) in [
            ("a.example", "A.example", true),
            ("a.example", "b.example", false),
            ("*.example", "a.b.example", true),
            ("*.example", "example", false),
            ("*.example", ".example", false),
        ] {
            assert_eq!(is_host(pattern, host), fits, "{pattern} {host}");
        }
    }

    #[test]
    fn a_port_is_no_part_of_the_host() {
        for (host, wanted) in [("a:80", "a"), ("a", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]")]
        {
            let (parts, ()) = Request::get("/").header("host", host).body(()).unwrap().into_parts();
            assert_eq!(host_of(&parts), wanted, "{host}");
        }
        // As Envoy tells it.
        let (parts, ()) = Request::get("http://a.example:80/").body(()).unwrap().into_parts();
        assert_eq!(host_of(&parts), "a.example");
    }
}
