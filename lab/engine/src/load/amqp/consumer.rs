//! A queue of its own or a durable one, bound to an exchange, and all that comes into it.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::net::TcpStream;

use super::{
    Arguments, BODY, CHANNEL, FRAME_MAX, HEADER, Method, Reader, Writer, open, split_method,
    take_long, take_short,
};
use crate::load::consume::Delivery;

const DECLARE: Method = (50, 10);
const DECLARE_OK: Method = (50, 11);
const BIND: Method = (50, 20);
const BIND_OK: Method = (50, 21);
const QOS: Method = (60, 10);
const QOS_OK: Method = (60, 11);
const CONSUME: Method = (60, 20);
const CONSUME_OK: Method = (60, 21);
const DELIVER: Method = (60, 60);
const ACK: Method = (60, 80);
/// Deliveries of a durable queue that may be unacknowledged.
const PREFETCH: u16 = 1000;

/// A subscription: everything that an exchange gets under a binding key.
#[derive(Debug)]
pub struct Consumer {
    reader: Reader,
    writer: Writer,
    is_durable: bool,
}

/// Whose eyes, and on what.
#[derive(Clone, Copy, Debug)]
pub struct Subscription<'a> {
    pub user: &'a str,
    pub password: &'a str,
    pub exchange: &'a str,
    pub key: &'a str,
    /// A durable queue of this name, whose deliveries are acknowledged; else one that goes with the
    /// connection.
    pub queue: Option<&'a str>,
}

impl Consumer {
    /// Logs in, declares the queue, binds it and consumes it.
    pub async fn subscribe(socket: TcpStream, what: Subscription<'_>) -> anyhow::Result<Consumer> {
        let (mut reader, mut writer) = open(socket, what.user, what.password).await?;
        let is_durable = what.queue.is_some();
        // Durable, or exclusive and deleted with its last consumer.
        let kind = if is_durable { 0b10 } else { 0b1100 };
        let name = what.queue.unwrap_or_default();
        let declare = Arguments::default().number(0).short(name).bits(kind).table();
        writer.say(CHANNEL, DECLARE, declare).await?;
        let mut answer = reader.answer(DECLARE_OK).await?;
        let queue = take_short(&mut answer)?;
        let bind = Arguments::default().number(0).short(&queue);
        let bind = bind.short(what.exchange).short(what.key).bits(0).table();
        writer.say(CHANNEL, BIND, bind).await?;
        reader.answer(BIND_OK).await?;
        if is_durable {
            writer.say(CHANNEL, QOS, Arguments::default().long(0).number(PREFETCH).bits(0)).await?;
            reader.answer(QOS_OK).await?;
        }
        let no_ack = if is_durable { 0 } else { 0b10 };
        let consume =
            Arguments::default().number(0).short(&queue).short("lab").bits(no_ack).table();
        writer.say(CHANNEL, CONSUME, consume).await?;
        reader.answer(CONSUME_OK).await?;
        Ok(Consumer { reader, writer, is_durable })
    }

    /// The next record; `None` at the end of the connection.
    ///
    /// # Errors
    /// The connection broke, or the broker ends it with a reason.
    pub async fn next(&mut self) -> anyhow::Result<Option<Delivery>> {
        let Some((kind, frame)) = self.reader.frame().await? else { return Ok(None) };
        let (method, mut arguments) = split_method(kind, frame)?;
        if method != DELIVER {
            bail!("expected a delivery, got {method:?}");
        }
        take_short(&mut arguments)?;
        let tag = arguments.try_get_u64()?;
        let (kind, mut header) = self.reader.frame().await?.context("the connection ended")?;
        if kind != HEADER || header.len() < 12 {
            bail!("expected a content header, got a frame of type {kind}");
        }
        header.advance(4); // class and weight
        let size = usize::try_from(header.get_u64())?;
        let headers = take_headers(&mut header)?;
        let mut payload = BytesMut::with_capacity(size.min(FRAME_MAX as usize));
        while payload.len() < size {
            let (kind, body) = self.reader.frame().await?.context("the connection ended")?;
            if kind != BODY {
                bail!("expected a content body, got a frame of type {kind}");
            }
            payload.put_slice(&body);
        }
        Ok(Some(Delivery { tag, headers, payload: payload.freeze() }))
    }

    /// The delivery is in good hands; the queue forgets it, if it is a durable one.
    pub async fn acknowledge(&mut self, tag: u64) -> anyhow::Result<()> {
        if !self.is_durable {
            return Ok(());
        }
        self.writer.say(CHANNEL, ACK, Arguments::default().longlong(tag).bits(0)).await
    }
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::{CHANNEL_OPEN_OK, FRAME_END, HEARTBEAT, METHOD, OPEN_OK, START, TUNE};
    use super::*;

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
}
