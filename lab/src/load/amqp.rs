//! A minimal AMQP 0-9-1 consumer: a queue of its own or a durable one, bound to an exchange.
//!
//! Its own codec on purpose: a mistake that the node's codec makes must not cancel out here.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Frame types (AMQP 0-9-1, 2.3.5).
const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
const FRAME_END: u8 = 0xce;
/// Largest frame that we agree to.
const FRAME_MAX: u32 = 131_072;

/// Class and method numbers (AMQP 0-9-1, 1.8).
type Method = (u16, u16);
const START: Method = (10, 10);
const START_OK: Method = (10, 11);
const TUNE: Method = (10, 30);
const TUNE_OK: Method = (10, 31);
const OPEN: Method = (10, 40);
const OPEN_OK: Method = (10, 41);
const CHANNEL_OPEN: Method = (20, 10);
const CHANNEL_OPEN_OK: Method = (20, 11);
const DECLARE: Method = (50, 10);
const DECLARE_OK: Method = (50, 11);
const BIND: Method = (50, 20);
const BIND_OK: Method = (50, 21);
const CONSUME: Method = (60, 20);
const CONSUME_OK: Method = (60, 21);
const QOS: Method = (60, 10);
const QOS_OK: Method = (60, 11);
const DELIVER: Method = (60, 60);
const ACK: Method = (60, 80);
/// Deliveries of a durable queue that may be unacknowledged.
const PREFETCH: u16 = 1000;

/// A subscription: everything that an exchange gets under a binding key.
#[derive(Debug)]
pub struct Consumer {
    socket: TcpStream,
    buffer: BytesMut,
    is_durable: bool,
}

/// A record as the broker delivers it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// For [`Consumer::acknowledge`].
    pub tag: u64,
    /// Texts beside the payload.
    pub headers: BTreeMap<String, String>,
    /// What was published.
    pub payload: Bytes,
}

/// Whose eyes, and on what.
#[derive(Clone, Copy, Debug)]
pub struct Subscription<'a> {
    /// User.
    pub user: &'a str,
    /// Password.
    pub password: &'a str,
    /// Topic exchange.
    pub exchange: &'a str,
    /// Binding key.
    pub key: &'a str,
    /// A durable queue of this name, whose deliveries are acknowledged; else one that goes with the
    /// connection.
    pub queue: Option<&'a str>,
}

impl Consumer {
    /// Logs in, declares the queue, binds it and consumes it.
    ///
    /// # Errors
    /// The broker says no.
    pub async fn subscribe(socket: TcpStream, what: Subscription<'_>) -> anyhow::Result<Consumer> {
        let is_durable = what.queue.is_some();
        let mut consumer = Consumer { socket, buffer: BytesMut::new(), is_durable };
        consumer.socket.write_all(b"AMQP\x00\x00\x09\x01").await?;
        consumer.answer(START).await?;
        let secret = format!("\0{}\0{}", what.user, what.password);
        let mut login = Arguments::default().table().short("PLAIN");
        login.0.put_u32(u32::try_from(secret.len())?);
        login.0.put_slice(secret.as_bytes());
        consumer.say(0, START_OK, login.short("en_US")).await?;
        consumer.answer(TUNE).await?;
        let mut tuned = Arguments::default().number(1);
        tuned.0.put_u32(FRAME_MAX);
        consumer.say(0, TUNE_OK, tuned.number(0)).await?; // no heartbeat
        consumer.say(0, OPEN, Arguments::default().short("/").short("").bits(0)).await?;
        consumer.answer(OPEN_OK).await?;
        consumer.say(1, CHANNEL_OPEN, Arguments::default().short("")).await?;
        consumer.answer(CHANNEL_OPEN_OK).await?;
        // Durable, or exclusive and deleted with its last consumer.
        let kind = if is_durable { 0b10 } else { 0b1100 };
        let name = what.queue.unwrap_or_default();
        let declare = Arguments::default().number(0).short(name).bits(kind).table();
        consumer.say(1, DECLARE, declare).await?;
        let mut answer = consumer.answer(DECLARE_OK).await?;
        let queue = take_short(&mut answer)?;
        let bind = Arguments::default().number(0).short(&queue);
        let bind = bind.short(what.exchange).short(what.key).bits(0).table();
        consumer.say(1, BIND, bind).await?;
        consumer.answer(BIND_OK).await?;
        if is_durable {
            consumer.say(1, QOS, Arguments::default().long(0).number(PREFETCH).bits(0)).await?;
            consumer.answer(QOS_OK).await?;
        }
        let no_ack = if is_durable { 0 } else { 0b10 };
        let consume =
            Arguments::default().number(0).short(&queue).short("lab").bits(no_ack).table();
        consumer.say(1, CONSUME, consume).await?;
        consumer.answer(CONSUME_OK).await?;
        Ok(consumer)
    }

    /// The next record; `None` at the end of the connection.
    ///
    /// # Errors
    /// The connection broke, or the broker ends it with a reason.
    pub async fn next(&mut self) -> anyhow::Result<Option<Delivery>> {
        let Some((kind, frame)) = self.frame().await? else { return Ok(None) };
        let (method, mut arguments) = split_method(kind, frame)?;
        if method != DELIVER {
            bail!("expected a delivery, got {method:?}");
        }
        take_short(&mut arguments)?;
        let tag = arguments.try_get_u64()?;
        let (kind, mut header) = self.frame().await?.context("the connection ended")?;
        if kind != HEADER || header.len() < 12 {
            bail!("expected a content header, got a frame of type {kind}");
        }
        header.advance(4); // class and weight
        let size = usize::try_from(header.get_u64())?;
        let headers = take_headers(&mut header)?;
        let mut payload = BytesMut::with_capacity(size.min(FRAME_MAX as usize));
        while payload.len() < size {
            let (kind, body) = self.frame().await?.context("the connection ended")?;
            if kind != BODY {
                bail!("expected a content body, got a frame of type {kind}");
            }
            payload.put_slice(&body);
        }
        Ok(Some(Delivery { tag, headers, payload: payload.freeze() }))
    }

    /// The delivery is in good hands; the queue forgets it, if it is a durable one.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn acknowledge(&mut self, tag: u64) -> anyhow::Result<()> {
        if !self.is_durable {
            return Ok(());
        }
        let mut arguments = Arguments::default();
        arguments.0.put_u64(tag);
        self.say(1, ACK, arguments.bits(0)).await
    }

    async fn say(&mut self, channel: u16, method: Method, body: Arguments) -> anyhow::Result<()> {
        let mut frame = BytesMut::new();
        frame.put_u8(METHOD);
        frame.put_u16(channel);
        frame.put_u32(u32::try_from(body.0.len() + 4)?);
        frame.put_u16(method.0);
        frame.put_u16(method.1);
        frame.put_slice(&body.0);
        frame.put_u8(FRAME_END);
        Ok(self.socket.write_all(&frame).await?)
    }

    /// The arguments of the next frame, which must be this method.
    async fn answer(&mut self, expected: Method) -> anyhow::Result<Bytes> {
        let closed = || format!("the broker closed the connection instead of {expected:?}");
        let (kind, frame) = self.frame().await?.with_context(closed)?;
        let (method, arguments) = split_method(kind, frame)?;
        if method != expected {
            bail!("expected {expected:?}, got {method:?} {}", String::from_utf8_lossy(&arguments));
        }
        Ok(arguments)
    }

    async fn frame(&mut self) -> anyhow::Result<Option<(u8, Bytes)>> {
        loop {
            match split_frame(&mut self.buffer)? {
                Some((HEARTBEAT, _)) => {}
                Some(frame) => return Ok(Some(frame)),
                None if self.socket.read_buf(&mut self.buffer).await? == 0 => return Ok(None),
                None => {}
            }
        }
    }
}

/// Arguments of a method, in the order of its definition.
#[derive(Debug, Default)]
struct Arguments(BytesMut);

impl Arguments {
    fn number(mut self, number: u16) -> Self {
        self.0.put_u16(number);
        self
    }

    fn long(mut self, number: u32) -> Self {
        self.0.put_u32(number);
        self
    }

    fn bits(mut self, bits: u8) -> Self {
        self.0.put_u8(bits);
        self
    }

    /// Names of ours are short; a longer one than AMQP can carry is a mistake.
    fn short(mut self, text: &str) -> Self {
        self.0.put_u8(u8::try_from(text.len()).expect("a name of ours is short"));
        self.0.put_slice(text.as_bytes());
        self
    }

    /// An empty table.
    fn table(mut self) -> Self {
        self.0.put_u32(0);
        self
    }
}

fn split_frame(buffer: &mut BytesMut) -> anyhow::Result<Option<(u8, Bytes)>> {
    const HEAD: usize = 7;
    if buffer.len() < HEAD {
        return Ok(None);
    }
    let size = u32::from_be_bytes([buffer[3], buffer[4], buffer[5], buffer[6]]);
    if size > FRAME_MAX || buffer.starts_with(b"AMQP") {
        bail!("the broker speaks another protocol");
    }
    let end = HEAD + size as usize;
    if buffer.len() <= end {
        return Ok(None);
    }
    if buffer[end] != FRAME_END {
        bail!("a frame without its end");
    }
    let mut frame = buffer.split_to(end + 1).freeze();
    let kind = frame[0];
    frame.advance(HEAD);
    frame.truncate(size as usize);
    Ok(Some((kind, frame)))
}

fn split_method(kind: u8, mut frame: Bytes) -> anyhow::Result<(Method, Bytes)> {
    if kind != METHOD || frame.len() < 4 {
        bail!("expected a method, got a frame of type {kind}");
    }
    Ok(((frame.get_u16(), frame.get_u16()), frame))
}

/// The table of headers among the properties of a content header (AMQP 0-9-1, 4.2.6.1). Of its values,
/// those that are texts: nothing of ours travels as anything else.
fn take_headers(properties: &mut Bytes) -> anyhow::Result<BTreeMap<String, String>> {
    const CONTENT_TYPE: u16 = 1 << 15;
    const CONTENT_ENCODING: u16 = 1 << 14;
    const HEADERS: u16 = 1 << 13;
    let mut headers = BTreeMap::new();
    if properties.len() < 2 {
        bail!("a content header that ends too early");
    }
    let flags = properties.get_u16();
    for flag in [CONTENT_TYPE, CONTENT_ENCODING] {
        if flags & flag != 0 {
            take_short(properties)?;
        }
    }
    if flags & HEADERS == 0 {
        return Ok(headers);
    }
    let mut table = take_long(properties)?;
    while table.has_remaining() {
        let name = take_short(&mut table)?;
        match table.try_get_u8()? {
            b'S' => {
                let value = take_long(&mut table)?;
                headers.insert(name, String::from_utf8(value.to_vec())?);
            }
            other => bail!("the header {name} is of type {:?}, not a text", char::from(other)),
        }
    }
    Ok(headers)
}

/// Bytes behind their length.
fn take_long(bytes: &mut Bytes) -> anyhow::Result<Bytes> {
    let size = bytes.try_get_u32()? as usize;
    if bytes.len() < size {
        bail!("a text that ends too early");
    }
    Ok(bytes.split_to(size))
}

fn take_short(bytes: &mut Bytes) -> anyhow::Result<String> {
    let size = if bytes.has_remaining() { usize::from(bytes.get_u8()) } else { 0 };
    if bytes.len() < size {
        bail!("a name that ends too early");
    }
    Ok(String::from_utf8(bytes.split_to(size).to_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_split_when_they_are_whole() {
        let whole = [&[METHOD, 0, 1, 0, 0, 0, 5][..], &[0, 60, 0, 60, 7, FRAME_END]].concat();
        let mut buffer = BytesMut::from(&whole[..whole.len() - 1]);
        assert!(split_frame(&mut buffer).unwrap().is_none());
        buffer.put_slice(&[FRAME_END, METHOD]);
        let (kind, frame) = split_frame(&mut buffer).unwrap().unwrap();
        assert_eq!(split_method(kind, frame).unwrap(), (DELIVER, Bytes::from_static(&[7])));
        assert_eq!(buffer.len(), 1);
    }

    /// A frame on channel 1.
    fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut frame = vec![kind, 0, 1];
        frame.extend((body.len() as u32).to_be_bytes());
        frame.extend(body);
        frame.push(FRAME_END);
        frame
    }

    fn method((class, method): Method, arguments: &[u8]) -> Vec<u8> {
        let numbers = [class.to_be_bytes(), method.to_be_bytes()].concat();
        frame(METHOD, &[&numbers, arguments].concat())
    }

    #[tokio::test]
    async fn a_record_in_two_bodies_is_put_together() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // A content type, and one header.
        let properties = b"\xa0\x00\x04text\x00\x00\x00\x08\x01aS\x00\x00\x00\x01b";
        let header = [&60u16.to_be_bytes()[..], &[0, 0], &5u64.to_be_bytes(), properties].concat();
        // The answers of a broker, all at once: a consumer must not care how they are read.
        let script = [
            method(START, b"\x00\x09"),
            method(TUNE, &[0; 8]),
            method(OPEN_OK, &[0]),
            method(CHANNEL_OPEN_OK, &[0; 4]),
            frame(HEARTBEAT, &[]),
            method(DECLARE_OK, b"\x03own\0\0\0\0\0\0\0\0"),
            method(BIND_OK, &[]),
            method(CONSUME_OK, b"\x03lab"),
            method(DELIVER, b"\x03lab\0\0\0\0\0\0\0\x07\0"),
            frame(HEADER, &header),
            frame(BODY, b"hel"),
            frame(BODY, b"lo"),
            method((10, 50), b"closing"),
        ];
        let broker = async {
            let (mut socket, _) = listener.accept().await.unwrap();
            socket.write_all(&script.concat()).await.unwrap();
            let mut said = Vec::new();
            socket.read_to_end(&mut said).await.unwrap();
            said
        };
        let consumer = async {
            let socket = TcpStream::connect(address).await.unwrap();
            let what =
                Subscription { user: "me", password: "word", exchange: "x", key: "#", queue: None };
            let mut consumer = Consumer::subscribe(socket, what).await.unwrap();
            let delivery = consumer.next().await.unwrap().unwrap();
            assert_eq!((delivery.tag, &delivery.payload[..]), (7, &b"hello"[..]));
            assert_eq!(delivery.headers, [("a".to_owned(), "b".to_owned())].into());
            assert!(consumer.next().await.is_err(), "a method that is no delivery");
        };
        let (said, ()) = tokio::join!(broker, consumer);
        assert!(said.starts_with(b"AMQP\x00\x00\x09\x01"));
        assert!(said.windows(8).any(|window| window == b"\0me\0word"));
        assert!(
            said.windows(4).any(|window| window == b"\x03own"),
            "the queue's given name is used"
        );
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let refused = |bytes: &[u8]| split_frame(&mut BytesMut::from(bytes)).is_err();
        assert!(refused(b"AMQP\x00\x00\x09\x01"));
        assert!(refused(&[METHOD, 0, 0, 0xff, 0xff, 0xff, 0xff]));
        assert!(refused(&[METHOD, 0, 0, 0, 0, 0, 0, 7]));
        assert!(split_method(BODY, Bytes::from_static(&[0; 4])).is_err());
    }
}
