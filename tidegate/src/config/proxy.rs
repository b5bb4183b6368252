//! `[proxy]`: an HTTP sidecar, for `tidegate proxy`.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tidegate_types::limits::{OUTPUTS_MAX, RULES_MAX};
use tidegate_types::units::{Rate, Size};

use super::units::{BitRate, ByteSize, Listen, OutputRate, Period};
use super::{Network, TlsConfig};
use crate::support::tls::ClientFiles;

/// `[proxy]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProxyConfig {
    /// File that gets a line for each request.
    pub access_log: Option<PathBuf>,
    /// What such a line looks like.
    pub access_format: AccessFormat,
    /// Every `[[proxy.listener]]`.
    pub listener: Vec<ProxyListenerConfig>,
    /// Every `[[proxy.upstream]]`.
    pub upstream: Vec<UpstreamConfig>,
    /// Every `[[proxy.route]]`; the first that matches wins.
    pub route: Vec<RouteConfig>,
}

/// `access_format` of `[proxy]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessFormat {
    /// For people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// `[[proxy.listener]]`: where requests come from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProxyListenerConfig {
    /// What routes call it by.
    pub name: Option<String>,
    /// Where clients connect, or are led to.
    pub listen: Option<Listen>,
    /// How connections come here.
    pub mode: ListenMode,
    /// TLS, which all clients of this listener must then speak.
    pub tls: Option<TlsConfig>,
    /// What responses may take of the way back to the clients.
    pub rate: Option<BitRate>,
    /// How long a client may take for the head of a request, and TLS for its handshake.
    pub header_timeout: Period,
    /// How long a connection without a request is kept.
    pub keep_alive: Period,
    /// How long a client may stop in the middle of a body.
    pub body_timeout: Period,
    /// How long a client may read nothing of its answer.
    pub write_timeout: Period,
    /// How long nothing may pass on a connection that was upgraded.
    pub tunnel_timeout: Period,
    /// How often a client of HTTP/2 is asked whether it is there.
    pub ping: Period,
    /// Requests of one HTTP/2 connection at once.
    pub streams: u32,
    /// Proxies in front of this one: their `x-forwarded-proto` is kept.
    pub trusted: Vec<Network>,
}

impl Default for ProxyListenerConfig {
    fn default() -> Self {
        ProxyListenerConfig {
            name: None,
            listen: None,
            mode: ListenMode::Explicit,
            tls: None,
            rate: None,
            header_timeout: Period(Duration::from_secs(10)),
            keep_alive: Period(Duration::from_secs(75)),
            body_timeout: Period(Duration::from_secs(60)),
            write_timeout: Period(Duration::from_secs(60)),
            tunnel_timeout: Period(Duration::from_secs(3600)),
            ping: Period(Duration::from_secs(30)),
            streams: 100,
            trusted: Vec::new(),
        }
    }
}

impl ProxyListenerConfig {
    /// The given name, or `clients`.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or("clients")
    }
}

/// `mode` of a `[[proxy.listener]]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ListenMode {
    /// Clients know the proxy.
    #[default]
    Explicit,
    /// Connections to others are led here by iptables' REDIRECT.
    Redirect,
    /// Connections to others are led here by TPROXY.
    Tproxy,
}

/// `[[proxy.upstream]]`: where requests go.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamConfig {
    /// What routes and scripts call it by.
    pub name: Option<String>,
    /// Hosts and ports, used in turn; or `original`, where the client wanted to go.
    pub to: Vec<String>,
    /// Which HTTP it speaks.
    pub protocol: Protocol,
    /// TLS to it.
    pub tls: Option<FarTlsConfig>,
    /// What its uplink carries: left out, it is not paced.
    pub rate: Option<OutputRate>,
    /// Requests that may be unanswered at once; more wait.
    pub in_flight: u32,
    /// How long connecting may take, TLS with it.
    pub connect_timeout: Period,
    /// How long an idle connection is kept.
    pub idle_timeout: Period,
    /// How it is asked whether it lives.
    pub health: Option<HealthConfig>,
}

impl Default for UpstreamConfig {
    fn default() -> Self {
        UpstreamConfig {
            name: None,
            to: Vec::new(),
            protocol: Protocol::Auto,
            tls: None,
            rate: None,
            in_flight: 1024,
            connect_timeout: Period(Duration::from_secs(2)),
            idle_timeout: Period(Duration::from_secs(60)),
            health: None,
        }
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

/// `protocol` of a `[[proxy.upstream]]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// As TLS agrees on; without TLS HTTP/2 for gRPC and HTTP/1.1 for everything else.
    #[default]
    Auto,
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// `tls` of a `[[proxy.upstream]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FarTlsConfig {
    /// PEM file with the authorities of which one must have signed the far end's certificate.
    pub ca: Option<PathBuf>,
    /// The name that the certificate must have; the host of the address if left out.
    pub name: Option<String>,
    /// PEM file with a certificate of our own, where the far end wants to see one.
    pub certificate: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
}

impl FarTlsConfig {
    /// The files, if those that it needs are given.
    pub fn files(&self) -> Option<ClientFiles> {
        let own = self.certificate.clone().zip(self.key.clone());
        Some(ClientFiles { ca: self.ca.clone()?, own })
    }
}

/// `health` of a `[[proxy.upstream]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HealthConfig {
    /// What is asked for; connecting is enough if left out.
    pub path: Option<String>,
    /// How often.
    pub every: Period,
    /// How long an answer may take.
    pub timeout: Period,
}

impl Default for HealthConfig {
    fn default() -> Self {
        HealthConfig {
            path: None,
            every: Period(Duration::from_secs(5)),
            timeout: Period(Duration::from_secs(1)),
        }
    }
}

/// `[[proxy.route]]`: which requests go where, and what is promised to them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteConfig {
    /// Label in status, metrics and the access log; the upstream's name if left out.
    pub name: Option<String>,
    /// Listeners; all if left out.
    pub listener: Vec<String>,
    /// Host names, `*.example` for all below; all if left out.
    pub host: Vec<String>,
    /// What the path begins with.
    pub path: Option<String>,
    /// The upstream; the first one if left out.
    pub to: Option<String>,
    /// The script that sees its requests and responses.
    pub script: Option<String>,
    /// Whether its messages wait in queues at all.
    pub queue: bool,
    /// Bound on residence in the queue.
    pub latency: Option<Period>,
    /// The class whose bound it has; the last class if neither is given.
    pub class: Option<String>,
    /// How long a message may wait.
    pub wait: Period,
    /// How long the upstream may take for the head of its response.
    pub timeout: Period,
    /// Messages that may wait at once.
    pub waiting: u32,
    /// Bound on the bytes of waiting messages of one client.
    pub memory: ByteSize,
    /// Bodies up to this are part of the message.
    pub message_max: ByteSize,
    /// Which bodies are read before their message waits.
    pub body: BodyMode,
    /// What becomes of a request whose upstream is down.
    pub down: WhenDown,
    /// Status of a dropped message's answer.
    pub dropped: u16,
    /// What a connection may become where client and upstream agree.
    pub upgrades: Vec<String>,
}

impl Default for RouteConfig {
    fn default() -> Self {
        RouteConfig {
            name: None,
            listener: Vec::new(),
            host: Vec::new(),
            path: None,
            to: None,
            script: None,
            queue: true,
            latency: None,
            class: None,
            wait: Period(Duration::from_secs(10)),
            timeout: Period(Duration::from_secs(60)),
            waiting: 1024,
            memory: ByteSize(Size::from_mib(16)),
            message_max: ByteSize(Size::from_kib(256)),
            body: BodyMode::Length,
            down: WhenDown::Refuse,
            dropped: 503,
            upgrades: vec!["websocket".to_owned()],
        }
    }
}

impl RouteConfig {
    /// The given name, or that of its upstream, or `default`.
    pub fn label(&self) -> &str {
        self.name.as_deref().or(self.to.as_deref()).unwrap_or("default")
    }
}

/// `body` of a `[[proxy.route]]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BodyMode {
    /// Those whose length is told and fits.
    #[default]
    Length,
    /// All that fit, to their end.
    Whole,
    /// None: a message is its head.
    Head,
}

/// `down` of a `[[proxy.route]]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenDown {
    /// It is refused at once, unless its script sends it elsewhere.
    #[default]
    Refuse,
    /// It waits.
    Wait,
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
