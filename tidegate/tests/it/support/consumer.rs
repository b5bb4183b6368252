//! A small AMQP client: declares and binds queues, and takes what is in them.

use std::collections::BTreeMap;

use amq_protocol::frame::{AMQPFrame, ProtocolVersion, gen_frame, parse_frame};
use amq_protocol::protocol::basic::AMQPProperties;
use amq_protocol::protocol::{AMQPClass, basic, channel, connection, queue};
use amq_protocol::types::FieldTable;
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::PATIENCE;

/// A message as a consumer sees it.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) routing_key: String,
    pub(crate) properties: AMQPProperties,
    pub(crate) payload: Vec<u8>,
}

impl Message {
    /// The headers, as text.
    pub(crate) fn headers(&self) -> BTreeMap<String, String> {
        let table = self.properties.headers().as_ref().unwrap();
        let text =
            |value: &amq_protocol::types::AMQPValue| value.as_long_string().unwrap().to_string();
        table.inner().iter().map(|(name, value)| (name.to_string(), text(value))).collect()
    }
}

/// A connection with one channel.
pub(crate) struct Consumer {
    stream: TcpStream,
    input: BytesMut,
}

impl Consumer {
    /// Logs in; `None` where nobody serves yet.
    pub(crate) async fn connect(port: u16) -> Option<Consumer> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        let mut consumer = Consumer { stream, input: BytesMut::new() };
        consumer.say(&AMQPFrame::ProtocolHeader(ProtocolVersion::amqp_0_9_1())).await?;
        consumer.hear().await?;
        let start_ok = connection::StartOk {
            client_properties: FieldTable::default(),
            mechanism: "PLAIN".into(),
            response: "\0guest\0guest".into(),
            locale: "en_US".into(),
        };
        consumer.connection(connection::AMQPMethod::StartOk(start_ok)).await?;
        let tune = consumer.hear().await?;
        let AMQPFrame::Method(_, AMQPClass::Connection(connection::AMQPMethod::Tune(tune))) = tune
        else {
            return None;
        };
        let tune_ok = connection::TuneOk {
            channel_max: tune.channel_max,
            frame_max: tune.frame_max,
            heartbeat: 0,
        };
        consumer.connection(connection::AMQPMethod::TuneOk(tune_ok)).await?;
        let open = connection::Open { virtual_host: "/".into() };
        consumer.connection(connection::AMQPMethod::Open(open)).await?;
        consumer.hear().await?;
        consumer.ask(AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}))).await?;
        Some(consumer)
    }

    /// Makes a durable queue that gets what is published with keys that match `pattern`.
    pub(crate) async fn bind(&mut self, queue: &str, pattern: &str) {
        self.bind_with(queue, pattern, FieldTable::default()).await;
    }

    /// The same with arguments of the queue's own.
    pub(crate) async fn bind_with(&mut self, queue: &str, pattern: &str, arguments: FieldTable) {
        let declare = queue::Declare {
            queue: queue.into(),
            passive: false,
            durable: true,
            exclusive: false,
            auto_delete: false,
            nowait: false,
            arguments,
        };
        self.ask(AMQPClass::Queue(queue::AMQPMethod::Declare(declare))).await.unwrap();
        let bind = queue::Bind {
            queue: queue.into(),
            exchange: "amq.topic".into(),
            routing_key: pattern.into(),
            nowait: false,
            arguments: FieldTable::default(),
        };
        self.ask(AMQPClass::Queue(queue::AMQPMethod::Bind(bind))).await.unwrap();
    }

    /// Takes everything that is in a queue now.
    pub(crate) async fn take_all(&mut self, queue: &str) -> Vec<Message> {
        let mut messages = Vec::new();
        loop {
            let get = basic::Get { queue: queue.into(), no_ack: true };
            let answer = self.ask(AMQPClass::Basic(basic::AMQPMethod::Get(get))).await.unwrap();
            let AMQPFrame::Method(_, AMQPClass::Basic(basic::AMQPMethod::GetOk(ok))) = answer
            else {
                return messages;
            };
            let Some(AMQPFrame::Header(_, header)) = self.hear().await else { panic!("a header") };
            let mut payload = Vec::new();
            while payload.len() < header.body_size as usize {
                let Some(AMQPFrame::Body(_, part)) = self.hear().await else { panic!("a body") };
                payload.extend(part);
            }
            let routing_key = ok.routing_key.to_string();
            messages.push(Message { routing_key, properties: header.properties, payload });
        }
    }

    async fn ask(&mut self, method: AMQPClass) -> Option<AMQPFrame> {
        self.say(&AMQPFrame::Method(1, method)).await?;
        self.hear().await
    }

    async fn connection(&mut self, method: connection::AMQPMethod) -> Option<()> {
        self.say(&AMQPFrame::Method(0, AMQPClass::Connection(method))).await
    }

    async fn say(&mut self, frame: &AMQPFrame) -> Option<()> {
        let bytes = gen_frame(frame)(Vec::new().into()).unwrap().into_inner().0;
        self.stream.write_all(&bytes).await.ok()
    }

    /// The next frame that is no heartbeat; `None` where the connection ends.
    async fn hear(&mut self) -> Option<AMQPFrame> {
        loop {
            if let Ok((rest, frame)) = parse_frame(&self.input[..]) {
                let length = self.input.len() - rest.len();
                self.input.advance(length);
                if frame != AMQPFrame::Heartbeat {
                    return Some(frame);
                }
                continue;
            }
            let read = self.stream.read_buf(&mut self.input);
            if timeout(PATIENCE, read).await.unwrap().ok()? == 0 {
                return None;
            }
        }
    }
}
