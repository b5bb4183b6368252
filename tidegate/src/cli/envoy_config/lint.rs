//! Looks for what would defeat the queues in a configuration of Envoy, or in manifests that hold parts of one.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::write::seconds;
use super::yaml;
use crate::services::proxy::envoy::head::UPSTREAM;
use crate::services::proxy::envoy::needs::Needs;

/// What a filter's type ends with.
const EXT_PROC: &str = "envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor";
const MANAGER: &str =
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
/// Envoy's own bound on requests of a cluster that are under way.
const REQUESTS_MAX: u64 = 1024;

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether queues or scripts do not work with it; else it is a choice to be made on purpose.
    pub is_error: bool,
    /// Where, as in `static_resources.listeners[0]`.
    pub path: String,
    /// What is wrong and what would be right.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_error { "error" } else { "warning" };
        write!(f, "{kind}: {}: {}", self.path, self.text)
    }
}

/// Everything that is found in a text: YAML, of one document or many, or JSON.
///
/// # Errors
/// It is none of them.
pub fn lint(text: &str, needs: &Needs) -> anyhow::Result<Vec<Finding>> {
    let documents = yaml::documents(text)?;
    let mut look = Look { needs, found: Vec::new(), filters: 0, routes: 0, clusters: Vec::new() };
    for document in &documents {
        look.at(document, String::new());
    }
    look.finish(&documents);
    Ok(look.found)
}

struct Look<'a> {
    needs: &'a Needs,
    found: Vec<Finding>,
    filters: u32,
    /// Routes whose cluster is the one that a header names.
    routes: u32,
    /// Clusters of processors, with the place of their filter.
    clusters: Vec<(String, String)>,
}

impl Look<'_> {
    fn at(&mut self, value: &Value, path: String) {
        match value {
            Value::Object(all) => {
                let kind = all.get("@type").and_then(Value::as_str).unwrap_or_default();
                if kind.ends_with(EXT_PROC) {
                    self.filters += 1;
                    self.filter(value, &path);
                }
                if kind.ends_with(MANAGER) {
                    self.manager(value, &path);
                }
                let by = all.get("cluster_header").or_else(|| all.get("clusterHeader"));
                self.routes += u32::from(by.and_then(Value::as_str) == Some(UPSTREAM));
                for (name, value) in all {
                    let path =
                        if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    self.at(value, path);
                }
            }
            Value::Array(all) => {
                for (place, value) in all.iter().enumerate() {
                    self.at(value, format!("{path}[{place}]"));
                }
            }
            _ => {}
        }
    }

    fn error(&mut self, path: &str, text: impl Into<String>) {
        self.found.push(Finding { is_error: true, path: path.to_owned(), text: text.into() });
    }

    fn warning(&mut self, path: &str, text: impl Into<String>) {
        self.found.push(Finding { is_error: false, path: path.to_owned(), text: text.into() });
    }

    fn filter(&mut self, filter: &Value, path: &str) {
        self.times(filter, path);
        let is_on = |name| field(filter, name).and_then(Value::as_bool) == Some(true);
        if is_on("observability_mode") {
            self.error(path, "observability_mode holds nothing: take it out");
        }
        if is_on("disable_immediate_response") {
            self.error(
                path,
                "disable_immediate_response: what a script drops would go on: take it out",
            );
        }
        if is_on("failure_mode_allow") {
            let text = "failure_mode_allow: what the processor does not answer in time passes the \
                        queues, and nobody hears of it: set it to false, unless you want this";
            self.warning(path, text);
        }
        let retains = field(filter, "route_cache_action").and_then(Value::as_str) == Some("RETAIN");
        if is_on("disable_clear_route_cache") || retains {
            self.error(path, "the route is kept, so that redirect() has no effect: take it out");
        }
        self.modes(field(filter, "processing_mode").unwrap_or(&Value::Null), path);
        let rules = field(filter, "mutation_rules").unwrap_or(&Value::Null);
        if field(rules, "disallow_all").and_then(Value::as_bool) == Some(true) {
            self.error(path, "mutation_rules: disallow_all: no script can change a header");
        } else if field(rules, "allow_all_routing").and_then(Value::as_bool) != Some(true) {
            let text = "what scripts change of :method and :authority is left out: add \
                        mutation_rules: {allow_all_routing: true}";
            self.warning(path, text);
        }
        if field(filter, "forward_rules").is_some() {
            self.warning(
                path,
                "forward_rules: scripts and routes see only the headers that it lets by",
            );
        }
        let grpc = field(filter, "grpc_service").unwrap_or(&Value::Null);
        let cluster = field(grpc, "envoy_grpc").and_then(|grpc| field(grpc, "cluster_name"));
        if let Some(cluster) = cluster.and_then(Value::as_str) {
            self.clusters.push((cluster.to_owned(), path.to_owned()));
        }
    }

    fn times(&mut self, filter: &Value, path: &str) {
        let (wait, right) = (self.needs.wait, seconds(self.needs.message_timeout));
        let given = field(filter, "message_timeout").and_then(duration);
        let text = match given {
            None => "no message_timeout: Envoy's own is 200 ms".to_owned(),
            Some(given) if given <= wait => format!("message_timeout is {}", seconds(given)),
            Some(_) => String::new(),
        };
        if !text.is_empty() {
            let text = format!(
                "{text}, and messages wait for up to {}: those would be answered with 504, or pass the \
                 queues: write message_timeout: {right}",
                seconds(wait)
            );
            self.error(path, text);
        }
        let grpc = field(filter, "grpc_service").unwrap_or(&Value::Null);
        let whole = field(grpc, "timeout").and_then(duration).filter(|whole| !whole.is_zero());
        if let Some(whole) = whole {
            let text = format!(
                "grpc_service.timeout ends a stream after {}, and its exchange with it: write timeout: 0s",
                seconds(whole)
            );
            self.error(path, text);
        }
    }

    fn modes(&mut self, mode: &Value, path: &str) {
        let told =
            |name: &str| field(mode, name).and_then(Value::as_str).unwrap_or_default().to_owned();
        if told("request_header_mode") == "SKIP" {
            self.error(path, "request_header_mode: SKIP: no request would wait: write SEND");
        }
        if told("response_header_mode") == "SKIP" {
            let text = "response_header_mode: SKIP: nobody hears that a request was answered, so that \
                        in_flight and avgLatency() mean nothing: write SEND";
            self.error(path, text);
        }
        for (side, name) in ["request", "response"].into_iter().enumerate() {
            let body = told(&format!("{name}_body_mode"));
            let trailers = told(&format!("{name}_trailer_mode"));
            match body.as_str() {
                "" | "NONE" | "STREAMED" | "GRPC" if self.needs.bodies[side] => {
                    let text = format!(
                        "{name}_body_mode: scripts would not see bodies: write BUFFERED_PARTIAL, or \
                         FULL_DUPLEX_STREAMED for long ones"
                    );
                    self.error(path, text);
                }
                "BUFFERED" => {
                    let text = format!(
                        "{name}_body_mode: BUFFERED answers bodies that are longer than \
                         per_connection_buffer_limit_bytes (1 MiB) with 413: BUFFERED_PARTIAL lets them pass"
                    );
                    self.warning(path, text);
                }
                "FULL_DUPLEX_STREAMED" if trailers != "SEND" => {
                    let text = format!("{name}_body_mode needs {name}_trailer_mode: SEND");
                    self.error(path, text);
                }
                _ => {}
            }
        }
    }

    fn manager(&mut self, manager: &Value, path: &str) {
        let wait = self.needs.wait;
        for name in ["request_timeout", "stream_idle_timeout"] {
            let given = field(manager, name).and_then(duration).filter(|given| !given.is_zero());
            if let Some(given) = given.filter(|given| *given <= wait) {
                let text = format!(
                    "{name} is {}, and messages wait for up to {}: make it longer, or 0s",
                    seconds(given),
                    seconds(wait)
                );
                self.error(path, text);
            }
        }
    }

    fn finish(&mut self, documents: &[Value]) {
        if self.filters == 0 {
            self.error(
                "http_filters",
                format!("no filter {EXT_PROC}: nothing comes to the processor"),
            );
            return;
        }
        if self.routes == 0 && self.needs.can_redirect() {
            let text = format!(
                "no route has cluster_header: {UPSTREAM}: redirect() has no effect, unless other routes \
                 look at that header"
            );
            self.warning("routes", text);
        }
        for (name, _) in std::mem::take(&mut self.clusters) {
            let mut found = None;
            documents.iter().for_each(|document| find_cluster(document, &name, &mut found));
            let Some(cluster) = found else { continue };
            let most = most_requests(&cluster);
            if most <= self.needs.waiting {
                let text = format!(
                    "{most} messages may wait at once, Envoy refuses more: the configuration lets {} wait: \
                     raise circuit_breakers max_requests",
                    self.needs.waiting
                );
                self.warning(&format!("cluster {name}"), text);
            }
        }
    }
}

/// The cluster of this name, wherever it stands.
fn find_cluster(value: &Value, name: &str, found: &mut Option<Value>) {
    match value {
        Value::Object(all) => {
            let is_it = all.get("name").and_then(Value::as_str) == Some(name);
            if is_it && (all.contains_key("load_assignment") || all.contains_key("type")) {
                *found = Some(value.clone());
            }
            all.values().for_each(|value| find_cluster(value, name, found));
        }
        Value::Array(all) => all.iter().for_each(|value| find_cluster(value, name, found)),
        _ => {}
    }
}

fn most_requests(cluster: &Value) -> u64 {
    let breakers = field(cluster, "circuit_breakers").unwrap_or(&Value::Null);
    let thresholds = field(breakers, "thresholds").and_then(Value::as_array);
    let given = thresholds.into_iter().flatten().filter_map(|one| field(one, "max_requests"));
    given.filter_map(Value::as_u64).max().unwrap_or(REQUESTS_MAX)
}

/// A field by its name, or by the one that JSON of Protocol Buffers gives it.
fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    if let Some(found) = value.get(name) {
        return Some(found);
    }
    let mut camel = String::new();
    for (place, word) in name.split('_').enumerate() {
        let (first, rest) = word.split_at(word.len().min(1));
        camel.push_str(&if place == 0 { first.to_owned() } else { first.to_uppercase() });
        camel.push_str(rest);
    }
    value.get(&camel)
}

/// `"1.5s"`; what is none is taken for none.
fn duration(value: &Value) -> Option<Duration> {
    let seconds: f64 = value.as_str()?.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}
