//! The first packet of a connection: which version, who, and what it asks for.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use rmqtt_codec::types::QoS;
use rmqtt_codec::version::{ProtocolVersion, VersionCodec};
use rmqtt_codec::{v3, v5};
use tokio_util::codec::{Decoder, Encoder};

use super::MqttOptions;
use super::session::Fault;

/// Topic aliases that a client may use.
pub(super) const ALIASES_MAX: u16 = 32;
/// Largest CONNECT: nobody needs more before we know who it is.
const CONNECT_MAX: usize = 64 * 1024;

/// The codec of the version that the client speaks.
#[derive(Debug)]
pub(super) enum Wire {
    V3(v3::Codec),
    V5(v5::Codec),
}

/// What a client says of itself.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) wire: Wire,
    /// What its streams are called by.
    pub(super) client_id: Arc<str>,
    /// Whether we gave it the name.
    pub(super) is_named_by_us: bool,
    /// Silence after which it is taken for dead; zero for never.
    pub(super) keep_alive: Duration,
    pub(super) will: Option<Will>,
}

/// A record to publish when the client dies.
#[derive(Clone, Debug)]
pub(super) struct Will {
    pub(super) topic: ByteString,
    pub(super) payload: Bytes,
}

impl Login {
    /// Reads the CONNECT; `None` until all of it is there. A client without a name is called
    /// `fresh_name`.
    pub(super) fn read(
        options: &MqttOptions,
        input: &mut BytesMut,
        fresh_name: &str,
    ) -> Result<Option<Login>, Fault> {
        if input.len() > CONNECT_MAX {
            return Err(Fault::new("a CONNECT of more than 64 KiB"));
        }
        let version =
            VersionCodec.decode(input).map_err(|error| Fault::login(error.to_string()))?;
        match version {
            None => Ok(None),
            Some(ProtocolVersion::MQTT3) => {
                let mut codec = v3::Codec::new(options.packet_max);
                let packet =
                    codec.decode(input).map_err(|error| Fault::login(error.to_string()))?;
                let Some((packet, _)) = packet else { return Ok(None) };
                let v3::Packet::Connect(connect) = packet else {
                    return Err(Fault::new("the first packet is no CONNECT"));
                };
                Login::v3(codec, *connect, fresh_name).map(Some)
            }
            Some(ProtocolVersion::MQTT5) => {
                let mut codec = v5::Codec::new(options.packet_max, 0);
                let packet =
                    codec.decode(input).map_err(|error| Fault::login(error.to_string()))?;
                let Some((packet, _)) = packet else { return Ok(None) };
                let v5::Packet::Connect(connect) = packet else {
                    return Err(Fault::new("the first packet is no CONNECT"));
                };
                Ok(Some(Login::v5(codec, *connect, fresh_name)))
            }
        }
    }

    fn v3(codec: v3::Codec, connect: v3::Connect, fresh_name: &str) -> Result<Login, Fault> {
        if connect.client_id.is_empty() && !connect.clean_session {
            let refusal = v3::ConnectAckReason::IdentifierRejected;
            let ack = v3::ConnectAck { return_code: refusal, session_present: false };
            let mut reply = BytesMut::new();
            let _ = v3::Codec::new(0).encode(v3::Packet::ConnectAck(ack), &mut reply);
            return Err(Fault::with_reply(
                "a client without a name wants a lasting session",
                reply,
            ));
        }
        let will = connect.last_will.map(|will| Will { topic: will.topic, payload: will.message });
        let name = (connect.client_id, connect.keep_alive);
        Ok(Login::new(Wire::V3(codec), name, will, fresh_name))
    }

    fn v5(codec: v5::Codec, connect: v5::Connect, fresh_name: &str) -> Login {
        let will = connect.last_will.map(|will| Will { topic: will.topic, payload: will.message });
        let name = (connect.client_id, connect.keep_alive);
        Login::new(Wire::V5(codec), name, will, fresh_name)
    }

    fn new(
        wire: Wire,
        (client_id, keep_alive): (ByteString, u16),
        will: Option<Will>,
        fresh_name: &str,
    ) -> Login {
        let is_named_by_us = client_id.is_empty();
        let client_id = if is_named_by_us { fresh_name.into() } else { Arc::from(&*client_id) };
        let keep_alive = Duration::from_secs(keep_alive.into());
        Login { wire, client_id, is_named_by_us, keep_alive, will }
    }

    /// The CONNACK that lets it in and says what we offer.
    pub(super) fn accept(&mut self, options: &MqttOptions, out: &mut BytesMut) {
        let encoded = match &mut self.wire {
            Wire::V3(codec) => {
                let return_code = v3::ConnectAckReason::ConnectionAccepted;
                let ack = v3::ConnectAck { return_code, session_present: false };
                codec.encode(v3::Packet::ConnectAck(ack), out)
            }
            Wire::V5(codec) => {
                let ack = v5::ConnectAck {
                    receive_max: NonZeroU16::new(options.receive_max).unwrap_or(NonZeroU16::MIN),
                    max_qos: QoS::AtLeastOnce,
                    max_packet_size: Some(options.packet_max),
                    assigned_client_id: self.is_named_by_us.then(|| (&*self.client_id).into()),
                    topic_alias_max: ALIASES_MAX,
                    subscription_identifiers_available: false,
                    shared_subscription_available: false,
                    ..v5::ConnectAck::default()
                };
                codec.encode(v5::Packet::ConnectAck(Box::new(ack)), out)
            }
        };
        debug_assert!(encoded.is_ok(), "a packet of ours is well-formed");
    }
}
