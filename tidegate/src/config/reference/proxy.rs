//! `[proxy]` in the reference.

use crate::config::{HealthConfig, ProxyListenerConfig, RouteConfig, UpstreamConfig};
use crate::keys::reference::{File, quoted};

/// The sections: `tidegate run` does not look at them.
pub(super) fn proxy(file: &mut File) {
    file.section("[proxy]", "An HTTP sidecar, for `tidegate proxy` alone (docs/PROXY.md).");
    file.key(
        "access_log",
        "\"/var/log/tidegate/access.log\"",
        "A file that gets a line for each request; \"-\" is standard output. Default: none.",
    );
    file.key("access_format", "\"text\"", "What a line is: \"text\", or \"json\".");
    listener(file);
    upstream(file);
    route(file);
}

fn listener(file: &mut File) {
    let ProxyListenerConfig {
        header_timeout,
        keep_alive,
        body_timeout,
        write_timeout,
        tunnel_timeout,
        ping,
        streams,
        ..
    } = ProxyListenerConfig::default();
    file.section("[[proxy.listener]]", "Where requests come from.");
    file.key("name", "\"clients\"", "What routes call it by. Default: \"clients\".");
    file.key("listen", "\"127.0.0.1:8080\"", "One address or a list. Required.");
    file.key(
        "mode",
        "\"explicit\"",
        "\"explicit\": clients know it. \"redirect\", \"tproxy\": connections to others are led here.",
    );
    file.key(
        "tls",
        "{ certificate = \"/etc/tidegate/pki/proxy.pem\", key = \"/etc/tidegate/pki/proxy.key\" }",
        "TLS, as an MQTT listener has it. Default: none.",
    );
    file.key("rate", "\"100mbit\"", "What responses take of the way back. Default: no bound.");
    file.key(
        "header_timeout",
        &quoted(header_timeout),
        "How long a client may take for the head of a request, from its first byte.",
    );
    file.key("keep_alive", &quoted(keep_alive), "How long a connection without a request is kept.");
    file.key(
        "body_timeout",
        &quoted(body_timeout),
        "How long a client may stop in the middle of a body; then 408. Answered gRPC may be silent.",
    );
    file.key(
        "write_timeout",
        &quoted(write_timeout),
        "How long a client may read nothing of its answer.",
    );
    file.key(
        "tunnel_timeout",
        &quoted(tunnel_timeout),
        "How long nothing may pass on a connection that was upgraded.",
    );
    file.key("ping", &quoted(ping), "How often a client of HTTP/2 is asked whether it is there.");
    file.key("streams", &streams.to_string(), "Requests of one HTTP/2 connection at once.");
    file.key(
        "trusted",
        "[\"10.0.0.0/8\"]",
        "Addresses of proxies in front of this one, whose x-forwarded-proto is kept. Default: none.",
    );
}

fn upstream(file: &mut File) {
    let UpstreamConfig { in_flight, connect_timeout, idle_timeout, .. } = UpstreamConfig::default();
    let HealthConfig { every, timeout, .. } = HealthConfig::default();
    file.section("[[proxy.upstream]]", "Where requests go.");
    file.key("name", "\"app\"", "What routes and scripts call it by. Required.");
    file.key(
        "to",
        "[\"10.0.0.7:80\"]",
        "Hosts and ports, used in turn; or [\"original\"]: where the client wanted to go. Required.",
    );
    file.key(
        "protocol",
        "\"auto\"",
        "\"http1\", \"http2\", or \"auto\": as TLS agrees on; without TLS HTTP/2 for gRPC, else HTTP/1.1.",
    );
    file.key(
        "tls",
        "{ ca = \"/etc/ssl/certs/ca-certificates.crt\", name = \"app.example\" }",
        "TLS to it; certificate and key where it wants to see them. Default: none.",
    );
    file.key(
        "rate",
        "\"auto\"",
        "What its uplink carries: \"18mbit\", or \"auto\" to find it. Default: requests are not paced.",
    );
    file.key("in_flight", &in_flight.to_string(), "Requests without an answer at once; more wait.");
    file.key("connect_timeout", &quoted(connect_timeout), "How long connecting may take.");
    file.key("idle_timeout", &quoted(idle_timeout), "How long an idle connection is kept.");
    file.key(
        "health",
        &format!("{{ path = \"/healthz\", every = \"{every}\", timeout = \"{timeout}\" }}"),
        "How it is asked whether it lives; without a path by connecting. Default: after a connection failed.",
    );
}

fn route(file: &mut File) {
    let RouteConfig { wait, timeout, waiting, memory, message_max, dropped, .. } =
        RouteConfig::default();
    file.section(
        "[[proxy.route]]",
        "Which requests go where; the first that fits wins. Default: everything to the first upstream.",
    );
    file.key("name", "\"app\"", "Label in metrics and log. Default: the upstream's name.");
    file.key("listener", "[\"clients\"]", "Listeners. Default: all.");
    file.key("host", "[\"app.example\", \"*.app.example\"]", "Host names. Default: all.");
    file.key("path", "\"/\"", "What the path begins with. Default: anything.");
    file.key("to", "\"app\"", "The upstream. Default: the first.");
    file.note("script", "\"shed\"", "The [[script]] that sees its requests and responses.");
    file.key("queue", "true", "Whether messages wait in queues at all.");
    file.key(
        "latency",
        "\"50ms\"",
        "Bound on the wait, by which messages are put in order. This or class.",
    );
    file.note("class", "\"ls\"", "The class whose bound it has. Default: the last.");
    file.key("wait", &quoted(wait), "How long a message waits at most; then 504.");
    file.key(
        "timeout",
        &quoted(timeout),
        "How long an upstream may take for a response's head; then 504.",
    );
    file.key("waiting", &waiting.to_string(), "Messages that wait at once; more are answered 503.");
    file.key("memory", &quoted(memory), "Bytes of messages of each client that wait.");
    file.key(
        "message_max",
        &quoted(message_max),
        "Bodies up to this are part of a message that a script sees; others stream.",
    );
    file.key(
        "body",
        "\"length\"",
        "Which of these are: \"length\" (those that tell their length), \"whole\" (all, read to their end),\n\
         \"head\" (none).",
    );
    file.key("down", "\"refuse\"", "While the upstream is down: \"refuse\" with 503, or \"wait\".");
    file.key(
        "dropped",
        &dropped.to_string(),
        "Status that answers a message that a script dropped.",
    );
    file.key(
        "upgrades",
        "[\"websocket\"]",
        "What a connection may become where client and upstream agree; never \"h2c\".",
    );
}
