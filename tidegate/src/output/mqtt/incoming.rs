//! What a broker says to a publisher, in either version.

use std::fmt::Debug;

use bytes::BytesMut;
use rmqtt_codec::error::DecodeError;
use rmqtt_codec::types::QoS;
use rmqtt_codec::v5::{ConnectAckReason, DisconnectReasonCode, PublishAckReason};
use rmqtt_codec::{v3, v5};
use tidegate_core::io::Refusal;
use tidegate_core::record::DropReason;
use tokio_util::codec::Decoder;

use crate::output::protocol::{ProtocolError, words};

/// Largest packet that we read: a broker has nothing long to say to a publisher.
const PACKET_MAX: u32 = 64 * 1024;

/// Which MQTT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    V311,
    V5,
}

/// One thing that the broker said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The login is done.
    Welcome {
        /// Records that it takes unacknowledged.
        receive_max: usize,
        /// Largest packet that it takes.
        packet_max: usize,
        /// Its own idea of a keepalive, in seconds.
        keep_alive: Option<u16>,
    },
    /// It does not let us in, and why.
    Refused(String),
    /// It speaks 3.1.1 only.
    TooNew,
    /// A PUBACK: arrived, or not.
    Ack(u16, Option<Refusal>),
    /// A sign of life.
    Pong,
    /// It ends the connection, and why.
    Bye(String),
}

/// Takes packets off the wire.
#[derive(Debug)]
pub(super) enum Incoming {
    V311(v3::Codec),
    V5(v5::Codec),
}

impl Incoming {
    pub(super) fn new(version: Version) -> Self {
        match version {
            Version::V311 => Incoming::V311(v3::Codec::new(PACKET_MAX)),
            Version::V5 => Incoming::V5(v5::Codec::new(PACKET_MAX, 0)),
        }
    }

    /// Takes the first packet off `input`, once all of it is there.
    ///
    /// # Errors
    /// It is no packet that a broker sends to a publisher.
    pub(super) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Said>, ProtocolError> {
        match self {
            Incoming::V311(codec) => {
                codec.decode(input).map_err(broken)?.map(|(packet, _)| old(packet)).transpose()
            }
            Incoming::V5(codec) => {
                // An old broker answers in its own words: a CONNACK of two bytes.
                if let &[0x20, 2, _, code, ..] = &input[..] {
                    return Ok(Some(match code {
                        1 => Said::TooNew,
                        _ => Said::Refused(format!("return code {code} of MQTT 3.1.1")),
                    }));
                }
                codec.decode(input).map_err(broken)?.map(|(packet, _)| new(packet)).transpose()
            }
        }
    }
}

fn old(packet: v3::Packet) -> Result<Said, ProtocolError> {
    use v3::{ConnectAckReason as Reason, Packet};
    Ok(match packet {
        Packet::ConnectAck(answer) if answer.return_code == Reason::ConnectionAccepted => {
            Said::Welcome {
                receive_max: usize::from(u16::MAX),
                packet_max: usize::MAX,
                keep_alive: None,
            }
        }
        Packet::ConnectAck(answer) => Said::Refused(answer.return_code.reason().into()),
        Packet::PublishAck { packet_id } => Said::Ack(packet_id.get(), None),
        Packet::PingResponse => Said::Pong,
        other => return Err(unexpected(other.packet_type())),
    })
}

fn new(packet: v5::Packet) -> Result<Said, ProtocolError> {
    use v5::Packet;
    Ok(match packet {
        Packet::ConnectAck(answer) => match answer.reason_code {
            ConnectAckReason::Success if answer.max_qos == QoS::AtMostOnce => {
                Said::Refused("it takes no QoS 1".into())
            }
            ConnectAckReason::Success => Said::Welcome {
                receive_max: usize::from(answer.receive_max.get()),
                packet_max: answer.max_packet_size.map_or(usize::MAX, |size| size as usize),
                keep_alive: answer.server_keepalive_sec,
            },
            ConnectAckReason::UnsupportedProtocolVersion => Said::TooNew,
            reason => Said::Refused(explained(reason, answer.reason_string.as_deref())),
        },
        Packet::PublishAck(ack) => Said::Ack(ack.packet_id.get(), verdict(ack.reason_code)),
        Packet::PingResponse => Said::Pong,
        Packet::Disconnect(bye) => {
            let reason: DisconnectReasonCode = bye.reason_code;
            Said::Bye(explained(reason, bye.reason_string.as_deref()))
        }
        other => return Err(unexpected(other.packet_type())),
    })
}

/// What a PUBACK's reason means for the record; `None`: it has arrived.
fn verdict(reason: PublishAckReason) -> Option<Refusal> {
    match reason {
        PublishAckReason::Success | PublishAckReason::NoMatchingSubscribers => None,
        PublishAckReason::QuotaExceeded => Some(Refusal::Retry),
        _ => Some(Refusal::Final(DropReason::Refused)),
    }
}

fn explained(reason: impl Debug, text: Option<&str>) -> String {
    match text {
        Some(text) => format!("{reason:?}: {}", words(text)),
        None => format!("{reason:?}"),
    }
}

fn broken(error: DecodeError) -> ProtocolError {
    ProtocolError::Malformed { protocol: "MQTT", what: error.to_string() }
}

fn unexpected(kind: u8) -> ProtocolError {
    let what = format!("packet type {}, which no publisher expects", kind >> 4);
    ProtocolError::Malformed { protocol: "MQTT", what }
}
