//! QUIC as a link uses it: encryption, both ends' certificates, and datagrams; nothing else of it decides.
//!
//! Its congestion control lets everything pass, for the link paces each path; it finds no path's MTU, for every
//! path carries our packets; and its acknowledgements, which nobody waits for, are few.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::{Controller, ControllerFactory};
use quinn::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use quinn::{
    AckFrequencyConfig, ConnectionError, ConnectionId, ConnectionIdGenerator, EndpointConfig,
    IdleTimeout, TransportConfig, VarInt,
};
use ring::rand::SystemRandom;
use rustls::pki_types::CertificateDer;

use super::protocols;
use super::wire::Met;

/// More than any path has in flight; above 4 GiB quinn does not pace either.
const WINDOW: u64 = 1 << 40;
/// What every path carries: QUIC's own minimum, which IPv6 carries everywhere.
const MTU: u16 = 1200;
/// A path without a word for so long is given up and dialed again: the far end may have lost what it knew
/// of us. Core has left the path long before, and comes back to it by itself if it returns earlier.
const IDLE: Duration = Duration::from_secs(20);
/// An idle connection says a word this often: NATs forget after 30 s, and two words may be lost.
const KEEPALIVE: Duration = Duration::from_secs(6);
/// QUIC acknowledges so many packets at once, or after this time: the link has its own acknowledgements.
const ACKED_PACKETS: u32 = 64;
const ACK_DELAY: Duration = Duration::from_millis(250);
/// Datagrams that wait for the task of a path or of the socket; beyond, the oldest go.
const BUFFER: usize = 4 << 20;
/// The same where nodes dial in, who make us hold it: of what they send, and of our acknowledgements.
const BUFFERS_HERE: (usize, usize) = (512 << 10, 64 << 10);
/// What a connection that was dialed from elsewhere may make us hold.
pub(crate) const ROOM: usize = BUFFERS_HERE.0 + BUFFERS_HERE.1;
/// Bytes that may come of a connection before it is taken; and of all that are not taken.
const INCOMING_BYTES: (u64, u64) = (16 << 10, 1 << 20);
/// Length of connection identifiers.
const ID_LENGTH: usize = 8;
/// Handshakes at a time.
const INCOMING_MAX: usize = 256;

/// A controller that controls nothing.
#[derive(Clone, Copy, Debug)]
struct Open;

impl Controller for Open {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        WINDOW
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Open)
    }

    fn initial_window(&self) -> u64 {
        WINDOW
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ControllerFactory for Open {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(Open)
    }
}

/// Random names of connections. Quinn's own ones tell the names that another process gave, and are silent
/// to them: the far end of an earlier life would never hear that it is over.
#[derive(Clone, Copy, Debug)]
struct RandomIds;

impl ConnectionIdGenerator for RandomIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let random = ring::rand::generate::<[u8; ID_LENGTH]>(&SystemRandom::new());
        ConnectionId::new(&random.expect("the system has randomness").expose())
    }

    fn cid_len(&self) -> usize {
        ID_LENGTH
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn transport((receive, send): (usize, usize)) -> Arc<TransportConfig> {
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(ACKED_PACKETS.into())
        .max_ack_delay(Some(ACK_DELAY))
        .reordering_threshold(ACKED_PACKETS.into());
    let mut transport = TransportConfig::default();
    transport
        .congestion_controller_factory(Arc::new(Open))
        .initial_mtu(MTU)
        .min_mtu(MTU)
        .mtu_discovery_config(None)
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
        .keep_alive_interval(Some(KEEPALIVE))
        .datagram_receive_buffer_size(Some(receive))
        .datagram_send_buffer_size(send)
        .ack_frequency_config(Some(acks));
    Arc::new(transport)
}

/// What dialing needs.
///
/// # Errors
/// The TLS cannot do what QUIC needs, in words.
pub(crate) fn client(tls: &rustls::ClientConfig) -> Result<quinn::ClientConfig, String> {
    let mut tls = tls.clone();
    tls.alpn_protocols = protocols();
    let crypto = QuicClientConfig::try_from(tls).map_err(|error| error.to_string())?;
    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport((BUFFER, BUFFER)));
    Ok(config)
}

/// What listening needs. `secret` is the same after a restart: by it connections of an earlier life are
/// told at once that it is over.
///
/// # Errors
/// The TLS cannot do what QUIC needs, in words.
pub(crate) fn server(
    tls: &rustls::ServerConfig,
    secret: &[u8],
) -> Result<(quinn::ServerConfig, EndpointConfig), String> {
    let mut tls = tls.clone();
    tls.alpn_protocols = protocols();
    let crypto = QuicServerConfig::try_from(tls).map_err(|error| error.to_string())?;
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    config
        .transport_config(transport(BUFFERS_HERE))
        .max_incoming(INCOMING_MAX)
        .incoming_buffer_size(INCOMING_BYTES.0)
        .incoming_buffer_size_total(INCOMING_BYTES.1);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    let mut endpoint = EndpointConfig::new(Arc::new(key));
    endpoint.cid_generator(|| Box::new(RandomIds));
    Ok((config, endpoint))
}

/// Who the far end has proved to be.
pub(crate) fn met(connection: &quinn::Connection) -> Met {
    let chain = connection.peer_identity();
    let chain = chain.and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
    let agreed = connection.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
    let protocol = agreed.and_then(|agreed| agreed.protocol);
    Met::new(chain.and_then(|chain| chain.first().cloned()), protocol.as_deref())
}

/// Why a connection failed, in our words where ours say what to do.
pub(crate) fn explain(error: &ConnectionError) -> String {
    /// QUIC's number of TLS alert 0.
    const ALERTS: u64 = 0x100;
    let (code, is_ours) = match error {
        ConnectionError::TransportError(error) => (u64::from(error.code), true),
        ConnectionError::ConnectionClosed(close) => (u64::from(close.error_code), false),
        ConnectionError::ApplicationClosed(close) => {
            return format!("the far end says: {}", String::from_utf8_lossy(&close.reason));
        }
        ConnectionError::TimedOut => return "the far end does not answer".into(),
        ConnectionError::Reset => return "the far end has restarted".into(),
        other => return other.to_string(),
    };
    let words = match (code.checked_sub(ALERTS), is_ours) {
        (Some(48), true) => {
            "the certificate of the far end is not from an authority that is trusted here (ca)"
        }
        (Some(42 | 45 | 46), true) => {
            "the certificate of the far end is for another name, has expired, or is damaged"
        }
        (Some(42 | 46 | 48), false) => {
            "the far end does not trust the authority of our certificate"
        }
        (Some(45), false) => "the far end says that our certificate has expired",
        (Some(116), false) => "the far end wants a certificate: give certificate and key",
        (Some(120), _) => "the far end speaks QUIC, but not the protocol of a link",
        _ => return error.to_string(),
    };
    words.into()
}
