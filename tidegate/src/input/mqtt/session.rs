//! A logged-in client, without its socket: packets in, records and answers out.

use std::collections::VecDeque;
use std::num::NonZeroU16;

use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;
use rmqtt_codec::types::{Publish, QoS};
use rmqtt_codec::v5::ToReasonCode;
use rmqtt_codec::{v3, v5};
use tidegate_core::record::{Offered, RefuseReason, SourceId, Token};
use tidegate_core::topic::is_topic;
use tidegate_core::units::Time;
use tokio_util::codec::{Decoder, Encoder};

use super::MqttOptions;
use super::login::{ALIASES_MAX, Login, Will, Wire};
use super::publish;

/// Why a connection is closed, what is said to the client, and what to the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub(super) struct Fault {
    what: String,
    /// Bytes to send before closing.
    pub(super) reply: BytesMut,
}

impl Fault {
    pub(super) fn new(what: &str) -> Self {
        Fault { what: what.into(), reply: BytesMut::new() }
    }

    pub(super) fn with_reply(what: &str, reply: BytesMut) -> Self {
        Fault { what: what.into(), reply }
    }

    /// A login that is not understood: there is no version to answer in.
    pub(super) fn login(error: String) -> Self {
        Fault::new(&format!("no MQTT login: {}", error.to_lowercase()))
    }
}

/// How a connection ends that has no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The client said goodbye; its will is void.
    Goodbye,
    /// The client said goodbye and wants its will published.
    GoodbyeWithWill,
}

/// What a batch of bytes meant.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Records, in order.
    pub(super) records: Vec<Offered>,
    /// Set where the client ends the connection.
    pub(super) ending: Option<Ending>,
}

/// A QoS 1 record that has no PUBACK yet.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    packet_id: NonZeroU16,
    answer: Option<Result<(), RefuseReason>>,
}

/// A client after its CONNECT.
#[derive(Debug)]
pub(super) struct Session {
    wire: Wire,
    source: SourceId,
    receive_max: usize,
    aliases: Vec<Option<Bytes>>,
    /// The topic of the last record: most clients publish to few, and a key is shared, not copied.
    last_topic: Bytes,
    /// In the order of their PUBLISH, which is the order of their PUBACK (MQTT 5.0, 4.6).
    unanswered: VecDeque<Unanswered>,
    /// Token of the first of them.
    first_token: u64,
    will: Option<Will>,
}

impl Session {
    pub(super) fn new(options: &MqttOptions, login: Login, source: SourceId) -> Self {
        Session {
            wire: login.wire,
            source,
            receive_max: usize::from(options.receive_max),
            aliases: Vec::new(),
            last_topic: Bytes::new(),
            unanswered: VecDeque::new(),
            first_token: 1,
            will: login.will,
        }
    }

    /// Whether another record may be taken: the client has an answer to come for fewer than it may.
    pub(super) fn may_read(&self) -> bool {
        self.unanswered.len() < self.receive_max
    }

    /// Takes whole packets off `input` until it is empty or too many records are unanswered.
    pub(super) fn receive(
        &mut self,
        now: Time,
        input: &mut BytesMut,
        out: &mut BytesMut,
        batch: &mut Batch,
    ) -> Result<(), Fault> {
        while self.may_read() && batch.ending.is_none() {
            let is_any = match &mut self.wire {
                Wire::V3(codec) => match codec.decode(input) {
                    Ok(Some((packet, _))) => self.packet_v3(now, packet, out, batch).map(|()| true),
                    Ok(None) => Ok(false),
                    Err(error) => Err(Fault::new(&error.to_string().to_lowercase())),
                },
                Wire::V5(codec) => match codec.decode(input) {
                    Ok(Some((packet, _))) => self.packet_v5(now, packet, out, batch).map(|()| true),
                    Ok(None) => Ok(false),
                    Err(error) => {
                        let what = error.to_string().to_lowercase();
                        Err(goodbye(&what, error.to_reason_code()))
                    }
                },
            };
            if !is_any? {
                break;
            }
        }
        Ok(())
    }

    fn packet_v3(
        &mut self,
        now: Time,
        packet: v3::Packet,
        out: &mut BytesMut,
        batch: &mut Batch,
    ) -> Result<(), Fault> {
        match packet {
            v3::Packet::Publish(publish) => {
                if publish.qos == QoS::ExactlyOnce {
                    return Err(Fault::new("QoS 2 is not offered here: publish with QoS 1"));
                }
                let key = self.key(&publish.topic).ok_or_else(|| {
                    Fault::new(&format!("{:?} is no topic to publish to", &*publish.topic))
                })?;
                self.record(now, key, *publish, batch);
            }
            v3::Packet::Subscribe { packet_id, topic_filters } => {
                // Nothing can be subscribed to yet: a failure for each filter is the honest answer.
                let status =
                    topic_filters.iter().map(|_| v3::SubscribeReturnCode::Failure).collect();
                self.push_v3(v3::Packet::SubscribeAck { packet_id, status }, out);
            }
            v3::Packet::Unsubscribe { packet_id, .. } => {
                self.push_v3(v3::Packet::UnsubscribeAck { packet_id }, out);
            }
            v3::Packet::PingRequest => self.push_v3(v3::Packet::PingResponse, out),
            v3::Packet::Disconnect => batch.ending = Some(Ending::Goodbye),
            other => return Err(unexpected(other.packet_type())),
        }
        Ok(())
    }

    fn packet_v5(
        &mut self,
        now: Time,
        packet: v5::Packet,
        out: &mut BytesMut,
        batch: &mut Batch,
    ) -> Result<(), Fault> {
        use v5::DisconnectReasonCode as Reason;
        match packet {
            v5::Packet::Publish(mut publish) => {
                if publish.qos == QoS::ExactlyOnce {
                    let what = "QoS 2 is not offered here: publish with QoS 1";
                    return Err(goodbye(what, Reason::QosNotSupported));
                }
                let key = self.aliased_key(&mut publish)?;
                self.record(now, key, *publish, batch);
            }
            v5::Packet::Subscribe(subscribe) => {
                let refused = v5::SubscribeAckReason::ImplementationSpecificError;
                let ack = v5::SubscribeAck {
                    packet_id: subscribe.packet_id,
                    properties: Vec::new(),
                    reason_string: Some("subscriptions are not offered here".into()),
                    status: subscribe.topic_filters.iter().map(|_| refused).collect(),
                };
                self.push_v5(v5::Packet::SubscribeAck(ack), out);
            }
            v5::Packet::Unsubscribe(unsubscribe) => {
                let absent = v5::UnsubscribeAckReason::NoSubscriptionExisted;
                let ack = v5::UnsubscribeAck {
                    packet_id: unsubscribe.packet_id,
                    properties: Vec::new(),
                    reason_string: None,
                    status: unsubscribe.topic_filters.iter().map(|_| absent).collect(),
                };
                self.push_v5(v5::Packet::UnsubscribeAck(ack), out);
            }
            v5::Packet::PingRequest => self.push_v5(v5::Packet::PingResponse, out),
            v5::Packet::Disconnect(bye) => {
                let wants_will = bye.reason_code == Reason::DisconnectWithWillMessage;
                let ending = if wants_will { Ending::GoodbyeWithWill } else { Ending::Goodbye };
                batch.ending = Some(ending);
            }
            other => {
                let what = unexpected(other.packet_type()).what;
                return Err(goodbye(&what, Reason::ProtocolError));
            }
        }
        Ok(())
    }

    /// The topic as a shared key; `None` where it is not one to publish to.
    fn key(&mut self, topic: &ByteString) -> Option<Bytes> {
        if self.last_topic == topic.as_bytes() && !topic.is_empty() {
            return Some(self.last_topic.clone());
        }
        is_topic(topic).then(|| {
            self.last_topic = Bytes::copy_from_slice(topic.as_bytes());
            self.last_topic.clone()
        })
    }

    /// The topic, or the one that its alias stands for (MQTT 5.0, 3.3.2.3.4).
    fn aliased_key(&mut self, publish: &mut Publish) -> Result<Bytes, Fault> {
        use v5::DisconnectReasonCode as Reason;
        let alias = publish.properties.as_mut().and_then(|given| given.topic_alias.take());
        let Some(alias) = alias else {
            let text = &publish.topic;
            let what = || format!("{:?} is no topic to publish to", &**text);
            return self.key(text).ok_or_else(|| goodbye(&what(), Reason::TopicNameInvalid));
        };
        let invalid = |what: &str| goodbye(what, Reason::TopicAliasInvalid);
        if alias.get() > ALIASES_MAX {
            return Err(invalid(&format!("topic alias {alias} is above {ALIASES_MAX}")));
        }
        let place = usize::from(alias.get() - 1);
        if self.aliases.len() <= place {
            self.aliases.resize(place + 1, None);
        }
        if publish.topic.is_empty() {
            let known = self.aliases[place].clone();
            return known.ok_or_else(|| invalid(&format!("topic alias {alias} was never set")));
        }
        let what = format!("{:?} is no topic to publish to", &*publish.topic);
        let key =
            self.key(&publish.topic).ok_or_else(|| goodbye(&what, Reason::TopicNameInvalid))?;
        self.aliases[place] = Some(key.clone());
        Ok(key)
    }

    fn record(&mut self, now: Time, key: Bytes, publish: Publish, batch: &mut Batch) {
        let token = publish.packet_id.map(|packet_id| {
            let token = Token(self.first_token + self.unanswered.len() as u64);
            self.unanswered.push_back(Unanswered { packet_id, answer: None });
            token
        });
        batch.records.push(publish::offered(self.source, token, key, publish, now));
    }

    /// The node's answer to a record; appends every PUBACK whose turn it is.
    pub(super) fn answered(
        &mut self,
        token: Token,
        answer: Result<(), RefuseReason>,
        out: &mut BytesMut,
    ) -> Result<(), Fault> {
        let place = token.0.wrapping_sub(self.first_token);
        if let Some(record) =
            usize::try_from(place).ok().and_then(|place| self.unanswered.get_mut(place))
        {
            record.answer = Some(answer);
        }
        while let Some(&Unanswered { packet_id, answer: Some(answer) }) = self.unanswered.front() {
            self.unanswered.pop_front();
            self.first_token += 1;
            self.acknowledge(packet_id, answer, out)?;
        }
        Ok(())
    }

    fn acknowledge(
        &mut self,
        packet_id: NonZeroU16,
        answer: Result<(), RefuseReason>,
        out: &mut BytesMut,
    ) -> Result<(), Fault> {
        let reason = match (answer, &self.wire) {
            (Ok(()), _) => {
                // Success is the same four bytes in both versions.
                out.put_slice(&[0x40, 2]);
                out.put_u16(packet_id.get());
                return Ok(());
            }
            (Err(reason), Wire::V3(_)) => {
                // 3.1.1 has no word for no: the record stays unacknowledged, and the client sends it
                // again when it comes back.
                return Err(Fault::new(&format!("a record was refused: {}", reason.name())));
            }
            (Err(reason), Wire::V5(_)) => reason,
        };
        let ack = v5::PublishAck {
            packet_id,
            reason_code: ack_reason(reason),
            properties: Vec::new(),
            reason_string: Some(reason.name().into()),
        };
        self.push_v5(v5::Packet::PublishAck(ack), out);
        Ok(())
    }

    /// The topic of the last record, for messages to people.
    pub(super) fn last_topic(&self) -> &str {
        std::str::from_utf8(&self.last_topic).unwrap_or_default()
    }

    /// The record to publish since the client died.
    pub(super) fn take_will(&mut self, now: Time) -> Option<Offered> {
        let will = self.will.take()?;
        let key = self.key(&will.topic)?;
        let publish = Publish {
            dup: false,
            retain: false,
            qos: QoS::AtMostOnce,
            topic: will.topic,
            packet_id: None,
            payload: will.payload,
            properties: None,
        };
        Some(publish::offered(self.source, None, key, publish, now))
    }

    /// What a version 5 client hears when we end the connection; 3.1.1 hears nothing.
    pub(super) fn farewell(&self, reason: v5::DisconnectReasonCode) -> BytesMut {
        match self.wire {
            Wire::V3(_) => BytesMut::new(),
            Wire::V5(_) => goodbye("", reason).reply,
        }
    }

    fn push_v3(&mut self, packet: v3::Packet, out: &mut BytesMut) {
        if let Wire::V3(codec) = &mut self.wire {
            let encoded = codec.encode(packet, out);
            debug_assert!(encoded.is_ok(), "a packet of ours is well-formed");
        }
    }

    fn push_v5(&mut self, packet: v5::Packet, out: &mut BytesMut) {
        if let Wire::V5(codec) = &mut self.wire {
            let encoded = codec.encode(packet, out);
            debug_assert!(encoded.is_ok(), "a packet of ours is well-formed");
        }
    }
}

fn unexpected(packet_type: u8) -> Fault {
    Fault::new(&format!("packet type {packet_type:#04x} is not expected from a client"))
}

/// A fault that a version 5 client is told.
fn goodbye(what: &str, reason: v5::DisconnectReasonCode) -> Fault {
    let mut reply = BytesMut::new();
    let packet = v5::Packet::Disconnect(v5::Disconnect::new(reason));
    let encoded = v5::Codec::new(0, 0).encode(packet, &mut reply);
    debug_assert!(encoded.is_ok(), "a packet of ours is well-formed");
    Fault::with_reply(what, reply)
}

fn ack_reason(reason: RefuseReason) -> v5::PublishAckReason {
    match reason {
        RefuseReason::Full | RefuseReason::TooManyStreams => v5::PublishAckReason::QuotaExceeded,
        RefuseReason::NoRule => v5::PublishAckReason::TopicNameInvalid,
        RefuseReason::Oversize => v5::PublishAckReason::ImplementationSpecificError,
        RefuseReason::Storage | RefuseReason::Stopping | RefuseReason::Dropped(_) => {
            v5::PublishAckReason::UnspecifiedError
        }
    }
}

/// Takes arbitrary bytes from a client: for fuzzing. They may close the connection, and nothing else.
pub fn fuzz(bytes: &[u8]) {
    let options = MqttOptions { packet_max: 4096, receive_max: 8, ..MqttOptions::default() };
    let (mut input, mut out) = (BytesMut::new(), BytesMut::new());
    let mut session: Option<Session> = None;
    for part in bytes.chunks(61) {
        input.extend_from_slice(part);
        let Some(session) = &mut session else {
            match Login::read(&options, &mut input, "fresh") {
                Ok(Some(login)) => session = Some(Session::new(&options, login, SourceId(0))),
                Ok(None) => {}
                Err(_) => return,
            }
            continue;
        };
        let mut batch = Batch::default();
        if session.receive(Time::ZERO, &mut input, &mut out, &mut batch).is_err() {
            return;
        }
        for record in batch.records {
            if let Some(token) = record.token
                && session.answered(token, Ok(()), &mut out).is_err()
            {
                return;
            }
        }
        assert!(session.may_read(), "every answer makes room");
    }
}
