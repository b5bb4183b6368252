//! What the journal of sessions is made of: notes, as values and as bytes.
//!
//! A note says what changed: a session, a subscription, a message and who waits for it, what came of it. The order of
//! the notes is their meaning; what they add up to is a [`super::SessionLedger`]. `docs/LOG.md` gives them byte by byte.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::class::ClassId;
use tidegate_types::codec::{Malformed, Reader, Sink};
use tidegate_types::ids::SessionId;
use tidegate_types::record::Properties;
use tidegate_types::units::Time;

use super::message::{Ids, Message};
use super::subscriptions::SubscribeOptions;

/// A session, as the journal keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionNote {
    /// Its number, never given twice.
    pub session: SessionId,
    /// The name of its client.
    pub client: Arc<str>,
    /// Who logged in, where somebody did.
    pub user: Option<Arc<str>>,
    /// On whose account it is: the user, or an address.
    pub payer: Arc<str>,
    /// Seconds that it outlives its connection.
    pub expiry: u32,
    /// When it ends, nanoseconds since the Unix epoch; 0 while its client is here.
    pub ends: u64,
    /// What is published for its client if that goes without a word.
    pub will: Option<WillNote>,
}

/// A will, as the journal keeps it.
#[derive(Clone, Debug, PartialEq)]
pub struct WillNote {
    /// What is published.
    pub message: Arc<Message>,
    /// How long it is worth something once it is published, nanoseconds.
    pub ttl: Option<u64>,
    /// How long the client may take to come back, nanoseconds.
    pub delay: u64,
    /// When it is published, nanoseconds since the Unix epoch; 0 while its client is here.
    pub due: u64,
}

/// Who waits for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The session.
    pub session: SessionId,
    /// The smaller one of the publisher's and the subscription's, 1 or 2.
    pub qos: u8,
    /// What the subscriber is told of retaining.
    pub retain: bool,
    /// Which of its subscriptions it is for, where they have identifiers.
    pub ids: Ids,
}

/// A message, stored once for all who wait for it.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageNote {
    /// Its number: rising, never given twice.
    pub number: u64,
    /// What was published. Its times are of no use behind a restart.
    pub message: Arc<Message>,
    /// From when on nobody wants it, nanoseconds since the Unix epoch.
    pub expires: Option<u64>,
    /// Whether it is the retained message of its topic.
    pub is_retained: bool,
    /// Who waits for it.
    pub waiters: Vec<Waiter>,
    /// The session that published it with QoS 2, and under which packet identifier.
    pub packet: Option<(SessionId, u16)>,
    /// The session whose will it is.
    pub will_of: Option<SessionId>,
}

/// How far a QoS 2 delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// The message.
    pub number: u64,
    /// Its packet identifier toward the subscriber.
    pub id: u16,
    /// Whether the subscriber has it: then only its identifier is to be released.
    pub is_received: bool,
}

/// One note.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// A session as it is now, its subscriptions left out.
    Session(Box<SessionNote>),
    /// A session is over, with all that waits for it.
    Over(SessionId),
    /// A subscription, in place of an older one of the same text.
    Subscribed(SessionId, Arc<str>, SubscribeOptions),
    /// The end of a subscription.
    Unsubscribed(SessionId, Arc<str>),
    /// A message.
    Message(Box<MessageNote>),
    /// A session waits for these messages no more.
    Done(SessionId, Vec<u64>),
    /// QoS 2 deliveries to a session that went on.
    Flights(SessionId, Vec<Flight>),
    /// A topic has no retained message any more.
    Unretained(Bytes),
    /// QoS 2 publishes of a session that are known by these packet identifiers.
    Packets(SessionId, Vec<u16>),
    /// These mean nothing any more.
    Released(SessionId, Vec<u16>),
    /// The session's will is published, or will never be.
    WillOver(SessionId),
    /// The time, nanoseconds since the Unix epoch.
    Clock(u64),
    /// All that holds was said since the segment's beginning; the next number of a message, and the next of a session.
    Whole(u64, u32),
}

/// A flag of a session: a user stands behind it.
const HAS_USER: u8 = 1;
const HAS_WILL: u8 = 2;
/// Flags of a message.
const HAS_EXPIRY: u8 = 1;
const HAS_SOURCE_TIME: u8 = 2;
const RETAINS: u8 = 4;
const IS_RETAINED: u8 = 8;
const HAS_PACKET: u8 = 16;
const IS_WILL: u8 = 32;

impl Note {
    /// Whether it is about sessions and their subscriptions, and not about messages: every segment begins with all that
    /// holds of these.
    pub fn is_about_sessions(&self) -> bool {
        !matches!(self, Note::Message(_) | Note::Done(..) | Note::Flights(..) | Note::Unretained(_))
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(64);
        self.encode(&mut bytes);
        bytes.into()
    }

    fn encode(&self, to: &mut Vec<u8>) {
        let head = |to: &mut Vec<u8>, kind: u8, session: &SessionId| {
            to.u8(kind);
            to.u32(session.0);
        };
        match self {
            Note::Session(session) => encode_session(session, to),
            Note::Over(session) => head(to, 2, session),
            Note::Subscribed(session, text, options) => {
                head(to, 3, session);
                to.name(text);
                let SubscribeOptions { qos, no_local, retain_as_published, id } = *options;
                to.u8(qos | u8::from(no_local) << 2 | u8::from(retain_as_published) << 3);
                to.u32(id.unwrap_or(0));
            }
            Note::Unsubscribed(session, text) => {
                head(to, 4, session);
                to.name(text);
            }
            Note::Message(message) => encode_message(message, to),
            Note::Done(session, numbers) => {
                head(to, 6, session);
                to.count(numbers.len());
                numbers.iter().for_each(|number| to.u64(*number));
            }
            Note::Flights(session, flights) => {
                head(to, 7, session);
                to.count(flights.len());
                for Flight { number, id, is_received } in flights {
                    to.u64(*number);
                    to.u16(*id);
                    to.flag(*is_received);
                }
            }
            Note::Unretained(topic) => {
                to.u8(8);
                to.bytes(topic);
            }
            Note::Packets(session, packets) => {
                head(to, 9, session);
                to.count(packets.len());
                packets.iter().for_each(|packet| to.u16(*packet));
            }
            Note::Released(session, packets) => {
                head(to, 10, session);
                to.count(packets.len());
                packets.iter().for_each(|packet| to.u16(*packet));
            }
            Note::WillOver(session) => head(to, 11, session),
            Note::Clock(wall) => {
                to.u8(12);
                to.u64(*wall);
            }
            Note::Whole(next, session) => {
                to.u8(13);
                to.u64(*next);
                to.u32(*session);
            }
        }
    }

    /// The note of some bytes.
    ///
    /// # Errors
    /// They are none.
    pub fn read(bytes: &[u8]) -> Result<Note, Malformed> {
        let mut from = Reader::new(bytes);
        let from = &mut from;
        let note = match from.u8()? {
            1 => Note::Session(Box::new(decode_session(from)?)),
            2 => Note::Over(session(from)?),
            3 => {
                let (session, text) = (session(from)?, from.name()?.into());
                let flags = from.u8()?;
                from.must(flags < 16 && flags & 3 < 3, "options of a subscription")?;
                let id = Some(from.u32()?).filter(|id| *id > 0);
                let (no_local, retain_as_published) = (flags & 4 != 0, flags & 8 != 0);
                let options =
                    SubscribeOptions { qos: flags & 3, no_local, retain_as_published, id };
                Note::Subscribed(session, text, options)
            }
            4 => Note::Unsubscribed(session(from)?, from.name()?.into()),
            5 => Note::Message(Box::new(decode_message(from)?)),
            6 => Note::Done(session(from)?, from.many(8, Reader::u64)?),
            7 => {
                let flight = |from: &mut Reader<'_>| {
                    Ok(Flight { number: from.u64()?, id: from.u16()?, is_received: from.flag()? })
                };
                Note::Flights(session(from)?, from.many(11, flight)?)
            }
            8 => Note::Unretained(shared(from)?),
            9 => Note::Packets(session(from)?, from.many(2, Reader::u16)?),
            10 => Note::Released(session(from)?, from.many(2, Reader::u16)?),
            11 => Note::WillOver(session(from)?),
            12 => Note::Clock(from.u64()?),
            13 => Note::Whole(number(from)?, from.u32()?),
            _ => return Err(from.malformed("a note of a known kind")),
        };
        from.end()?;
        Ok(note)
    }
}

fn session(from: &mut Reader<'_>) -> Result<SessionId, Malformed> {
    from.u32().map(SessionId)
}

/// The number of a message: others follow, which damage must not use up.
fn number(from: &mut Reader<'_>) -> Result<u64, Malformed> {
    let number = from.u64()?;
    from.must(number <= u64::MAX / 2, "a number that others can follow")?;
    Ok(number)
}

fn shared(from: &mut Reader<'_>) -> Result<Bytes, Malformed> {
    from.bytes().map(Bytes::copy_from_slice)
}

fn encode_session(note: &SessionNote, to: &mut Vec<u8>) {
    let SessionNote { session, client, user, payer, expiry, ends, will } = note;
    to.u8(1);
    to.u32(session.0);
    to.name(client);
    to.name(payer);
    to.u32(*expiry);
    to.u64(*ends);
    let user_flag = if user.is_some() { HAS_USER } else { 0 };
    to.u8(user_flag | if will.is_some() { HAS_WILL } else { 0 });
    if let Some(user) = user {
        to.name(user);
    }
    if let Some(WillNote { message, ttl, delay, due }) = will {
        to.u64(*delay);
        to.u64(*due);
        encode_body(message, *ttl, 0, to);
    }
}

fn decode_session(from: &mut Reader<'_>) -> Result<SessionNote, Malformed> {
    let (session, client, payer) = (session(from)?, from.name()?.into(), from.name()?.into());
    let (expiry, ends, flags) = (from.u32()?, from.u64()?, from.u8()?);
    from.must(flags <= HAS_USER | HAS_WILL, "known flags")?;
    let user = if flags & HAS_USER > 0 { Some(from.name()?.into()) } else { None };
    let mut will = None;
    if flags & HAS_WILL > 0 {
        let (delay, due) = (from.u64()?, from.u64()?);
        let (message, ttl, _) = decode_body(from)?;
        will = Some(WillNote { message, ttl, delay, due });
    }
    Ok(SessionNote { session, client, user, payer, expiry, ends, will })
}

fn encode_message(note: &MessageNote, to: &mut Vec<u8>) {
    let MessageNote { number, message, expires, is_retained, waiters, packet, will_of } = note;
    to.u8(5);
    to.u64(*number);
    let flag = |is_so: bool, flag| if is_so { flag } else { 0 };
    let flags = flag(*is_retained, IS_RETAINED)
        | flag(packet.is_some(), HAS_PACKET)
        | flag(will_of.is_some(), IS_WILL);
    encode_body(message, *expires, flags, to);
    if let Some((session, packet)) = packet {
        to.u32(session.0);
        to.u16(*packet);
    }
    if let Some(session) = will_of {
        to.u32(session.0);
    }
    to.count(waiters.len());
    for Waiter { session, qos, retain, ids } in waiters {
        to.u32(session.0);
        to.u8(*qos | u8::from(*retain) << 2 | u8::from(ids.is_some()) << 3);
        if let Some(ids) = ids {
            to.count(ids.len());
            ids.iter().for_each(|id| to.u32(*id));
        }
    }
}

fn decode_message(from: &mut Reader<'_>) -> Result<MessageNote, Malformed> {
    let number = number(from)?;
    let (message, expires, flags) = decode_body(from)?;
    let mut packet = None;
    if flags & HAS_PACKET > 0 {
        packet = Some((session(from)?, from.u16()?));
    }
    let will_of = if flags & IS_WILL > 0 { Some(session(from)?) } else { None };
    let waiter = |from: &mut Reader<'_>| {
        let (session, flags) = (session(from)?, from.u8()?);
        from.must(flags < 16 && flags & 3 < 3, "flags of who waits")?;
        let ids = if flags & 8 > 0 { Some(from.many(4, Reader::u32)?.into()) } else { None };
        Ok(Waiter { session, qos: flags & 3, retain: flags & 4 > 0, ids })
    };
    let waiters = from.many(5, waiter)?;
    let is_retained = flags & IS_RETAINED > 0;
    Ok(MessageNote { number, message, expires, is_retained, waiters, packet, will_of })
}

/// What was published, behind its flags.
fn encode_body(message: &Message, expires: Option<u64>, flags: u8, to: &mut Vec<u8>) {
    let flag = |is_so: bool, flag| if is_so { flag } else { 0 };
    to.u8(flags
        | flag(expires.is_some(), HAS_EXPIRY)
        | flag(message.source_unix_ns.is_some(), HAS_SOURCE_TIME)
        | flag(message.retain, RETAINS));
    to.u8(message.qos);
    if let Some(at) = expires {
        to.u64(at);
    }
    if let Some(at) = message.source_unix_ns {
        to.u64(at);
    }
    to.bytes(&message.topic);
    to.count(message.properties.iter().count());
    for (name, value) in message.properties.iter() {
        to.bytes(name);
        to.bytes(value);
    }
    to.bytes(&message.payload);
}

fn decode_body(from: &mut Reader<'_>) -> Result<(Arc<Message>, Option<u64>, u8), Malformed> {
    let flags = from.u8()?;
    from.must(flags < IS_WILL * 2, "known flags")?;
    let qos = from.u8()?;
    from.must(qos < 3, "a QoS")?;
    let expires = if flags & HAS_EXPIRY > 0 { Some(from.u64()?) } else { None };
    let source_unix_ns = if flags & HAS_SOURCE_TIME > 0 { Some(from.u64()?) } else { None };
    let topic = shared(from)?;
    let properties = from.many(8, |from| Ok((shared(from)?, shared(from)?)))?;
    let message = Message {
        topic,
        payload: shared(from)?,
        properties: Properties::new(properties),
        qos,
        retain: flags & RETAINS > 0,
        arrived: Time::ZERO,
        expires: None,
        class: ClassId(0),
        deadline: Time::ZERO,
        source_unix_ns,
        meter: None,
    };
    Ok((Arc::new(message), expires, flags))
}
