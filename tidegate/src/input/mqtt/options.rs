//! What can be chosen for an MQTT input.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;

use super::clients::Clients;
use super::session::Refused;
use super::websocket::WebSocketOptions;
use crate::keys::network::Network;
use crate::support::access::{Access, Quotas};
use crate::support::tls::{self, Callers};

/// What a listener speaks, in the words of ALPN: MQTT's own name, and that of devices that are made for a cloud; by
/// WebSocket the HTTP that begins it.
const ALPN: &[&str] = &["mqtt", "x-amzn-mqtt-ca"];
const ALPN_WEB: &[&str] = &["http/1.1"];

/// Options of one MQTT input.
#[derive(Clone, Debug)]
pub struct MqttOptions {
    /// Addresses to listen on.
    pub listen: Vec<SocketAddr>,
    /// TLS, if clients must speak it.
    pub tls: Option<Arc<ServerConfig>>,
    /// Whose certificates it believes, if it asks for any.
    pub callers: Option<Callers>,
    /// From where connections come that begin with the PROXY protocol: load balancers.
    pub proxies: Vec<Network>,
    /// WebSocket, if clients must speak it.
    pub websocket: Option<WebSocketOptions>,
    /// Who may come in, and what they may publish.
    pub access: Arc<Access>,
    /// What one user may have.
    pub quotas: Arc<Quotas>,
    /// Largest packet taken from a client, in bytes, fixed header included. Announced to MQTT 5
    /// clients.
    pub max_packet_size: u32,
    /// Publishes with QoS 1 or 2 that one client may have unanswered. Announced to MQTT 5 clients, which are
    /// disconnected beyond it; clients of older versions are not read until answers come.
    pub receive_maximum: u16,
    /// Topic aliases that one client may define (MQTT 5).
    pub topic_alias_maximum: u16,
    /// Connections at a time; more are closed at once.
    pub connections_max: usize,
    /// Who speaks for which client id: one table for all inputs of a node.
    pub clients: Arc<Clients>,
    /// Sessions that are kept while their clients are away; who has most of them makes room.
    pub sessions_max: usize,
    /// How long at most. Announced to MQTT 5 clients that ask for more; a whole number of seconds.
    pub session_expiry_max: Duration,
    /// Longest keepalive that MQTT 5 clients may have, in whole seconds; zero is no bound.
    pub keepalive_max: Duration,
    /// What a client before MQTT 5 hears of a publish that is refused.
    pub refused: Refused,
    /// How long a new connection may take until its client is let in: TLS, CONNECT, password.
    pub connect_timeout: Duration,
    /// How long a client that wanted no keepalive may be silent; zero is for ever.
    pub idle_timeout: Duration,
    /// How long a packet that is larger than 8 KiB may take while others wait for its room.
    pub packet_timeout: Duration,
    /// How long a client may refuse to read what it was answered.
    pub write_timeout: Duration,
    /// How long a stop waits for the answers to publishes that were already offered, and a newer connection
    /// for what the older one of its client has received.
    pub stop_grace: Duration,
}

impl MqttOptions {
    /// Smallest and largest `max_packet_size`: a useful CONNECT, and what the standard can express.
    pub const PACKET_SIZES: std::ops::RangeInclusive<u32> = 128..=268_435_460;

    /// The same, whose TLS agrees on what it speaks (ALPN).
    pub(super) fn speaking(mut self) -> Self {
        let protocols = if self.websocket.is_some() { ALPN_WEB } else { ALPN };
        self.tls = self.tls.map(|config| tls::speaking(config, protocols));
        self
    }

    /// The defaults for these addresses.
    pub fn new(listen: Vec<SocketAddr>) -> Self {
        MqttOptions {
            listen,
            tls: None,
            callers: None,
            proxies: Vec::new(),
            websocket: None,
            access: Arc::default(),
            quotas: Arc::default(),
            clients: Arc::new(Clients::new()),
            max_packet_size: 1024 * 1024,
            receive_maximum: 1024,
            topic_alias_maximum: 16,
            connections_max: 20_000,
            sessions_max: 10_000,
            session_expiry_max: Duration::from_secs(24 * 3600),
            keepalive_max: Duration::ZERO,
            refused: Refused::Close,
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::ZERO,
            packet_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            stop_grace: Duration::from_secs(1),
        }
    }
}
