//! A client of AMQP 0-9-1: a consumer, and a publisher with confirms.
//!
//! Frames are read and written by the library that the node uses too. No mistake of its can cancel out: RabbitMQ, which
//! is another implementation, takes apart and writes anew whatever goes through it.

use std::collections::BTreeMap;

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, ProtocolVersion, gen_frame, parse_frame};
use amq_protocol::protocol::basic::{self, AMQPMethod as Basic, AMQPProperties};
use amq_protocol::protocol::connection::{self, AMQPMethod as Connection};
use amq_protocol::protocol::queue::{self, AMQPMethod as Queue};
use amq_protocol::protocol::{AMQPClass, channel, confirm};
use amq_protocol::types::{AMQPValue, LongString};
use anyhow::{Context, bail, ensure};
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::consume::Delivery;

/// Largest frame that we agree to, and what a frame takes beside its body.
const FRAME_MAX: u32 = 131_072;
const FRAME_OVERHEAD: usize = 8;
/// The one channel that we open.
const CHANNEL: u16 = 1;
/// Deliveries of a durable queue that may be unacknowledged.
const PREFETCH: u16 = 1000;
/// Delivery mode of what is kept over a restart.
const PERSISTENT: u8 = 2;

#[derive(Debug)]
struct Reader {
    socket: OwnedReadHalf,
    buffer: BytesMut,
}

impl Reader {
    /// The next frame that is no heartbeat; `None` at the end of the connection.
    async fn frame(&mut self) -> anyhow::Result<Option<AMQPFrame>> {
        loop {
            match split(&mut self.buffer)? {
                Some(AMQPFrame::Heartbeat) => {}
                Some(frame) => return Ok(Some(frame)),
                None if self.socket.read_buf(&mut self.buffer).await? == 0 => return Ok(None),
                None => {}
            }
        }
    }

    async fn method(&mut self) -> anyhow::Result<AMQPClass> {
        match self.frame().await?.context("the broker closed the connection")? {
            AMQPFrame::Method(_, method) => Ok(method),
            other => bail!("expected a method, got {other:?}"),
        }
    }
}

/// The first frame of what was read, if it is whole.
fn split(buffer: &mut BytesMut) -> anyhow::Result<Option<AMQPFrame>> {
    const HEAD: usize = 7;
    ensure!(!buffer.starts_with(b"AMQP"), "the broker speaks another protocol");
    let Some(head) = buffer.get(..HEAD) else { return Ok(None) };
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
    ensure!(size <= FRAME_MAX, "the broker speaks another protocol");
    let Some(frame) = buffer.get(..HEAD + size as usize + 1) else { return Ok(None) };
    let (rest, parsed) = parse_frame(frame).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    ensure!(rest.is_empty(), "a frame that is longer than it says");
    buffer.advance(HEAD + size as usize + 1);
    Ok(Some(parsed))
}

#[derive(Debug)]
struct Writer {
    socket: OwnedWriteHalf,
}

impl Writer {
    async fn send(&mut self, frames: &[AMQPFrame]) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        for frame in frames {
            let written = gen_frame(frame)(bytes.into());
            bytes = written.map_err(|error| anyhow::anyhow!("{error}"))?.into_inner().0;
        }
        Ok(self.socket.write_all(&bytes).await?)
    }

    async fn say(&mut self, method: AMQPClass) -> anyhow::Result<()> {
        let is_global = matches!(method, AMQPClass::Connection(_));
        self.send(&[AMQPFrame::Method(if is_global { 0 } else { CHANNEL }, method)]).await
    }
}

/// The answer, which must be this method.
macro_rules! answer {
    ($reader:expr, $($class:ident)::+($($method:ident)::+)) => {
        match $reader.method().await? {
            $($class)::+($($method)::+(it)) => it,
            other => bail!("expected {}, got {other:?}", stringify!($($method)::+)),
        }
    };
}

/// Logs in and opens the channel.
async fn open(socket: TcpStream, user: &str, password: &str) -> anyhow::Result<(Reader, Writer)> {
    let (socket, write) = socket.into_split();
    let mut reader = Reader { socket, buffer: BytesMut::new() };
    let mut writer = Writer { socket: write };
    writer.send(&[AMQPFrame::ProtocolHeader(ProtocolVersion::amqp_0_9_1())]).await?;
    answer!(reader, AMQPClass::Connection(Connection::Start));
    let login = connection::StartOk {
        mechanism: "PLAIN".into(),
        response: LongString::from(format!("\0{user}\0{password}")),
        locale: "en_US".into(),
        ..connection::StartOk::default()
    };
    writer.say(AMQPClass::Connection(Connection::StartOk(login))).await?;
    answer!(reader, AMQPClass::Connection(Connection::Tune));
    let tuned = connection::TuneOk { channel_max: 1, frame_max: FRAME_MAX, heartbeat: 0 };
    writer.say(AMQPClass::Connection(Connection::TuneOk(tuned))).await?;
    let host = connection::Open { virtual_host: "/".into() };
    writer.say(AMQPClass::Connection(Connection::Open(host))).await?;
    answer!(reader, AMQPClass::Connection(Connection::OpenOk));
    writer.say(AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}))).await?;
    answer!(reader, AMQPClass::Channel(channel::AMQPMethod::OpenOk));
    Ok((reader, writer))
}

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
        let declare = queue::Declare {
            queue: what.queue.unwrap_or_default().into(),
            durable: is_durable,
            exclusive: !is_durable,
            auto_delete: !is_durable,
            ..queue::Declare::default()
        };
        writer.say(AMQPClass::Queue(Queue::Declare(declare))).await?;
        let queue = answer!(reader, AMQPClass::Queue(Queue::DeclareOk)).queue;
        let bind = queue::Bind {
            queue: queue.clone(),
            exchange: what.exchange.into(),
            routing_key: what.key.into(),
            ..queue::Bind::default()
        };
        writer.say(AMQPClass::Queue(Queue::Bind(bind))).await?;
        answer!(reader, AMQPClass::Queue(Queue::BindOk));
        if is_durable {
            let most = basic::Qos { prefetch_count: PREFETCH, global: false };
            writer.say(AMQPClass::Basic(Basic::Qos(most))).await?;
            answer!(reader, AMQPClass::Basic(Basic::QosOk));
        }
        let consumer_tag = "lab".into();
        let consume = basic::Consume {
            queue,
            consumer_tag,
            no_ack: !is_durable,
            ..basic::Consume::default()
        };
        writer.say(AMQPClass::Basic(Basic::Consume(consume))).await?;
        answer!(reader, AMQPClass::Basic(Basic::ConsumeOk));
        Ok(Consumer { reader, writer, is_durable })
    }

    /// The next record; `None` at the end of the connection.
    ///
    /// # Errors
    /// The connection broke, or the broker ends it with a reason.
    pub async fn next(&mut self) -> anyhow::Result<Option<Delivery>> {
        let tag = match self.reader.frame().await? {
            None => return Ok(None),
            Some(AMQPFrame::Method(_, AMQPClass::Basic(Basic::Deliver(it)))) => it.delivery_tag,
            Some(other) => bail!("expected a delivery, got {other:?}"),
        };
        let header = match self.reader.frame().await?.context("the connection ended")? {
            AMQPFrame::Header(_, header) => header,
            other => bail!("expected a content header, got {other:?}"),
        };
        let size = usize::try_from(header.body_size)?;
        let mut payload = BytesMut::with_capacity(size.min(FRAME_MAX as usize));
        while payload.len() < size {
            match self.reader.frame().await?.context("the connection ended")? {
                AMQPFrame::Body(_, body) => payload.extend_from_slice(&body),
                other => bail!("expected a content body, got {other:?}"),
            }
        }
        Ok(Some(Delivery { tag, headers: texts(&header)?, payload: payload.freeze() }))
    }

    /// The delivery is in good hands; the queue forgets it, if it is a durable one.
    pub async fn acknowledge(&mut self, tag: u64) -> anyhow::Result<()> {
        if !self.is_durable {
            return Ok(());
        }
        let ack = basic::Ack { delivery_tag: tag, multiple: false };
        self.writer.say(AMQPClass::Basic(Basic::Ack(ack))).await
    }
}

/// The headers of a record, which are texts: nothing of ours travels as anything else.
fn texts(header: &AMQPContentHeader) -> anyhow::Result<BTreeMap<String, String>> {
    let mut texts = BTreeMap::new();
    for (name, value) in header.properties.headers().iter().flatten() {
        let AMQPValue::LongString(text) = value else { bail!("the header {name} is {value:?}") };
        texts.insert(name.to_string(), String::from_utf8(text.as_bytes().to_vec())?);
    }
    Ok(texts)
}

#[derive(Debug)]
pub struct Publisher {
    writer: Writer,
    exchange: String,
}

/// The half on which confirms come.
#[derive(Debug)]
pub struct Confirms {
    reader: Reader,
}

/// The broker has taken, or will not take, the record of a tag: the n-th published, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm {
    pub tag: u64,
    /// Of all older ones too.
    pub is_multiple: bool,
    /// Whether it is taken.
    pub is_taken: bool,
}

/// Logs in and asks for confirms.
pub async fn publisher(
    socket: TcpStream,
    (user, password): (&str, &str),
    exchange: &str,
) -> anyhow::Result<(Publisher, Confirms)> {
    let (mut reader, mut writer) = open(socket, user, password).await?;
    let select = confirm::AMQPMethod::Select(confirm::Select { nowait: false });
    writer.say(AMQPClass::Confirm(select)).await?;
    answer!(reader, AMQPClass::Confirm(confirm::AMQPMethod::SelectOk));
    Ok((Publisher { writer, exchange: exchange.into() }, Confirms { reader }))
}

impl Publisher {
    /// Sends a record; its [`Confirm`] follows.
    pub async fn publish(&mut self, key: &str, payload: &[u8]) -> anyhow::Result<()> {
        let publish = basic::Publish {
            exchange: self.exchange.as_str().into(),
            routing_key: key.into(),
            ..basic::Publish::default()
        };
        let header = AMQPContentHeader {
            class_id: publish.get_amqp_class_id(),
            body_size: payload.len() as u64,
            properties: AMQPProperties::default().with_delivery_mode(PERSISTENT),
        };
        let bodies = payload.chunks(FRAME_MAX as usize - FRAME_OVERHEAD);
        let mut frames = vec![
            AMQPFrame::Method(CHANNEL, AMQPClass::Basic(Basic::Publish(publish))),
            AMQPFrame::Header(CHANNEL, header),
        ];
        frames.extend(bodies.map(|body| AMQPFrame::Body(CHANNEL, body.to_vec())));
        self.writer.send(&frames).await
    }
}

impl Confirms {
    /// The next one; `None` at the end of the connection.
    pub async fn next(&mut self) -> anyhow::Result<Option<Confirm>> {
        let (tag, is_multiple, is_taken) = match self.reader.frame().await? {
            None => return Ok(None),
            Some(AMQPFrame::Method(_, AMQPClass::Basic(Basic::Ack(it)))) => {
                (it.delivery_tag, it.multiple, true)
            }
            Some(AMQPFrame::Method(_, AMQPClass::Basic(Basic::Nack(it)))) => {
                (it.delivery_tag, it.multiple, false)
            }
            Some(other) => bail!("expected a confirm, got {other:?}"),
        };
        Ok(Some(Confirm { tag, is_multiple, is_taken }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_record_of_several_frames_is_published_and_a_refusal_heard() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let payload = vec![b'x'; FRAME_MAX as usize + 10];
        let broker = async {
            let (socket, _) = listener.accept().await.unwrap();
            let (socket, write) = socket.into_split();
            let (mut reader, mut writer) =
                (Reader { socket, buffer: BytesMut::new() }, Writer { socket: write });
            let nack = basic::Nack { delivery_tag: 7, multiple: true, requeue: false };
            for answer in [
                AMQPClass::Connection(Connection::Start(connection::Start::default())),
                AMQPClass::Connection(Connection::Tune(connection::Tune::default())),
                AMQPClass::Connection(Connection::OpenOk(connection::OpenOk {})),
                AMQPClass::Channel(channel::AMQPMethod::OpenOk(channel::OpenOk {})),
                AMQPClass::Confirm(confirm::AMQPMethod::SelectOk(confirm::SelectOk {})),
                AMQPClass::Basic(Basic::Nack(nack)),
            ] {
                writer.say(answer).await.unwrap();
            }
            let mut name = [0; 8];
            reader.socket.read_exact(&mut name).await.unwrap();
            let mut frames = Vec::new();
            while let Some(frame) = reader.frame().await.unwrap() {
                frames.push(frame);
            }
            frames
        };
        let client = async {
            let socket = TcpStream::connect(address).await.unwrap();
            let (mut publisher, mut confirms) =
                publisher(socket, ("me", "word"), "amq.topic").await.unwrap();
            publisher.publish("plant.bulk", &payload).await.unwrap();
            let confirm = confirms.next().await.unwrap().unwrap();
            assert_eq!(confirm, Confirm { tag: 7, is_multiple: true, is_taken: false });
        };
        let (frames, ()) = tokio::join!(broker, client);
        let bodies = frames.iter().filter_map(|frame| match frame {
            AMQPFrame::Body(_, body) => Some(body.len()),
            _ => None,
        });
        let most = FRAME_MAX as usize - FRAME_OVERHEAD;
        assert_eq!(bodies.collect::<Vec<_>>(), [most, payload.len() - most]);
        assert!(format!("{frames:?}").contains("plant.bulk"), "{:?}", &frames[..6]);
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let refused = |bytes: &[u8]| split(&mut BytesMut::from(bytes)).is_err();
        assert!(refused(b"AMQP\0\0\x09\x01") && refused(&[1, 0, 0, 0xff, 0xff, 0xff, 0xff]));
        assert!(refused(&[1, 0, 0, 0, 0, 0, 0, 7]), "a frame without its end");
        assert!(split(&mut BytesMut::from(&[8, 0, 0, 0, 0][..])).unwrap().is_none());
    }
}
