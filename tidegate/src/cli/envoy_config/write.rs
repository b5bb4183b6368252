//! A whole configuration of an Envoy that stands alone.

use std::fmt::Write;
use std::time::Duration;

use crate::cli::envoy::EnvoyConfigArguments;
use crate::config::network::address;
use crate::config::{Protocol, UpstreamConfig};
use crate::services::proxy::envoy::head::UPSTREAM;
use crate::services::proxy::envoy::needs::Needs;

/// The cluster of the processor.
pub(super) const PROCESSOR: &str = "tidegate";
const EXTENSIONS: &str = "type.googleapis.com/envoy.extensions";

/// A duration as Envoy reads it.
pub(super) fn seconds(span: Duration) -> String {
    format!("{}s", span.as_secs_f64())
}

/// The external processor's filter, its lines indented by so many spaces.
pub(super) fn filter(needs: &Needs, cluster: &str, may_pass: bool, indent: usize) -> String {
    let (request, response) = (needs.mode(0), needs.mode(1));
    let timeout = seconds(needs.message_timeout);
    let text = format!(
        "\"@type\": {EXTENSIONS}.filters.http.ext_proc.v3.ExternalProcessor
grpc_service:
  envoy_grpc: {{cluster_name: {cluster}}}
  timeout: 0s                         # a stream lasts as long as its exchange
message_timeout: {timeout:<20} # longer than the longest wait of a route: the default, 200 ms, defeats a queue
failure_mode_allow: {may_pass:<17} # true: what no processor answers passes the queues, and nobody hears of it
processing_mode:
  request_header_mode: SEND
  response_header_mode: SEND          # tells that a request was answered
  request_body_mode: {request}
  response_body_mode: {response}
mutation_rules:
  allow_all_routing: true             # scripts may change :method and :authority
"
    );
    indented(&text, indent)
}

/// A cluster of the processor, its lines indented.
pub(super) fn processor(needs: &Needs, indent: usize) -> String {
    let (host, port) = (needs.processor.ip(), needs.processor.port());
    let host = if host.is_unspecified() { "127.0.0.1".to_owned() } else { host.to_string() };
    let text = format!(
        "name: {PROCESSOR}
type: STATIC
connect_timeout: 1s
typed_extension_protocol_options:
  envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
    \"@type\": {EXTENSIONS}.upstreams.http.v3.HttpProtocolOptions
    explicit_http_config: {{http2_protocol_options: {{max_concurrent_streams: 16384}}}}
circuit_breakers:
  thresholds: [{{max_requests: 65536, max_pending_requests: 65536}}]   # what waits is one request each
load_assignment:
  cluster_name: {PROCESSOR}
  endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: \"{host}\", port_value: {port}}}}}}}}}]}}]
"
    );
    indented(&text, indent)
}

pub(super) fn indented(text: &str, by: usize) -> String {
    let pad = " ".repeat(by);
    text.lines().map(|line| format!("{pad}{}\n", line.trim_end())).collect()
}

/// The whole file.
pub(super) fn render(needs: &Needs, arguments: &EnvoyConfigArguments) -> String {
    let (host, port) = (arguments.listen.ip(), arguments.listen.port());
    let timeout = seconds(needs.timeout);
    let original = needs.upstreams.iter().find(|upstream| upstream.is_original());
    let fallback = match original {
        Some(upstream) => format!("route: {{cluster: {}, timeout: {timeout}}}", upstream.label()),
        None => "direct_response: {status: 404}".to_owned(),
    };
    let listener_filters = match original {
        Some(_) => format!(
            "    listener_filters:\n    - name: envoy.filters.listener.original_dst\n      \
             typed_config: {{\"@type\": {EXTENSIONS}.filters.listener.original_dst.v3.OriginalDst}}\n"
        ),
        None => String::new(),
    };
    let filter = filter(needs, PROCESSOR, arguments.pass_when_absent, 14);
    let mut text = format!(
        "# Envoy in front of `tidegate ext-proc`. Written by `tidegate envoy-config`.
static_resources:
  listeners:
  - name: clients
    address: {{socket_address: {{address: \"{host}\", port_value: {port}}}}}
    per_connection_buffer_limit_bytes: {}   # bodies up to this are part of a message
{listener_filters}    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": {EXTENSIONS}.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: clients
          use_remote_address: true      # the processor has queues for each client
          request_timeout: 0s           # it would count the wait
          route_config:
            virtual_hosts:
            - name: all
              domains: [\"*\"]
              routes:
              - match: {{prefix: /, headers: [{{name: {UPSTREAM}, present_match: true}}]}}
                route: {{cluster_header: {UPSTREAM}, timeout: {timeout}}}
              - match: {{prefix: /}}
                {fallback}
          http_filters:
          - name: envoy.filters.http.ext_proc
            typed_config:
{filter}          - name: envoy.filters.http.router
            typed_config: {{\"@type\": {EXTENSIONS}.filters.http.router.v3.Router}}
  clusters:
  - {}",
        needs.buffer,
        processor(needs, 4).trim_start()
    );
    for upstream in &needs.upstreams {
        text.push_str(&cluster(upstream));
    }
    text
}

fn cluster(upstream: &UpstreamConfig) -> String {
    let name = upstream.label();
    let timeout = seconds(upstream.connect_timeout.0);
    let mut text = format!("  - name: {name}\n    connect_timeout: {timeout}\n");
    let protocols = match (upstream.protocol, &upstream.tls) {
        (Protocol::Http1, _) => "explicit_http_config: {http_protocol_options: {}}",
        (Protocol::Http2, _) => "explicit_http_config: {http2_protocol_options: {}}",
        (Protocol::Auto, Some(_)) => {
            "auto_config: {http_protocol_options: {}, http2_protocol_options: {}}"
        }
        (Protocol::Auto, None) => {
            "use_downstream_protocol_config: {http_protocol_options: {}, http2_protocol_options: {}}"
        }
    };
    let _ = write!(
        text,
        "    typed_extension_protocol_options:\n      \
         envoy.extensions.upstreams.http.v3.HttpProtocolOptions:\n        \
         \"@type\": {EXTENSIONS}.upstreams.http.v3.HttpProtocolOptions\n        {protocols}\n"
    );
    if let Some(tls) = &upstream.tls {
        let _ = write!(
            text,
            "    transport_socket:\n      name: envoy.transport_sockets.tls\n      typed_config:\n        \
             \"@type\": {EXTENSIONS}.transport_sockets.tls.v3.UpstreamTlsContext\n"
        );
        let host = upstream.to.iter().find_map(|to| address(to)).map(|(host, _)| host);
        if let Some(name) = tls.name.clone().or(host) {
            let _ = writeln!(text, "        sni: \"{name}\"");
        }
        let mut common = String::new();
        if let Some(ca) = &tls.ca {
            let _ = write!(
                common,
                "validation_context: {{trusted_ca: {{filename: {:?}}}}}",
                ca.display().to_string()
            );
        }
        if let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) {
            let _ = write!(
                common,
                ", tls_certificates: [{{certificate_chain: {{filename: {:?}}}, private_key: {{filename: {:?}}}}}]",
                certificate.display().to_string(),
                key.display().to_string()
            );
        }
        let _ = writeln!(text, "        common_tls_context: {{{common}}}");
    }
    if upstream.is_original() {
        text.push_str("    type: ORIGINAL_DST\n    lb_policy: CLUSTER_PROVIDED\n");
        return text;
    }
    let _ = write!(
        text,
        "    type: STRICT_DNS\n    load_assignment:\n      cluster_name: {name}\n      \
         endpoints:\n      - lb_endpoints:\n"
    );
    for (host, port) in upstream.to.iter().filter_map(|to| address(to)) {
        let _ = writeln!(
            text,
            "        - endpoint: {{address: {{socket_address: {{address: \"{host}\", port_value: {port}}}}}}}"
        );
    }
    text
}
