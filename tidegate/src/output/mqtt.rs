//! MQTT 5 to another broker, or to another node: a QoS 1 publisher.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use rmqtt_codec::types::{Publish, QoS};
use rmqtt_codec::v5::{
    Codec, Connect, ConnectAckReason, Packet, PublishAckReason, PublishProperties,
};
use tidegate_core::io::Refusal;
use tidegate_core::record::{Body, DeliveryId, DropReason};
use tidegate_core::units::Time;
use tokio_util::codec::{Decoder, Encoder};

use super::headers;
use super::protocol::{Heartbeat, Protocol, ProtocolError, Verdicts};
use crate::port::Transmit;

/// Keepalive: a dead broker is noticed within twice this.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Largest packet that we read: a broker has nothing long to say to a publisher.
const PACKET_MAX: u32 = 64 * 1024;

/// Where and how to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttOptions {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Client identifier; each lane adds its number.
    pub client_id: String,
    /// User name.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<String>,
    /// Names of the classes, for the property.
    pub classes: Arc<[Arc<str>]>,
}

/// The state of one connection after the other.
#[derive(Debug)]
pub struct Session {
    options: MqttOptions,
    lane: u8,
    codec: Codec,
    is_ready: bool,
    /// How many records the broker takes unacknowledged.
    receive_max: usize,
    packet_max: usize,
    last_id: u16,
    unconfirmed: BTreeMap<u16, DeliveryId>,
    heartbeat: Heartbeat,
}

impl Session {
    /// A client that has not connected yet.
    pub fn new(options: MqttOptions, lane: u8) -> Self {
        Session {
            options,
            lane,
            codec: Codec::new(PACKET_MAX, 0),
            is_ready: false,
            receive_max: usize::from(u16::MAX),
            packet_max: usize::MAX,
            last_id: 0,
            unconfirmed: BTreeMap::new(),
            heartbeat: Heartbeat::new(Time::ZERO, Duration::ZERO),
        }
    }

    fn packet(&mut self, packet: Packet, verdicts: &mut Verdicts) -> Result<(), ProtocolError> {
        match packet {
            Packet::ConnectAck(answer) if !self.is_ready => {
                if answer.reason_code != ConnectAckReason::Success {
                    return Err(ProtocolError::Refused(answer.reason_code.reason().into()));
                }
                if answer.max_qos == QoS::AtMostOnce {
                    return Err(ProtocolError::Refused("it takes no QoS 1".into()));
                }
                self.receive_max = usize::from(answer.receive_max.get());
                self.packet_max = answer.max_packet_size.map_or(usize::MAX, |size| size as usize);
                self.is_ready = true;
            }
            Packet::PublishAck(ack) if self.is_ready => {
                if let Some(id) = self.unconfirmed.remove(&ack.packet_id.get()) {
                    match verdict(ack.reason_code) {
                        None => verdicts.confirmed.push(id),
                        Some(refusal) => verdicts.refused.push((id, refusal)),
                    }
                }
            }
            Packet::PingResponse => {}
            Packet::Disconnect(bye) => {
                return Err(ProtocolError::Closed(format!("{:?}", bye.reason_code)));
            }
            other => {
                let what = format!("packet type {:#x}", other.packet_type());
                return Err(ProtocolError::Malformed { protocol: "MQTT 5", what });
            }
        }
        Ok(())
    }

    /// An identifier that no record under way has; the receive maximum leaves one.
    fn free_id(&mut self) -> NonZeroU16 {
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            if let Some(id) = NonZeroU16::new(self.last_id)
                && !self.unconfirmed.contains_key(&id.get())
            {
                return id;
            }
        }
    }

    fn push(&mut self, packet: Packet, out: &mut BytesMut) {
        // The codec refuses only packets above a size that we do not set.
        let encoded = self.codec.encode(packet, out);
        debug_assert!(encoded.is_ok(), "a packet of ours is well-formed");
    }
}

/// What a PUBACK's reason means for the record; `None`: it has arrived.
fn verdict(reason: PublishAckReason) -> Option<Refusal> {
    match reason {
        PublishAckReason::Success | PublishAckReason::NoMatchingSubscribers => None,
        PublishAckReason::QuotaExceeded => Some(Refusal::Retry),
        _ => Some(Refusal::Final(DropReason::Refused)),
    }
}

impl Protocol for Session {
    fn connect(&mut self, now: Time, out: &mut BytesMut) {
        *self = Session::new(self.options.clone(), self.lane);
        self.heartbeat = Heartbeat::new(now, KEEP_ALIVE);
        let connect = Connect {
            clean_start: true,
            keep_alive: (KEEP_ALIVE.as_secs() * 2) as u16,
            client_id: format!("{}-{}", self.options.client_id, self.lane).into(),
            username: self.options.user.clone().map(ByteString::from),
            password: self.options.password.clone().map(Bytes::from),
            ..Connect::default()
        };
        self.push(Packet::Connect(Box::new(connect)), out);
    }

    fn receive(
        &mut self,
        now: Time,
        input: &mut BytesMut,
        _out: &mut BytesMut,
        verdicts: &mut Verdicts,
    ) -> Result<(), ProtocolError> {
        self.heartbeat.heard(now);
        let malformed = |error: rmqtt_codec::error::DecodeError| ProtocolError::Malformed {
            protocol: "MQTT 5",
            what: error.to_string(),
        };
        while let Some((packet, _)) = self.codec.decode(input).map_err(malformed)? {
            self.packet(packet, verdicts)?;
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn may_send(&self) -> bool {
        self.is_ready && self.unconfirmed.len() < self.receive_max
    }

    fn encode(&mut self, order: &Transmit) -> Result<Bytes, DropReason> {
        let record = &*order.record;
        let Body::Resident(payload) = &record.body else { return Err(DropReason::Unprepared) };
        let topic = ByteString::try_from(record.key.clone()).map_err(|_| DropReason::Refused)?;
        let class = &self.options.classes[order.class.index()];
        let text = |(name, value): (String, String)| (name.into(), value.into());
        let user_properties =
            headers::of(record, class, order.again).into_iter().map(text).collect();
        let id = self.free_id();
        let publish = Publish {
            dup: order.again,
            retain: false,
            qos: QoS::AtLeastOnce,
            topic,
            packet_id: Some(id),
            payload: payload.clone(),
            properties: Some(PublishProperties { user_properties, ..Default::default() }),
        };
        let mut out = BytesMut::with_capacity(payload.len() + 512);
        self.push(Packet::Publish(Box::new(publish)), &mut out);
        if out.is_empty() || out.len() > self.packet_max {
            return Err(DropReason::Oversize);
        }
        self.unconfirmed.insert(id.get(), order.id);
        Ok(out.freeze())
    }

    fn wrote(&mut self, now: Time) {
        self.heartbeat.said(now);
    }

    fn tick(&mut self, now: Time, out: &mut BytesMut) -> Result<(), ProtocolError> {
        if self.heartbeat.is_due(now)? {
            self.push(Packet::PingRequest, out);
            self.heartbeat.said(now);
        }
        Ok(())
    }

    fn next_timeout(&self) -> Option<Time> {
        self.heartbeat.next_timeout()
    }

    fn close(&mut self, out: &mut BytesMut) {
        self.push(Packet::Disconnect(Default::default()), out);
    }
}

/// Takes arbitrary bytes from a broker: for fuzzing. Nothing they say may panic or grow memory.
pub fn fuzz(bytes: &[u8]) {
    let options = MqttOptions {
        host: String::new(),
        port: 0,
        client_id: "fuzz".into(),
        user: None,
        password: None,
        classes: [].into(),
    };
    let mut session = Session::new(options, 0);
    let (mut input, mut out) = (BytesMut::new(), BytesMut::new());
    session.connect(Time::ZERO, &mut out);
    for part in bytes.chunks(97) {
        input.extend_from_slice(part);
        let mut verdicts = Verdicts::default();
        if session.receive(Time::ZERO, &mut input, &mut out, &mut verdicts).is_err() {
            return;
        }
        assert!(verdicts.confirmed.is_empty(), "nothing was sent that could be confirmed");
    }
}
