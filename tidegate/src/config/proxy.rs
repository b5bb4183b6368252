//! `[proxy]`: an HTTP sidecar, for `tidegate proxy`.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_types::limits::{OUTPUTS_MAX, RULES_MAX};
use tidegate_types::units::{Rate, Size};

use super::units::{BitRate, ByteSize, Listen, OutputRate, Period};
use super::{Network, TlsConfig};
use crate::keys::table::{choices, keys};
use crate::support::tls::ClientFiles;

/// What a listener is called where it has no name.
const CLIENTS: &str = "clients";

keys! {
    /// `[proxy]`.
    pub struct ProxyConfig {
        /// A file that gets a line for each request; "-" is standard output. Default: none.
        pub access_log: Option<PathBuf>; sample("/var/log/tidegate/access.log") restarts(),
        /// What a line is.
        pub access_format: AccessFormat = AccessFormat::Text; restarts(),
        /// Threads that speak with clients and upstreams. Default: as many as there are processors.
        pub threads: Option<u32>; sample("2") between(1, 256, "is no number of threads: give as many as there are processors") restarts(),
        /// Where requests come from.
        pub listener: Vec<ProxyListenerConfig> = Vec::new(),
        /// Where requests go.
        pub upstream: Vec<UpstreamConfig> = Vec::new(),
        /// Which requests go where; the first that fits wins. Default: everything to the first upstream.
        pub route: Vec<RouteConfig> = Vec::new(),
    }
}

choices! {
    /// `access_format` of `[proxy]`.
    pub enum AccessFormat: Copy, Eq {
        /// For people.
        Text = "text",
        /// A JSON object a line.
        Json = "json",
    }
}

keys! {
    /// `[[proxy.listener]]`: where requests come from.
    pub struct ProxyListenerConfig {
        /// What routes call it by.
        pub name: Option<String>; usually(CLIENTS.to_owned()),
        /// One address or a list.
        pub listen: Option<Listen>; required() sample("127.0.0.1:8080"),
        /// How connections come here.
        pub mode: ListenMode = ListenMode::Explicit,
        /// TLS, as an MQTT listener has it. Default: none.
        pub tls: Option<TlsConfig>;
            sample(r#"{ certificate = "/etc/tidegate/pki/proxy.pem", key = "/etc/tidegate/pki/proxy.key" }"#),
        /// The upstream where connections go whose client begins with something else than HTTP; their bytes pass as they
        /// are. Not with tls. Default: such a client gets 400.
        pub other: Option<String>; apart("app"),
        /// What responses take of the way back. Default: no bound.
        pub rate: Option<BitRate>;
            sample("100mbit") above_zero("nothing could be answered: give a rate, or leave it out"),
        /// How long a client may take for the head of a request, from its first byte.
        pub header_timeout: Period = Period(Duration::from_secs(10));
            above_zero("no client is that fast: give at least \"1s\""),
        /// How long a connection without a request is kept.
        pub keep_alive: Period = Period(Duration::from_secs(75));
            above_zero("no client is that fast: give at least \"1s\""),
        /// How long a client may stop in the middle of a body; then 408. Answered gRPC may be silent.
        pub body_timeout: Period = Period(Duration::from_secs(60));
            above_zero("no client is that fast: give at least \"1s\""),
        /// How long a client may read nothing of its answer.
        pub write_timeout: Period = Period(Duration::from_secs(60));
            above_zero("no client is that fast: give at least \"1s\""),
        /// How long nothing may pass on a connection that was upgraded.
        pub tunnel_timeout: Period = Period(Duration::from_secs(3600));
            above_zero("no client is that fast: give at least \"1s\""),
        /// How often a client of HTTP/2 is asked whether it is there.
        pub ping: Period = Period(Duration::from_secs(30));
            above_zero("no client is that fast: give at least \"1s\""),
        /// Requests of one HTTP/2 connection at once.
        pub streams: u32 = 100; at_least(1, "nothing could be asked"),
        /// Addresses of proxies in front of this one, whose x-forwarded-proto is kept. Default: none.
        pub trusted: Vec<Network> = Vec::new(); sample(r#"["10.0.0.0/8"]"#),
    }
}

impl ProxyListenerConfig {
    /// The given name, or `clients`.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(CLIENTS)
    }
}

choices! {
    /// `mode` of a `[[proxy.listener]]`.
    pub enum ListenMode: Copy, Eq {
        /// Clients know the proxy.
        Explicit = "explicit",
        /// Connections to others are led here by iptables' REDIRECT.
        Redirect = "redirect",
        /// Connections to others are led here by TPROXY.
        Tproxy = "tproxy",
    }
}

keys! {
    /// `[[proxy.upstream]]`: where requests go.
    pub struct UpstreamConfig {
        /// What routes and scripts call it by.
        pub name: Option<String>; required() sample("app"),
        /// Hosts and ports, used in turn; or ["original"]: where the client wanted to go.
        pub to: Vec<String> = Vec::new(); required() sample(r#"["10.0.0.7:80"]"#),
        /// Which HTTP it speaks.
        pub protocol: Protocol = Protocol::Auto,
        /// TLS to it; certificate and key where it wants to see them. Default: none.
        pub tls: Option<FarTlsConfig>;
            sample(r#"{ ca = "/etc/ssl/certs/ca-certificates.crt", name = "app.example" }"#),
        /// What its uplink carries: "18mbit", or "auto" to find it. Default: requests are not paced.
        pub rate: Option<OutputRate>;
            sample("auto") above_zero("nothing could be sent: give a rate, or leave it out"),
        /// Requests without an answer at once; more wait.
        pub in_flight: u32 = 1024; at_least(1, "nothing could be sent"),
        /// How long connecting may take.
        pub connect_timeout: Period = Period(Duration::from_secs(2));
            above_zero("nothing is that fast: give at least \"10ms\""),
        /// How long an idle connection is kept.
        pub idle_timeout: Period = Period(Duration::from_secs(60));
            above_zero("nothing is that fast: give at least \"10ms\""),
        /// How it is asked whether it lives; without a path by connecting. Default: after a connection failed.
        pub health: Option<HealthConfig>;
            sample(r#"{ path = "/healthz", every = "5s", timeout = "1s" }"#),
    }
}

impl UpstreamConfig {
    /// Its name, or nothing.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Whether it is wherever the client wanted to go.
    pub fn is_original(&self) -> bool {
        self.to.iter().any(|to| to == ORIGINAL)
    }

    /// The rate at which it is paced, if it is.
    pub fn cap(&self) -> Option<Rate> {
        self.rate.as_ref().and_then(|rate| rate.cap())
    }
}

/// `to` of an upstream that is wherever the client wanted to go.
pub const ORIGINAL: &str = "original";

choices! {
    /// `protocol` of a `[[proxy.upstream]]`.
    pub enum Protocol: Copy, Eq {
        /// As TLS agrees on; without TLS HTTP/2 for gRPC and HTTP/1.1 for everything else.
        Auto = "auto",
        /// HTTP/1.1.
        Http1 = "http1",
        /// HTTP/2.
        Http2 = "http2",
    }
}

keys! {
    /// `tls` of a `[[proxy.upstream]]`.
    pub struct FarTlsConfig {
        /// PEM file with the authorities of which one must have signed the far end's certificate.
        pub ca: Option<PathBuf>; required(),
        /// The name that the certificate must have. Default: the host of the address.
        pub name: Option<String>,
        /// PEM file with a certificate of our own, where the far end wants to see one.
        pub certificate: Option<PathBuf>,
        /// PEM file with its private key.
        pub key: Option<PathBuf>,
    }
}

impl FarTlsConfig {
    /// The files, if those that it needs are given.
    pub fn files(&self) -> Option<ClientFiles> {
        let own = self.certificate.clone().zip(self.key.clone());
        Some(ClientFiles { ca: self.ca.clone()?, own })
    }
}

keys! {
    /// `health` of a `[[proxy.upstream]]`.
    pub struct HealthConfig {
        /// What is asked for. Default: connecting is enough.
        pub path: Option<String>,
        /// How often.
        pub every: Period = Period(Duration::from_secs(5));
            above_zero("too short: give at least \"100ms\""),
        /// How long an answer may take.
        pub timeout: Period = Period(Duration::from_secs(1));
            above_zero("too short: give at least \"100ms\""),
    }
}

keys! {
    /// `[[proxy.route]]`: which requests go where, and what is promised to them.
    pub struct RouteConfig {
        /// Label in metrics and log. Default: the upstream's name.
        pub name: Option<String>; sample("app"),
        /// Listeners. Default: all.
        pub listener: Vec<String> = Vec::new(); sample(r#"["clients"]"#),
        /// Host names. Default: all.
        pub host: Vec<String> = Vec::new(); sample(r#"["app.example", "*.app.example"]"#),
        /// What the path begins with. Default: anything.
        pub path: Option<String>; sample("/"),
        /// The upstream. Default: the first.
        pub to: Option<String>; sample("app"),
        /// The [[script]] that sees its requests and responses.
        pub script: Option<String>; apart("shed"),
        /// Whether messages wait in queues at all.
        pub queue: bool = true,
        /// Bound on the wait, by which messages are put in order. This or class.
        pub latency: Option<Period>; sample("50ms"),
        /// The class whose bound it has. Default: the last.
        pub class: Option<String>; apart("ls"),
        /// How long a message waits at most; then 504.
        pub wait: Period = Period(Duration::from_secs(10));
            above_zero("nothing is that fast: give at least \"10ms\""),
        /// How long an upstream may take for a response's head; then 504.
        pub timeout: Period = Period(Duration::from_secs(60));
            above_zero("nothing is that fast: give at least \"10ms\""),
        /// Messages that wait at once; more are answered 503.
        pub waiting: u32 = 1024; at_least(1, "no message could come"),
        /// Bytes of messages of each client that wait.
        pub memory: ByteSize = ByteSize(Size::from_mib(16)),
        /// Bodies up to this are part of a message that a script sees; others stream.
        pub message_max: ByteSize = ByteSize(Size::from_kib(256));
            at_most(ByteSize(Size::from_mib(64)), "a larger message should stream"),
        /// Which of these are part of the message.
        pub body: BodyMode = BodyMode::Length,
        /// What becomes of a request whose upstream is down.
        pub down: WhenDown = WhenDown::Refuse,
        /// Status that answers a message that a script dropped.
        pub dropped: u16 = 503;
            between(200, 599, "is no status of an answer: give 503, 429 or 204"),
        /// What a connection may become where client and upstream agree; never "h2c".
        pub upgrades: Vec<String> = vec!["websocket".to_owned()],
    }
}

impl RouteConfig {
    /// The given name, or that of its upstream, or `default`.
    pub fn label(&self) -> &str {
        self.name.as_deref().or(self.to.as_deref()).unwrap_or("default")
    }
}

choices! {
    /// `body` of a `[[proxy.route]]`.
    pub enum BodyMode: Copy, Eq {
        /// Those whose length is told and fits.
        Length = "length",
        /// All that fit, to their end.
        Whole = "whole",
        /// None: a message is its head.
        Head = "head",
    }
}

choices! {
    /// `down` of a `[[proxy.route]]`.
    pub enum WhenDown: Copy, Eq {
        /// It is refused with 503 at once, unless its script sends it elsewhere.
        Refuse = "refuse",
        /// It waits.
        Wait = "wait",
    }
}

impl ProxyConfig {
    /// Whether there are more routes, upstreams and listeners than a proxy can have, and what is.
    ///
    /// # Errors
    /// The text says it.
    pub fn check_counts(&self) -> Result<(), String> {
        let (listeners, upstreams) = (self.listener.len(), self.upstream.len());
        if listeners + upstreams > OUTPUTS_MAX {
            return Err(format!(
                "{listeners} listeners and {upstreams} upstreams: together at most {OUTPUTS_MAX}"
            ));
        }
        let rules = self.route.len().max(1) * (1 + listeners);
        if rules > RULES_MAX {
            let most = RULES_MAX / (1 + listeners);
            return Err(format!(
                "{} routes: with {listeners} listeners at most {most}",
                self.route.len()
            ));
        }
        Ok(())
    }
}
