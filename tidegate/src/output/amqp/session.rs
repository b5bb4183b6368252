//! The client's side of AMQP 0-9-1: login, one channel in confirm mode, and the broker's verdicts.

use std::collections::VecDeque;
use std::time::Duration;

use amq_protocol::frame::{AMQPFrame, ProtocolVersion, parse_frame};
use amq_protocol::protocol::{AMQPClass, basic, channel, confirm, connection};
use amq_protocol::types::{AMQPValue, FieldTable, LongString, ShortString};
use bytes::{Buf, Bytes, BytesMut};
use tidegate_core::io::Refusal;
use tidegate_core::record::{DeliveryId, DropReason};
use tidegate_core::units::Time;

use super::AmqpOptions;
use super::encode::{self, CHANNEL, push_frame};
use crate::output::protocol::{Heartbeat, Protocol, ProtocolError, Verdicts};
use crate::port::Transmit;

/// Longest heartbeat that we agree to: a dead broker is noticed within twice this.
const HEARTBEAT_MAX: u16 = 15;
/// Frame size that we ask for, and the largest frame that we read.
const FRAME_MAX: u32 = 128 * 1024;
/// Type, channel and size of a frame.
const FRAME_HEAD: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Tune,
    Open,
    ChannelOpen,
    Select,
    Ready,
}

/// A record that waits for the broker's word.
#[derive(Debug)]
struct Unconfirmed {
    tag: u64,
    id: DeliveryId,
    message_id: String,
    /// The broker had nowhere to put it and returned it; its confirmation follows all the same.
    was_returned: bool,
}

/// The state of one connection after the other.
#[derive(Debug)]
pub struct Session {
    options: AmqpOptions,
    state: State,
    frame_max: usize,
    heartbeat: Heartbeat,
    is_blocked: bool,
    last_tag: u64,
    unconfirmed: VecDeque<Unconfirmed>,
    has_warned_unroutable: bool,
}

impl Session {
    /// A client that has not connected yet.
    pub fn new(options: AmqpOptions) -> Self {
        Session {
            options,
            state: State::Start,
            frame_max: FRAME_MAX as usize,
            heartbeat: Heartbeat::new(Time::ZERO, Duration::ZERO),
            is_blocked: false,
            last_tag: 0,
            unconfirmed: VecDeque::new(),
            has_warned_unroutable: false,
        }
    }

    fn frame(
        &mut self,
        now: Time,
        frame: AMQPFrame,
        out: &mut BytesMut,
        verdicts: &mut Verdicts,
    ) -> Result<(), ProtocolError> {
        match frame {
            AMQPFrame::Method(_, AMQPClass::Connection(method)) => {
                self.connection(now, method, out)
            }
            AMQPFrame::Method(_, AMQPClass::Channel(channel::AMQPMethod::Close(close))) => {
                Err(ProtocolError::Closed(close.reply_text.to_string()))
            }
            AMQPFrame::Method(_, AMQPClass::Channel(channel::AMQPMethod::OpenOk(_)))
                if self.state == State::ChannelOpen =>
            {
                let select = confirm::AMQPMethod::Select(confirm::Select { nowait: false });
                push_frame(out, &AMQPFrame::Method(CHANNEL, AMQPClass::Confirm(select)));
                self.state = State::Select;
                Ok(())
            }
            AMQPFrame::Method(_, AMQPClass::Confirm(confirm::AMQPMethod::SelectOk(_)))
                if self.state == State::Select =>
            {
                self.state = State::Ready;
                Ok(())
            }
            AMQPFrame::Method(_, AMQPClass::Basic(method)) if self.state == State::Ready => {
                self.basic(&method, verdicts);
                Ok(())
            }
            AMQPFrame::Header(_, header) if self.state == State::Ready => {
                let message_id = header.properties.message_id().as_ref().map(ShortString::as_str);
                self.returned(message_id.unwrap_or_default());
                Ok(())
            }
            AMQPFrame::Body(..) | AMQPFrame::Heartbeat => Ok(()),
            other => Err(malformed(format!("{other} while {:?}", self.state))),
        }
    }

    fn connection(
        &mut self,
        now: Time,
        method: connection::AMQPMethod,
        out: &mut BytesMut,
    ) -> Result<(), ProtocolError> {
        use connection::AMQPMethod as Method;
        let reply = match (method, self.state) {
            (Method::Start(start), State::Start) => {
                self.state = State::Tune;
                Method::StartOk(self.start_ok(&start)?)
            }
            (Method::Tune(tune), State::Tune) => {
                let tune = self.tune(now, &tune);
                push_frame(out, &global(Method::TuneOk(tune)));
                self.state = State::Open;
                let virtual_host = short(&self.options.virtual_host)?;
                Method::Open(connection::Open { virtual_host })
            }
            (Method::OpenOk(_), State::Open) => {
                self.state = State::ChannelOpen;
                let open = AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}));
                push_frame(out, &AMQPFrame::Method(CHANNEL, open));
                return Ok(());
            }
            (Method::Blocked(blocked), State::Ready) => {
                tracing::warn!(reason = %blocked.reason, "the broker is blocked: records wait here");
                self.is_blocked = true;
                return Ok(());
            }
            (Method::Unblocked(_), State::Ready) => {
                tracing::info!("the broker is free again");
                self.is_blocked = false;
                return Ok(());
            }
            (Method::Close(close), state) => {
                let text = close.reply_text.to_string();
                return Err(match state {
                    State::Start | State::Tune | State::Open => ProtocolError::Refused(text),
                    _ => ProtocolError::Closed(text),
                });
            }
            (other, state) => return Err(malformed(format!("{other:?} while {state:?}"))),
        };
        push_frame(out, &global(reply));
        Ok(())
    }

    fn start_ok(&self, start: &connection::Start) -> Result<connection::StartOk, ProtocolError> {
        let mechanisms = String::from_utf8_lossy(start.mechanisms.as_bytes()).into_owned();
        if !mechanisms.split(' ').any(|mechanism| mechanism == "PLAIN") {
            return Err(ProtocolError::Refused(format!("it wants one of {mechanisms}, not PLAIN")));
        }
        let mut capabilities = FieldTable::default();
        for name in ["publisher_confirms", "connection.blocked", "authentication_failure_close"] {
            capabilities.insert(short(name)?, AMQPValue::Boolean(true));
        }
        let mut client_properties = FieldTable::default();
        let product = AMQPValue::LongString(LongString::from("Tidegate"));
        client_properties.insert(short("product")?, product);
        client_properties.insert(short("capabilities")?, AMQPValue::FieldTable(capabilities));
        let AmqpOptions { user, password, .. } = &self.options;
        Ok(connection::StartOk {
            client_properties,
            mechanism: short("PLAIN")?,
            response: LongString::from(format!("\0{user}\0{password}")),
            locale: short("en_US")?,
        })
    }

    fn tune(&mut self, now: Time, tune: &connection::Tune) -> connection::TuneOk {
        let frame_max = if tune.frame_max == 0 { FRAME_MAX } else { tune.frame_max.min(FRAME_MAX) };
        // The standard's smallest frame; a broker that asks for less means something else.
        let frame_max = frame_max.max(4096);
        let heartbeat = if tune.heartbeat == 0 { 0 } else { tune.heartbeat.min(HEARTBEAT_MAX) };
        self.frame_max = frame_max as usize;
        self.heartbeat = Heartbeat::new(now, Duration::from_secs(heartbeat.into()));
        connection::TuneOk { channel_max: tune.channel_max, frame_max, heartbeat }
    }

    fn basic(&mut self, method: &basic::AMQPMethod, verdicts: &mut Verdicts) {
        match method {
            basic::AMQPMethod::Ack(ack) => {
                for record in self.settle(ack.delivery_tag, ack.multiple) {
                    if record.was_returned {
                        let refusal = Refusal::Final(DropReason::Unroutable);
                        verdicts.refused.push((record.id, refusal));
                    } else {
                        verdicts.confirmed.push(record.id);
                    }
                }
            }
            basic::AMQPMethod::Nack(nack) => {
                let settled = self.settle(nack.delivery_tag, nack.multiple);
                verdicts.refused.extend(settled.iter().map(|record| (record.id, Refusal::Retry)));
            }
            basic::AMQPMethod::Return(returned) if !self.has_warned_unroutable => {
                self.has_warned_unroutable = true;
                tracing::warn!(
                    exchange = %returned.exchange,
                    routing_key = %returned.routing_key,
                    "no queue is bound for a record: it is dropped (unroutable); bind a queue to the exchange"
                );
            }
            _ => {}
        }
    }

    fn returned(&mut self, message_id: &str) {
        let found = self.unconfirmed.iter_mut().find(|record| record.message_id == message_id);
        if let Some(record) = found {
            record.was_returned = true;
        }
    }

    /// Takes the records of a tag, or of all up to it, off the list.
    fn settle(&mut self, tag: u64, multiple: bool) -> Vec<Unconfirmed> {
        let upto = self.unconfirmed.partition_point(|record| record.tag <= tag);
        if multiple {
            return self.unconfirmed.drain(..upto).collect();
        }
        let place = upto.checked_sub(1).filter(|&place| self.unconfirmed[place].tag == tag);
        place.and_then(|place| self.unconfirmed.remove(place)).into_iter().collect()
    }
}

impl Protocol for Session {
    fn connect(&mut self, now: Time, out: &mut BytesMut) {
        *self = Session {
            has_warned_unroutable: self.has_warned_unroutable,
            ..Session::new(self.options.clone())
        };
        self.heartbeat = Heartbeat::new(now, Duration::ZERO);
        push_frame(out, &AMQPFrame::ProtocolHeader(ProtocolVersion::amqp_0_9_1()));
    }

    fn receive(
        &mut self,
        now: Time,
        input: &mut BytesMut,
        out: &mut BytesMut,
        verdicts: &mut Verdicts,
    ) -> Result<(), ProtocolError> {
        self.heartbeat.heard(now);
        while let Some(length) = frame_length(input, self.frame_max)? {
            let frame = match parse_frame(&input[..length]) {
                Ok(([], frame)) => frame,
                _ => return Err(malformed(format!("a frame of {length} bytes"))),
            };
            input.advance(length);
            self.frame(now, frame, out, verdicts)?;
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    fn may_send(&self) -> bool {
        self.is_ready() && !self.is_blocked
    }

    fn encode(&mut self, order: &Transmit) -> Result<Bytes, DropReason> {
        let bytes = encode::record(&self.options, self.frame_max, order)?;
        self.last_tag += 1;
        self.unconfirmed.push_back(Unconfirmed {
            tag: self.last_tag,
            id: order.id,
            message_id: order.record.identity.to_string(),
            was_returned: false,
        });
        Ok(bytes)
    }

    fn wrote(&mut self, now: Time) {
        self.heartbeat.said(now);
    }

    fn tick(&mut self, now: Time, out: &mut BytesMut) -> Result<(), ProtocolError> {
        if self.heartbeat.is_due(now)? {
            push_frame(out, &AMQPFrame::Heartbeat);
            self.heartbeat.said(now);
        }
        Ok(())
    }

    fn next_timeout(&self) -> Option<Time> {
        self.heartbeat.next_timeout()
    }

    fn close(&mut self, out: &mut BytesMut) {
        if let Ok(reply_text) = short("done") {
            let close =
                connection::Close { reply_code: 200, reply_text, class_id: 0, method_id: 0 };
            push_frame(out, &global(connection::AMQPMethod::Close(close)));
        }
    }
}

fn global(method: connection::AMQPMethod) -> AMQPFrame {
    AMQPFrame::Method(0, AMQPClass::Connection(method))
}

fn short(text: &str) -> Result<ShortString, ProtocolError> {
    let too_long = |_| ProtocolError::Refused(format!("{text:?} has more than 255 bytes"));
    ShortString::try_new(text).map_err(too_long)
}

fn malformed(what: String) -> ProtocolError {
    ProtocolError::Malformed { protocol: "AMQP 0-9-1", what }
}

/// Length of the first frame, once all of it is there.
fn frame_length(input: &[u8], frame_max: usize) -> Result<Option<usize>, ProtocolError> {
    if input.starts_with(b"AMQP") {
        return Err(malformed("a broker that wants another version".into()));
    }
    let Some(head) = input.get(..FRAME_HEAD) else { return Ok(None) };
    let body = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    if body > frame_max.max(FRAME_MAX as usize) {
        return Err(malformed(format!("a frame of {body} bytes, more than was agreed")));
    }
    let length = FRAME_HEAD + body + 1;
    Ok((input.len() >= length).then_some(length))
}

/// Takes arbitrary bytes from a broker: for fuzzing. Nothing they say may panic or grow memory.
pub fn fuzz(bytes: &[u8]) {
    let options = AmqpOptions {
        host: String::new(),
        port: 0,
        virtual_host: "/".into(),
        user: "guest".into(),
        password: "guest".into(),
        exchange: "amq.topic".into(),
        routing_key: "{topic}".into(),
        persistent: true,
        classes: [].into(),
    };
    let mut session = Session::new(options);
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
