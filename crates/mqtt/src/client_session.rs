//! The client's side of MQTT as a state machine without I/O: login, subscription, records in, and
//! acknowledgements out when the node has accepted them. It outlives its connections: what it remembers of
//! QoS 2 goes on with the broker's session.

mod error;
mod exercise;
mod step;

use bytes::Bytes;
use tidegate_types::hidden::Hidden;
use tidegate_types::record::{Offered, RefuseReason, SourceId, Token};
use tidegate_types::units::Time;

pub use self::error::ClientError;
pub use self::exercise::exercise;
pub use self::step::ClientStep;
use crate::client::{self as wire, Login};
use crate::frame::{ControlPacket, Front, front};
use crate::publish::Publish;
use crate::reader::FieldReader;
use crate::session::answers::{AckKind, Answers};
use crate::session::memory::{Memory, ReleaseOutcome};
use crate::session::record::Facts;
use crate::session::{BATCH_MAX, Effects, Nobody, SessionSubscriber};
use crate::topics::TopicMap;
use crate::{Version, Violation, control, property, write};

/// What we promise in CONNECT: something is heard from us at least this often.
const KEEPALIVE: u16 = 30;
/// The only SUBSCRIBE of a connection.
const SUBSCRIBE_ID: u16 = 1;
/// How long the broker keeps what comes while we are away: a long weekend.
pub const SESSION_EXPIRY: u32 = 7 * 24 * 3600;

/// What to subscribe, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Client identifier; the broker keeps the session under it.
    pub client_id: String,
    /// User name.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Hidden>,
    /// Topic filters, each with its QoS: 0, 1 or 2.
    pub topics: Vec<(String, u8)>,
    /// What their topics are called here.
    pub map: TopicMap,
    /// MQTT 5 or 3.1.1; `None` is 5, and 3.1.1 to a broker that knows no better.
    pub version: Option<Version>,
    /// Records that may be unacknowledged.
    pub receive_maximum: u16,
    /// Largest packet taken, in bytes.
    pub max_packet_size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    Connecting,
    /// The broker begins anew: the node must forget its last session before records come.
    Forgetting,
    Subscribing,
    Open,
}

/// The state of one client, connection after connection.
#[derive(Debug)]
pub struct ClientSession<S = Nobody> {
    options: Options,
    version: Version,
    source: SourceId,
    phase: Phase,
    keepalive: u16,
    answers: Answers<S>,
    /// Whether this process subscribed before: a session that is still there needs no more.
    has_subscribed: bool,
    last_topic: Bytes,
    dropped: Vec<RefuseReason>,
}

impl<S: SessionSubscriber> ClientSession<S> {
    /// A client that goes on with what is known of its session.
    pub fn new(options: Options, source: SourceId, memory: Memory<S>) -> Self {
        let mut answers = Answers::default();
        answers.resume(memory);
        let version = options.version.unwrap_or(Version::V5);
        ClientSession {
            options,
            version,
            source,
            phase: Phase::Closed,
            keepalive: KEEPALIVE,
            answers,
            has_subscribed: false,
            last_topic: Bytes::new(),
            dropped: Vec::new(),
        }
    }

    /// The connection ended: what it left unanswered is remembered.
    pub fn end(&mut self) {
        let memory = self.answers.leave();
        self.answers.resume(memory);
        self.phase = Phase::Closed;
    }

    /// The password from the next connection on.
    pub fn set_password(&mut self, password: Option<Hidden>) {
        self.options.password = password;
    }

    /// Begins a connection.
    pub fn connect(&mut self, out: &mut Vec<u8>) {
        self.end();
        self.phase = Phase::Connecting;
        let login = Login {
            version: self.version,
            client_id: &self.options.client_id,
            user: self.options.user.as_deref(),
            password: self.options.password.as_deref(),
            clean: false,
            keepalive: KEEPALIVE,
            session_expiry: SESSION_EXPIRY,
            receive_maximum: self.options.receive_maximum,
            maximum_packet_size: Some(self.options.max_packet_size),
        };
        wire::connect(out, &login);
    }

    /// Whether login and subscription are done.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Seconds in which something must be heard from us.
    pub fn keepalive(&self) -> u16 {
        self.keepalive
    }

    /// Whether nothing is received before an answer comes: brokers before MQTT 5 know no receive maximum.
    pub fn must_wait(&self) -> bool {
        self.answers.len() >= usize::from(self.options.receive_maximum)
    }

    /// Whether every record that was received is answered, and the broker told.
    pub fn is_settled(&self) -> bool {
        self.answers.len() == 0
    }

    /// Handles the packets at the front of `buffer`, read at `now`. Returns the bytes that are done with,
    /// and what is to be done next.
    ///
    /// # Errors
    /// The connection cannot go on.
    pub fn receive(
        &mut self,
        now: Time,
        buffer: &[u8],
        effects: &mut Effects,
    ) -> (usize, Result<ClientStep, ClientError>) {
        let mut done = 0;
        loop {
            if effects.records.len() >= BATCH_MAX {
                return (done, Ok(ClientStep::Offer));
            }
            if self.must_wait() {
                return (done, Ok(ClientStep::Wait));
            }
            let frame = match front(&buffer[done..], self.options.max_packet_size) {
                Ok(Front::Complete(frame)) => frame,
                Ok(Front::Partial(size)) => return (done, Ok(ClientStep::Read(size))),
                Err(violation) => return (done, Err(violation.into())),
            };
            done += frame.size;
            if let Err(trouble) = self.packet(now, frame, effects) {
                return (done, Err(trouble));
            }
        }
    }

    fn packet(
        &mut self,
        now: Time,
        frame: ControlPacket<'_>,
        effects: &mut Effects,
    ) -> Result<(), ClientError> {
        let body = frame.body;
        match (self.phase, frame.first >> 4, frame.first & 0x0F) {
            (Phase::Connecting, 2, 0) => self.welcomed(body, &mut effects.out)?,
            (Phase::Connecting | Phase::Closed, ..) => {
                return Err(Violation::protocol("a packet before the login is answered").into());
            }
            (Phase::Subscribing, 9, 0) => self.subscribed(body)?,
            // A session that is there sends before the subscription is answered.
            (_, 3, flags) => self.published(now, flags, body, effects)?,
            (_, 6, 2) => {
                let (id, _) = control::acknowledgement(self.version, body, control::RELEASED)?;
                match self.answers.memory.release(id) {
                    ReleaseOutcome::Done => effects.releases.push(id),
                    ReleaseOutcome::Again => {}
                    _ => write::unknown_released(&mut effects.out, self.version, id),
                }
            }
            (Phase::Forgetting, ..) => {
                return Err(Violation::protocol("a packet before the subscription").into());
            }
            (_, 13, 0) => {}
            (_, 14, 0) if self.version == Version::V5 => {
                return Err(ClientError::Farewell { code: wire::farewell(body)?.0 });
            }
            _ => return Err(Violation::protocol("a packet that was not expected").into()),
        }
        Ok(())
    }

    fn welcomed(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<(), ClientError> {
        let welcome = wire::welcome(self.version, body)?;
        if welcome.code != 0 {
            let is_too_new = matches!((welcome.is_old, welcome.code), (true, 1) | (false, 0x84));
            if is_too_new && self.version == Version::V5 && self.options.version.is_none() {
                self.version = Version::V311;
                return Err(ClientError::TooNew);
            }
            return Err(ClientError::Refused {
                code: welcome.code,
                words: welcome.words.unwrap_or_default().into(),
            });
        }
        self.keepalive = welcome.keepalive.filter(|&keepalive| keepalive > 0).unwrap_or(KEEPALIVE);
        if welcome.session_present && self.has_subscribed {
            self.phase = Phase::Open;
            return Ok(());
        }
        if !welcome.session_present {
            // The broker begins anew: an identifier that comes again is a new record.
            self.answers.memory.clear();
            self.phase = Phase::Forgetting;
            return Ok(());
        }
        self.subscribe(out);
        Ok(())
    }

    /// Whether the node must forget what it knows of the session.
    pub fn is_forgetting(&self) -> bool {
        self.phase == Phase::Forgetting
    }

    /// The node has forgotten it.
    pub fn forgotten(&mut self, out: &mut Vec<u8>) {
        if self.is_forgetting() {
            self.subscribe(out);
        }
    }

    fn subscribe(&mut self, out: &mut Vec<u8>) {
        self.phase = Phase::Subscribing;
        wire::subscribe(out, self.version, SUBSCRIBE_ID, &self.options.topics);
    }

    /// Answers PUBRELs: their identifiers are free.
    pub fn released(&mut self, ids: &[u16], out: &mut Vec<u8>) {
        for &id in ids {
            if self.answers.memory.released(id) {
                write::taken(out, write::PUBCOMP, id);
            }
        }
    }

    fn subscribed(&mut self, body: &[u8]) -> Result<(), ClientError> {
        let (_, codes) = wire::granted(self.version, body)?;
        let pairs = self.options.topics.iter().zip(codes);
        for ((topic, _), &code) in pairs {
            if code > 2 {
                return Err(ClientError::NotGranted { topic: topic.as_str().into(), code });
            }
        }
        self.has_subscribed = true;
        self.phase = Phase::Open;
        Ok(())
    }

    fn published(
        &mut self,
        now: Time,
        flags: u8,
        body: &[u8],
        effects: &mut Effects,
    ) -> Result<(), ClientError> {
        let publish = match Publish::read(self.version, flags, body) {
            Ok(publish) => publish,
            Err(violation) => return self.not_understood(flags, body, violation),
        };
        let facts = Facts::read(publish.properties, property::IN_DELIVERY, publish.retain);
        let facts = match facts {
            Ok(facts) if !publish.topic.is_empty() => facts,
            Ok(_) => {
                return Err(Violation::protocol("a topic alias that we did not ask for").into());
            }
            Err(violation) => return self.not_understood(flags, body, violation),
        };
        let packet = publish.id.filter(|_| publish.qos == 2);
        let token = match (publish.qos, publish.id) {
            (2, Some(id)) => match self.answers.expect_once(id) {
                Some(token) => Some(token),
                None => return Ok(()),
            },
            (_, Some(id)) => Some(self.answers.expect(id)),
            (_, None) => None,
        };
        let topic = self.options.map.here(publish.topic);
        if self.last_topic != topic.as_bytes() {
            self.last_topic = Bytes::copy_from_slice(topic.as_bytes());
        }
        let payload = Bytes::copy_from_slice(publish.payload);
        let record = facts.record(self.source, token, self.last_topic.clone(), payload, now);
        effects.records.push(Offered { packet, ..record });
        Ok(())
    }

    /// A record that can never be one here must not come again for ever: it is taken and counted as
    /// dropped. What has no packet identifier ends the connection.
    fn not_understood(
        &mut self,
        flags: u8,
        body: &[u8],
        violation: Violation,
    ) -> Result<(), ClientError> {
        let mut reader = FieldReader::new(body);
        let id = reader.binary().and_then(|_| reader.packet_id());
        let token = match (flags >> 1 & 3, id) {
            (1, Ok(id)) => Some(self.answers.expect(id)),
            (2, Ok(id)) => self.answers.expect_once(id),
            _ => return Err(violation.into()),
        };
        if let Some(token) = token {
            self.answers.answer(token, Err(RefuseReason::Oversize));
        }
        Ok(())
    }

    /// Notes the node's answer to a record, without writing anything yet.
    pub fn answer(&mut self, token: Token, result: Result<(), RefuseReason>) {
        self.answers.answer(token, result);
    }

    /// Writes the acknowledgements that are due, in the order of the records.
    ///
    /// # Errors
    /// The node has no room: the connection is closed without an acknowledgement, and the broker sends
    /// again.
    pub fn acknowledge(&mut self, out: &mut Vec<u8>) -> Result<(), ClientError> {
        while let Some((id, kind, result)) = self.answers.next() {
            if let Err(reason) = result {
                if comes_again(reason) {
                    if kind != AckKind::AtLeastOnce {
                        self.answers.memory.forget(id);
                    }
                    return Err(ClientError::Refusing(reason));
                }
                // What was dropped after it was accepted is counted where it was dropped.
                if !matches!(reason, RefuseReason::Dropped(_)) {
                    self.dropped.push(reason);
                }
            }
            match kind {
                AckKind::AtLeastOnce => write::taken(out, write::PUBACK, id),
                AckKind::ExactlyOnce | AckKind::Again => {
                    self.answers.memory.accept(id);
                    write::taken(out, write::PUBREC, id);
                }
            }
        }
        Ok(())
    }

    /// Why records were acknowledged though the node will never take them, since the last time this was
    /// asked.
    pub fn take_dropped(&mut self) -> Vec<RefuseReason> {
        std::mem::take(&mut self.dropped)
    }
}

/// Whether a refused record may be taken another time.
fn comes_again(reason: RefuseReason) -> bool {
    match reason {
        RefuseReason::Full | RefuseReason::TooManyStreams => true,
        RefuseReason::Storage | RefuseReason::Stopping => true,
        RefuseReason::NoRule | RefuseReason::Forbidden => false,
        RefuseReason::Oversize | RefuseReason::Dropped(_) => false,
    }
}

#[cfg(test)]
mod tests;
