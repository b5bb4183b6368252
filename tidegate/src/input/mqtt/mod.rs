//! An MQTT server for publishers: 3.1.1 and 5, QoS 0 and 1.
//!
//! [`session`] is the protocol without a socket, [`connection`] the loop around one socket, [`listener`]
//! accepts and knows who is connected. A record is acknowledged when the node has accepted it, never
//! earlier; while the node has no room, the socket is not read.

mod connection;
mod listener;
mod login;
mod publish;
mod session;

use std::net::SocketAddr;

pub use listener::{BindError, MqttListener, bind};
pub use session::fuzz;

/// What a listener promises to its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttOptions {
    /// Addresses to listen on, IPv4 and IPv6.
    pub listen: Vec<SocketAddr>,
    /// Largest packet, in bytes.
    pub packet_max: u32,
    /// QoS 1 records of one client that may be unanswered at once.
    pub receive_max: u16,
    /// Clients connected at once.
    pub connections_max: usize,
}

impl Default for MqttOptions {
    /// Loopback only; packets of 1 MiB, 1,024 unanswered records, 20,000 clients.
    fn default() -> Self {
        let listen =
            vec![([127, 0, 0, 1], 1883).into(), (std::net::Ipv6Addr::LOCALHOST, 1883).into()];
        MqttOptions { listen, packet_max: 1024 * 1024, receive_max: 1024, connections_max: 20_000 }
    }
}
