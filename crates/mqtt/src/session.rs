//! One client's session as a state machine without I/O: bytes in, records and answers out.
//!
//! The connection calls [`Session::receive`] with what it has read, offers the records of the
//! [`Effects`], writes their bytes, and passes on the node's answers with [`Session::answer`]. A PUBACK
//! or PUBREC is written when the node has accepted the record, and never earlier. What outlives the
//! connection is a [`Memory`].

pub(crate) mod answers;
mod deliver;
mod end;
mod exercise;
mod greeting;
pub(crate) mod memory;
mod outward;
mod publish;
mod rare;
pub(crate) mod record;
mod subscribe;
mod subscriber;
mod topics;
mod will;

use std::sync::Arc;
use std::time::Duration;

use tidegate_types::record::{Offered, RefuseReason, SourceId};
use tidegate_types::units::Time;

use self::answers::Answers;
pub use self::deliver::PublishLayout;
pub use self::end::{Denied, End};
pub use self::exercise::exercise;
pub use self::greeting::Claim;
pub use self::memory::{Memory, Published};
use self::outward::Outward;
pub use self::record::{
    CONTENT_TYPE, CORRELATION_DATA, PAYLOAD_FORMAT, RESPONSE_TOPIC, RETAIN, SOURCE_TIME,
};
pub use self::subscribe::{FilterOutcome, Request};
pub use self::subscriber::{Nobody, SessionSubscriber};
use self::topics::Topics;
pub use self::will::Will;
use crate::control;
use crate::frame::{ControlPacket, Front, front};
use crate::publish::Publish;
use crate::reader::FieldReader;
use crate::{Reason, Version, Violation, write};

/// Records of one batch: enough to share the cost of crossing to the node, few enough to stay in the
/// processor's cache.
pub const BATCH_MAX: usize = 256;

/// Largest CONNECT: whoever sends it is not known yet. A will of the largest size fits.
const CONNECT_MAX: u32 = 128 * 1024;

/// What a client before MQTT 5 hears of a publish that is refused: its version has no words for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refused {
    /// The publish is not acknowledged and the connection closed: the client sends it again.
    #[default]
    Close,
    /// The publish is acknowledged and counted as dropped.
    Drop,
}

/// Bounds of a session; see the options of the same names.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the options of the same names say it")]
pub struct Limits {
    pub max_packet_size: u32,
    pub receive_maximum: u16,
    pub topic_alias_maximum: u16,
    /// Seconds.
    pub session_expiry_max: u32,
    /// Seconds; 0 is no bound.
    pub keepalive_max: u16,
    pub refused: Refused,
    /// Whether subscriptions outlive the process.
    pub keeps_subscriptions: bool,
}

/// What a session wants done.
#[derive(Debug, Default)]
pub struct Effects {
    /// To be offered to the node, in this order.
    pub records: Vec<Offered>,
    /// QoS 2 packet identifiers that the client has released: the node is to hear it, and
    /// [`Session::released`] of its answer.
    pub releases: Vec<u16>,
    /// QoS 2 publishes that the node has and subscribers do not: they came again after a crash between the two.
    pub again: Vec<Offered>,
    /// To be written to the client.
    pub out: Vec<u8>,
}

/// How far `receive` came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionStep {
    /// Every complete packet is done; more bytes are needed, this many in all at least.
    Read(usize),
    /// The batch is full: offer it and come again.
    Offer,
    /// As many publishes are unanswered as may be: come again after an answer.
    Wait,
    /// Offer the records, then do what is asked for, and come again.
    Ask(Request),
    /// A good CONNECT: register the client, open its source, then call `opened`.
    Connect,
    /// Offer the records, write the answers, then close.
    End(End),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No CONNECT yet.
    New,
    /// A CONNECT that is not answered yet.
    Connecting,
    Open,
    Ended,
}

/// The state of one connection.
#[derive(Debug)]
pub struct Session<S = Nobody> {
    limits: Limits,
    phase: Phase,
    /// Known once the head of the CONNECT is read.
    version: Option<Version>,
    client: Arc<str>,
    source: SourceId,
    keepalive: u16,
    /// What the client asked for.
    asked_keepalive: u16,
    client_maximum: u32,
    problem_information: bool,
    is_clean: bool,
    /// Seconds that the session outlives the connection; 0 is not at all.
    session_expiry: u32,
    /// What the client asked for.
    asked_expiry: u32,
    is_resumed: bool,
    answers: Answers<S>,
    topics: Topics,
    outward: Outward,
    will: Option<Box<Will>>,
    /// What the CONNECT said of the user, until it is asked for.
    claim: Option<Box<Claim>>,
    dropped: Vec<RefuseReason>,
}

impl<S: SessionSubscriber> Session<S> {
    /// A session that waits for its CONNECT.
    pub fn new(limits: Limits) -> Self {
        Session {
            limits,
            phase: Phase::New,
            version: None,
            client: "".into(),
            source: SourceId(0),
            keepalive: 0,
            asked_keepalive: 0,
            client_maximum: u32::MAX,
            problem_information: true,
            is_clean: true,
            session_expiry: 0,
            asked_expiry: 0,
            is_resumed: false,
            answers: Answers::default(),
            topics: Topics::default(),
            outward: Outward::default(),
            will: None,
            claim: None,
            dropped: Vec::new(),
        }
    }

    /// The client's protocol version, once it is known.
    pub fn version(&self) -> Option<Version> {
        self.version
    }

    /// The client id; empty before CONNECT, and after a CONNECT that leaves it to the server.
    pub fn client(&self) -> &Arc<str> {
        &self.client
    }

    /// How long the client may be silent; `None` is for ever.
    pub fn keepalive(&self) -> Option<Duration> {
        (self.keepalive > 0).then(|| Duration::from_millis(u64::from(self.keepalive) * 1500))
    }

    /// Whether the client wants a new session, whatever is left of an older one.
    pub fn is_clean(&self) -> bool {
        self.is_clean
    }

    /// How long the session outlives the connection; zero is not at all.
    pub fn session_expiry(&self) -> Duration {
        Duration::from_secs(self.session_expiry.into())
    }

    /// Whether the client changed that time with its goodbye.
    pub fn expiry_is_news(&self) -> bool {
        self.session_expiry != self.asked_expiry.min(self.limits.session_expiry_max)
    }

    /// Whether it goes on with what an earlier connection left.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Publishes that wait for the node's answer.
    pub fn unanswered(&self) -> usize {
        self.answers.len()
    }

    /// Handles the packets at the front of `buffer`, read at `now`. Returns the bytes that are done
    /// with, and what is to be done next.
    pub fn receive(
        &mut self,
        now: Time,
        buffer: &[u8],
        effects: &mut Effects,
    ) -> (usize, SessionStep) {
        let mut done = 0;
        loop {
            if effects.records.len() >= BATCH_MAX {
                return (done, SessionStep::Offer);
            }
            if self.must_wait() {
                return (done, SessionStep::Wait);
            }
            let frame = match self.front(&buffer[done..]) {
                Ok(Front::Complete(frame)) => frame,
                Ok(Front::Partial(size)) => return (done, SessionStep::Read(size)),
                Err(violation) => return (done, self.violated(violation, None, effects)),
            };
            if let (Phase::Open, Some(version), write::PUBACK) =
                (self.phase, self.version, frame.first)
            {
                match self.acknowledged(version, &buffer[done..]) {
                    Ok(size) => done += size,
                    Err(violation) => return (done, self.violated(violation, None, effects)),
                }
                continue;
            }
            done += frame.size;
            match self.packet(now, frame, buffer.len() - done, effects) {
                Ok(None) => {}
                Ok(Some(step)) => return (done, step),
                Err(violation) => return (done, self.violated(violation, Some(frame), effects)),
            }
        }
    }

    /// The packet at the front. What is no CONNECT is refused by its first byte: a client of another
    /// protocol need not be waited for.
    fn front<'b>(&self, buffer: &'b [u8]) -> Result<Front<'b>, Violation> {
        let mut maximum = self.limits.max_packet_size;
        if self.phase == Phase::New {
            maximum = maximum.min(CONNECT_MAX);
            if buffer.first().is_some_and(|first| first >> 4 != 1) {
                return Err(Violation::protocol("the first packet is not a connect packet"));
            }
        }
        front(buffer, maximum)
    }

    /// Whether nothing is received before an answer comes. Clients before MQTT 5 do not know our receive
    /// maximum: they wait in their socket.
    pub fn must_wait(&self) -> bool {
        self.version != Some(Version::V5)
            && self.answers.len() >= usize::from(self.limits.receive_maximum)
    }

    /// Handles one packet; `behind` bytes stand behind it in the buffer.
    fn packet(
        &mut self,
        now: Time,
        frame: ControlPacket<'_>,
        behind: usize,
        effects: &mut Effects,
    ) -> Result<Option<SessionStep>, Violation> {
        let version = match (self.phase, self.version) {
            (Phase::Open, Some(version)) => version,
            (Phase::New, _) => return self.connect(frame).map(Some),
            _ => return Err(Violation::protocol("a packet before the connection is accepted")),
        };
        let ControlPacket { first, body, size } = frame;
        match (first >> 4, first & 0x0F) {
            (3, flags) => {
                let publish = Publish::read(version, flags, body)?;
                let qos = publish.qos;
                let Some(record) = self.publish(version, now, publish)? else { return Ok(None) };
                if qos == 2 && record.token.is_none() {
                    effects.again.push(record);
                    return Ok(None);
                }
                if effects.records.is_empty() {
                    // A batch is mostly of one size: one allocation instead of one each doubling.
                    effects.records.reserve((behind / size + 1).min(BATCH_MAX));
                }
                effects.records.push(record);
            }
            (12, 0) if body.is_empty() => write::pong(&mut effects.out),
            (14, 0) => {
                let said = control::disconnect(version, body, self.asked_expiry == 0)?;
                if let Some(seconds) = said.session_expiry {
                    self.session_expiry = seconds.min(self.limits.session_expiry_max);
                }
                self.phase = Phase::Ended;
                let discard_will = said.discard_will;
                return Ok(Some(SessionStep::End(End::Disconnected { discard_will })));
            }
            _ => return self.rare(version, frame, effects),
        }
        Ok(None)
    }

    /// Refuses what is larger than the client takes.
    fn fits(&self, before: usize, out: &mut Vec<u8>) -> Result<(), Violation> {
        if out.len() - before <= self.client_maximum as usize {
            return Ok(());
        }
        out.truncate(before);
        Err(Violation::new(
            Reason::PacketTooLarge,
            "the answer is larger than the client's maximum packet size",
        ))
    }

    /// The words, if the client wants to read them.
    fn words<'w>(&self, words: &'w str) -> Option<&'w str> {
        /// Less than this may be too small for an answer with words.
        const ROOM: u32 = 128;
        (self.problem_information && self.client_maximum >= ROOM).then_some(words)
    }

    /// Ends the session from the server's side; an MQTT 5 client is told why.
    pub fn end(&mut self, end: &End, out: &mut Vec<u8>) {
        if self.phase == Phase::Open
            && self.version == Some(Version::V5)
            && let Some(reason) = end.reason()
        {
            match end {
                End::Elsewhere(reference) => write::elsewhere(out, reference),
                _ => write::disconnected(out, reason),
            }
        }
        self.phase = Phase::Ended;
    }

    /// Ends the session for a violation: a client that is not connected yet gets a CONNACK if its
    /// version has one for it.
    fn violated(
        &mut self,
        violation: Violation,
        frame: Option<ControlPacket<'_>>,
        effects: &mut Effects,
    ) -> SessionStep {
        let end = End::Violation { violation, topic: frame.and_then(topic_of) };
        match (self.phase, self.version, violation.reason) {
            (Phase::New, Some(Version::V5), reason) => write::refused_v5(&mut effects.out, reason),
            (Phase::New, None, Reason::UnsupportedVersion) => write::refused(&mut effects.out, 1),
            (Phase::New, Some(_), Reason::ClientIdNotValid) => write::refused(&mut effects.out, 2),
            _ => self.end(&end, &mut effects.out),
        }
        self.phase = Phase::Ended;
        SessionStep::End(end)
    }
}

/// The topic of a publish, for the log: whatever it is, it becomes one short line.
fn topic_of(frame: ControlPacket<'_>) -> Option<Box<str>> {
    const SHOWN: usize = 80;
    if frame.first >> 4 != 3 {
        return None;
    }
    let bytes = FieldReader::new(frame.body).binary().ok()?;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]);
    Some(text.escape_debug().to_string().into())
}

#[cfg(test)]
mod once_tests;
#[cfg(test)]
mod tests;
