//! A minimal client of MQTT 5, and of 3.1.1 for brokers that know no other: what load and measurement need, and nothing that a contestant is made of.
//!
//! Its own codec on purpose: a mistake that the node's codec makes must not cancel out here.

use std::collections::VecDeque;

use anyhow::{Context, bail, ensure};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::raw::{self, push_text};

const SESSION_EXPIRY: u8 = 0x11;
const USER_PROPERTY: u8 = 0x26;
pub const RECEIVE_MAXIMUM: u8 = 0x21;
/// Reason codes from here on are refusals.
const FAILURE: u8 = 0x80;

/// A packet from a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A record, and the id under which QoS 1 wants it acknowledged.
    Publish {
        /// Where it was published to.
        topic: String,
        /// User properties, which only MQTT 5 has.
        properties: Vec<(String, String)>,
        payload: Bytes,
        id: Option<u16>,
    },
    /// Our record is accepted, or not.
    Acknowledged {
        /// The id that we gave.
        id: u16,
        /// 0, 16 (nobody subscribed), or a refusal from 128.
        reason: u8,
    },
    /// Our subscription is there.
    Subscribed,
    Other(u8),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// MQTT 3.1.1.
    V311,
    /// MQTT 5.
    #[default]
    V5,
}

/// What a CONNECT says. No keepalive.
#[derive(Clone, Copy, Debug)]
pub struct Hello<'a> {
    pub client: &'a str,
    pub version: Version,
    /// Whether the broker keeps the session over breaks.
    pub is_lasting: bool,
}

impl<'a> Hello<'a> {
    /// MQTT 5, with a session that ends with the connection.
    pub fn new(client: &'a str) -> Self {
        Hello { client, version: Version::V5, is_lasting: false }
    }

    fn body(self) -> Vec<u8> {
        let Hello { client, version, is_lasting } = self;
        let mut body = Vec::new();
        push_text(&mut body, "MQTT");
        body.put_u8(if version == Version::V5 { 5 } else { 4 });
        body.put_slice(&[if is_lasting { 0 } else { 0x02 }, 0, 0]);
        match (version, is_lasting) {
            (Version::V311, _) => {}
            (Version::V5, false) => body.put_u8(0),
            (Version::V5, true) => {
                body.put_slice(&[5, SESSION_EXPIRY]);
                body.put_u32(u32::MAX);
            }
        }
        push_text(&mut body, client);
        body
    }
}

/// Says CONNECT and waits for the answer. Returns both halves and how many QoS 1 records may be
/// unacknowledged at once.
pub async fn hello(socket: TcpStream, hello: Hello<'_>) -> anyhow::Result<(Reader, Writer, u16)> {
    let version = hello.version;
    let (mut reader, mut writer) = halves(socket, version);
    writer.send(0x10, &hello.body()).await?;
    let (kind, mut answer) = reader.frame().await?.context("closed instead of CONNACK")?;
    let is_good = |code: u8| if version == Version::V5 { code < FAILURE } else { code == 0 };
    if kind != 0x20 || answer.len() < 2 || !is_good(answer[1]) {
        bail!("the broker refuses: {kind:#x} {answer:?}");
    }
    answer.advance(2);
    let maximum = if version == Version::V5 { receive_maximum(answer)? } else { u16::MAX };
    Ok((reader, writer, maximum))
}

/// Both halves of a connection on which nobody has said anything.
pub fn halves(socket: TcpStream, version: Version) -> (Reader, Writer) {
    let (socket, write) = socket.into_split();
    let reader = Reader { socket, buffer: BytesMut::new(), version, early: VecDeque::new() };
    (reader, Writer { socket: write, version })
}

#[derive(Debug)]
pub struct Writer {
    socket: OwnedWriteHalf,
    pub version: Version,
}

impl Writer {
    /// Sends a record at QoS 1 with user properties, which only MQTT 5 has.
    pub async fn publish(
        &mut self,
        topic: &str,
        id: u16,
        properties: &[(&str, &str)],
        payload: &[u8],
    ) -> std::io::Result<()> {
        let mut encoded = Vec::new();
        for (name, value) in properties {
            encoded.push(USER_PROPERTY);
            push_text(&mut encoded, name);
            push_text(&mut encoded, value);
        }
        let mut body = Vec::with_capacity(payload.len() + topic.len() + encoded.len() + 16);
        push_text(&mut body, topic);
        body.put_u16(id);
        if self.version == Version::V5 {
            raw::push_length(&mut body, encoded.len());
            body.extend(encoded);
        }
        body.extend(payload);
        self.send(0x32, &body).await
    }

    /// Subscribes at QoS 1; [`Packet::Subscribed`] answers.
    pub async fn subscribe(&mut self, filter: &str) -> std::io::Result<()> {
        let mut body = vec![0, 1];
        if self.version == Version::V5 {
            body.push(0); // no properties
        }
        push_text(&mut body, filter);
        body.put_u8(1);
        self.send(0x82, &body).await
    }

    pub async fn acknowledge(&mut self, id: u16) -> std::io::Result<()> {
        self.send(0x40, &id.to_be_bytes()).await
    }

    pub(crate) async fn goodbye(&mut self) -> std::io::Result<()> {
        self.send(0xe0, &[]).await
    }

    /// Sends any packet.
    pub async fn send(&mut self, kind: u8, body: &[u8]) -> std::io::Result<()> {
        self.socket.write_all(&raw::packet(kind, body)).await
    }
}

#[derive(Debug)]
pub struct Reader {
    socket: OwnedReadHalf,
    buffer: BytesMut,
    pub version: Version,
    /// What came before it was waited for.
    early: VecDeque<Packet>,
}

impl Reader {
    /// The next packet; `None` at the end of the connection.
    pub async fn packet(&mut self) -> anyhow::Result<Option<Packet>> {
        if let Some(early) = self.early.pop_front() {
            return Ok(Some(early));
        }
        let Some((kind, body)) = self.frame().await? else { return Ok(None) };
        decode(self.version, kind, body).map(Some)
    }

    /// Waits until the subscription stands. Records of a session that the broker kept may come before
    /// that: they wait to be read.
    pub(crate) async fn wait_for_subscription(&mut self) -> anyhow::Result<()> {
        let mut early = Vec::new();
        loop {
            match self.packet().await?.context("closed instead of SUBACK")? {
                Packet::Subscribed => break,
                publish @ Packet::Publish { .. } => early.push(publish),
                _ => {}
            }
        }
        self.early.extend(early);
        Ok(())
    }

    /// The next packet as it comes: its first byte and its body.
    pub async fn frame(&mut self) -> anyhow::Result<Option<(u8, Bytes)>> {
        loop {
            if let Some(frame) = split_frame(&mut self.buffer)? {
                return Ok(Some(frame));
            }
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

fn split_frame(buffer: &mut BytesMut) -> anyhow::Result<Option<(u8, Bytes)>> {
    let mut head = &buffer[..];
    if head.is_empty() {
        return Ok(None);
    }
    let kind = head.get_u8();
    let Some(length) = take_length(&mut head)? else { return Ok(None) };
    let header = buffer.len() - head.len();
    if head.len() < length {
        return Ok(None);
    }
    buffer.advance(header);
    Ok(Some((kind, buffer.split_to(length).freeze())))
}

fn decode(version: Version, kind: u8, mut body: Bytes) -> anyhow::Result<Packet> {
    match kind >> 4 {
        3 => {
            let topic = take_text(&mut body)?;
            let id = if kind & 0x06 == 0 { None } else { Some(take(&mut body, 2)?.get_u16()) };
            let mut properties = Vec::new();
            if version == Version::V5 {
                let size = take_length(&mut body)?.context("a PUBLISH without properties")?;
                properties = user_properties(take(&mut body, size)?)?;
            }
            Ok(Packet::Publish { topic, properties, payload: body, id })
        }
        4 => {
            let id = take(&mut body, 2)?.get_u16();
            Ok(Packet::Acknowledged { id, reason: body.first().copied().unwrap_or(0) })
        }
        9 if body.last().is_some_and(|reason| *reason >= FAILURE) => bail!("subscription refused"),
        9 => Ok(Packet::Subscribed),
        14 => bail!("the broker says goodbye, reason {:?}", body.first()),
        _ => Ok(Packet::Other(kind)),
    }
}

/// Finds the receive maximum among the properties of a CONNACK; 65,535 where it says nothing.
fn receive_maximum(mut properties: Bytes) -> anyhow::Result<u16> {
    let length = take_length(&mut properties)?.unwrap_or(0);
    let mut rest = take(&mut properties, length)?;
    while rest.has_remaining() {
        match rest.get_u8() {
            RECEIVE_MAXIMUM => return Ok(take(&mut rest, 2)?.get_u16()),
            other => skip_property(&mut rest, other)?,
        }
    }
    Ok(u16::MAX)
}

/// The user properties among those of a PUBLISH.
fn user_properties(mut rest: Bytes) -> anyhow::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    while rest.has_remaining() {
        match rest.get_u8() {
            USER_PROPERTY => found.push((take_text(&mut rest)?, take_text(&mut rest)?)),
            other => skip_property(&mut rest, other)?,
        }
    }
    Ok(found)
}

/// Passes over the value of a property that a CONNACK or a PUBLISH may carry (MQTT 5.0, 2.2.2.2).
fn skip_property(rest: &mut Bytes, property: u8) -> anyhow::Result<()> {
    let size = match property {
        0x02 | 0x11 | 0x27 => 4,
        RECEIVE_MAXIMUM | 0x13 | 0x22 | 0x23 => 2,
        0x01 | 0x24 | 0x25 | 0x28 | 0x29 | 0x2a => 1,
        0x03 | 0x08 | 0x09 | 0x12 | 0x15 | 0x16 | 0x1a | 0x1c | 0x1f => {
            usize::from(take(rest, 2)?.get_u16())
        }
        0x0b => {
            take_length(rest)?;
            0
        }
        USER_PROPERTY => {
            take_text(rest)?;
            usize::from(take(rest, 2)?.get_u16())
        }
        other => bail!("a packet with property {other:#x}"),
    };
    take(rest, size).map(drop)
}

fn take_text(bytes: &mut Bytes) -> anyhow::Result<String> {
    let size = take(bytes, 2)?.get_u16();
    Ok(String::from_utf8(take(bytes, usize::from(size))?.to_vec())?)
}

fn take(bytes: &mut Bytes, length: usize) -> anyhow::Result<Bytes> {
    if bytes.len() < length {
        bail!("a packet that ends too early");
    }
    Ok(bytes.split_to(length))
}

/// A variable byte integer; `None` while it is not complete.
fn take_length(bytes: &mut impl Buf) -> anyhow::Result<Option<usize>> {
    let found = raw::length_in(bytes.chunk());
    ensure!(found.is_some() || bytes.remaining() < 4, "a length of more than four bytes");
    Ok(found.map(|(length, size)| {
        bytes.advance(size);
        length
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_the_standard() {
        // MQTT 5.0, table 1-1
        for (length, bytes) in [(127, 1), (128, 2), (16_383, 2), (16_384, 3), (2_097_152, 4)] {
            let mut buffer = Vec::new();
            raw::push_length(&mut buffer, length);
            assert_eq!(buffer.len(), bytes);
            assert_eq!(take_length(&mut &buffer[..]).unwrap(), Some(length));
        }
        assert!(take_length(&mut &[0xff, 0xff, 0xff, 0xff][..]).is_err());
        assert_eq!(take_length(&mut &[0xff][..]).unwrap(), None);
    }

    #[test]
    fn frames_are_split_when_they_are_whole() {
        let mut buffer = BytesMut::from(&[0x40, 2, 0, 7, 0x40][..]);
        let (kind, body) = split_frame(&mut buffer).unwrap().unwrap();
        assert_eq!(
            decode(Version::V5, kind, body).unwrap(),
            Packet::Acknowledged { id: 7, reason: 0 }
        );
        assert!(split_frame(&mut buffer).unwrap().is_none());
    }

    #[test]
    fn a_publish_is_read_past_its_properties() {
        let properties = [0x0b, 0x80, 1, 0x01, 1, USER_PROPERTY, 0, 1, b'k', 0, 1, b'v'];
        let body = [&[0, 1, b'a', 0, 9, 12][..], &properties, b"x"].concat();
        let publish = |properties| Packet::Publish {
            topic: "a".into(),
            properties,
            payload: Bytes::from_static(b"x"),
            id: Some(9),
        };
        let old = decode(Version::V311, 0x32, Bytes::from_static(b"\0\x01a\0\x09x")).unwrap();
        assert_eq!(old, publish(vec![]));
        let packet = decode(Version::V5, 0x32, body.into()).unwrap();
        assert_eq!(packet, publish(vec![("k".into(), "v".into())]));
        assert!(decode(Version::V5, 0x32, Bytes::from_static(&[0, 9, b'a'])).is_err());
    }

    #[test]
    fn the_receive_maximum_is_found_among_others() {
        let found = |bytes: &'static [u8]| receive_maximum(Bytes::from_static(bytes)).unwrap();
        assert_eq!(found(&[9, 0x22, 0, 10, 0x12, 0, 0, 0x21, 0, 20]), 20);
        assert_eq!([found(&[0]), found(&[])], [u16::MAX; 2]);
        assert!(receive_maximum(Bytes::from_static(&[2, 0xee, 0])).is_err());
    }
}
