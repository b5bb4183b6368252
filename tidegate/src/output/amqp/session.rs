//! The client's side of AMQP 0-9-1: login, one channel in confirm mode, and the broker's verdicts.

mod exercise;

use std::collections::VecDeque;
use std::time::Duration;

use amq_protocol::frame::{AMQPFrame, ProtocolVersion};
use amq_protocol::protocol::{AMQPClass, basic, channel, confirm, connection, exchange};
use amq_protocol::types::{AMQPValue, FieldTable, LongString, ShortString};
use bytes::BytesMut;
use tidegate_node::io::Refusal;
use tidegate_types::record::{DeliveryId, DropReason, Identity};
use tidegate_types::units::Time;

use super::AmqpOptions;
use super::encode::{self, CHANNEL, push_frame};
use super::incoming::{self, Said, malformed};
use crate::node::contract::Transmit;
use crate::output::protocol::{Heartbeat, Protocol, ProtocolError, Verdicts, words};

pub use exercise::fuzz;

/// Longest heartbeat that we agree to: a dead broker is noticed within twice this.
const HEARTBEAT_MAX: u16 = 15;
/// Frame size that we ask for, and the largest frame that we read.
const FRAME_MAX: u32 = 128 * 1024;
/// Between two warnings that the broker refuses records: one that is at its limit takes one, refuses the
/// next, and so on for days.
const WARNING_PERIOD: Duration = Duration::from_secs(600);
/// The standard's smallest frame size; a broker that asks for less means something else.
const FRAME_MIN: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    Tune,
    Open,
    /// The channel, the exchange and confirm mode are asked for at once, to save round trips; the
    /// answers come in this order.
    ChannelOpen,
    Exchange,
    Select,
    Ready,
}

/// A record that waits for the broker's word.
#[derive(Debug)]
struct Unconfirmed {
    tag: u64,
    id: DeliveryId,
    identity: Identity,
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
    /// The broker's newest word on records was no. Then one at a time asks whether it still is.
    is_refused: bool,
    warned_at: Option<Time>,
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
            is_refused: false,
            warned_at: None,
        }
    }

    fn said(
        &mut self,
        now: Time,
        said: Said,
        out: &mut BytesMut,
        verdicts: &mut Verdicts,
    ) -> Result<(), ProtocolError> {
        match (said, self.state) {
            (Said::Start { mechanisms }, State::Start) => {
                let start_ok = connection::AMQPMethod::StartOk(self.start_ok(&mechanisms)?);
                push_frame(out, &global(start_ok));
                self.state = State::Tune;
                Ok(())
            }
            (Said::Method(AMQPClass::Connection(method)), _) => self.connection(now, method, out),
            (Said::Method(AMQPClass::Basic(method)), State::Ready) => {
                self.basic(now, &method, verdicts);
                Ok(())
            }
            (Said::Method(AMQPClass::Channel(channel::AMQPMethod::Close(close))), State::Ready) => {
                // No connection was lost: what is unconfirmed is refused.
                let unconfirmed = self.unconfirmed.drain(..);
                verdicts.refused.extend(unconfirmed.map(|record| (record.id, Refusal::Retry)));
                self.is_refused = true;
                Err(ProtocolError::Rejected(words(close.reply_text.as_str())))
            }
            (Said::Method(method), _) => self.channel(method),
            (Said::Returned { message_id }, State::Ready) => {
                self.returned(&message_id);
                Ok(())
            }
            (Said::Nothing, _) => Ok(()),
            (other, state) => Err(malformed(format!("{other:?} while {state:?}"))),
        }
    }

    /// The answers to what `connection` asked for.
    fn channel(&mut self, method: AMQPClass) -> Result<(), ProtocolError> {
        self.state = match (method, self.state) {
            (AMQPClass::Channel(channel::AMQPMethod::Close(close)), _) => {
                let exchange = (self.state == State::Exchange).then_some(&*self.options.exchange);
                return Err(incoming::unusable(exchange, &close));
            }
            (AMQPClass::Channel(channel::AMQPMethod::OpenOk(_)), State::ChannelOpen) => {
                if self.has_exchange() { State::Exchange } else { State::Select }
            }
            (AMQPClass::Exchange(exchange::AMQPMethod::DeclareOk(_)), State::Exchange) => {
                State::Select
            }
            (AMQPClass::Confirm(confirm::AMQPMethod::SelectOk(_)), State::Select) => State::Ready,
            (other, state) => return Err(malformed(format!("{other:?} while {state:?}"))),
        };
        Ok(())
    }

    /// The default exchange cannot be asked for; it is always there.
    fn has_exchange(&self) -> bool {
        !self.options.exchange.is_empty()
    }

    /// Asks for all that publishing needs. The exchange is only looked up: better now than by a channel
    /// that closes at the first record.
    fn open_channel(&self, out: &mut BytesMut) -> Result<(), ProtocolError> {
        let mut ask = |method| push_frame(out, &AMQPFrame::Method(CHANNEL, method));
        ask(AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {})));
        if self.has_exchange() {
            let declare = exchange::Declare {
                exchange: short(&self.options.exchange)?,
                kind: short("topic")?,
                passive: true,
                durable: false,
                auto_delete: false,
                internal: false,
                nowait: false,
                arguments: FieldTable::default(),
            };
            ask(AMQPClass::Exchange(exchange::AMQPMethod::Declare(declare)));
        }
        let select = confirm::Select { nowait: false };
        ask(AMQPClass::Confirm(confirm::AMQPMethod::Select(select)));
        Ok(())
    }

    fn connection(
        &mut self,
        now: Time,
        method: connection::AMQPMethod,
        out: &mut BytesMut,
    ) -> Result<(), ProtocolError> {
        use connection::AMQPMethod as Method;
        let reply = match (method, self.state) {
            (Method::Tune(tune), State::Tune) => {
                let tune = self.tune(now, &tune);
                push_frame(out, &global(Method::TuneOk(tune)));
                self.state = State::Open;
                let virtual_host = short(&self.options.virtual_host)?;
                Method::Open(connection::Open { virtual_host })
            }
            (Method::OpenOk(_), State::Open) => {
                self.state = State::ChannelOpen;
                return self.open_channel(out);
            }
            (Method::Blocked(blocked), _) => {
                let reason = words(blocked.reason.as_str());
                tracing::warn!(reason, "the broker is blocked: records wait here");
                self.is_blocked = true;
                return Ok(());
            }
            (Method::Unblocked(_), _) => {
                tracing::info!("the broker is free again");
                self.is_blocked = false;
                return Ok(());
            }
            (Method::Close(close), state) => {
                let text = words(close.reply_text.as_str());
                return Err(match state {
                    State::Start | State::Tune => ProtocolError::Refused(text),
                    State::Open => {
                        ProtocolError::Unusable(format!("not to its virtual host: {text}"))
                    }
                    _ => ProtocolError::Closed(text),
                });
            }
            (other, state) => return Err(malformed(format!("{other:?} while {state:?}"))),
        };
        push_frame(out, &global(reply));
        Ok(())
    }

    fn start_ok(&self, mechanisms: &str) -> Result<connection::StartOk, ProtocolError> {
        if !mechanisms.split(' ').any(|mechanism| mechanism == "PLAIN") {
            let mechanisms = words(mechanisms);
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
            response: LongString::from(format!("\0{user}\0{}", &**password)),
            locale: short("en_US")?,
        })
    }

    fn tune(&mut self, now: Time, tune: &connection::Tune) -> connection::TuneOk {
        let frame_max = if tune.frame_max == 0 { FRAME_MAX } else { tune.frame_max };
        let frame_max = frame_max.clamp(FRAME_MIN, FRAME_MAX);
        // A broker that wants none (0) gets none.
        let heartbeat = tune.heartbeat.min(HEARTBEAT_MAX);
        self.frame_max = frame_max as usize;
        self.heartbeat = Heartbeat::new(now, Duration::from_secs(heartbeat.into()));
        connection::TuneOk { channel_max: tune.channel_max, frame_max, heartbeat }
    }

    fn basic(&mut self, now: Time, method: &basic::AMQPMethod, verdicts: &mut Verdicts) {
        match method {
            basic::AMQPMethod::Ack(ack) => {
                self.is_refused = false;
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
                self.is_refused = true;
                if self.warned_at.is_none_or(|at| now.since(at) >= WARNING_PERIOD) {
                    self.warned_at = Some(now);
                    let text = "the broker refuses records, which wait here and are tried again: is a queue full \
                                (x-overflow = reject-publish)?";
                    verdicts.told.push(text.into());
                }
                let settled = self.settle(nack.delivery_tag, nack.multiple);
                verdicts.refused.extend(settled.iter().map(|record| (record.id, Refusal::Retry)));
            }
            basic::AMQPMethod::Return(returned) if !self.has_warned_unroutable => {
                self.has_warned_unroutable = true;
                verdicts.told.push(format!(
                    "the broker has no queue for a record with the routing key {:?} ({}): such records are dropped \
                     and counted (unroutable); bind a queue to the exchange {:?}",
                    words(returned.routing_key.as_str()),
                    words(returned.reply_text.as_str()),
                    words(returned.exchange.as_str())
                ));
            }
            _ => {}
        }
    }

    fn returned(&mut self, message_id: &str) {
        // Returns come in the order of publishing, so the search is short.
        let found = self
            .unconfirmed
            .iter_mut()
            .find(|record| !record.was_returned && record.identity.to_string() == message_id);
        if let Some(record) = found {
            record.was_returned = true;
        }
    }

    /// Takes the records of a tag, or of all up to it, off the list.
    fn settle(&mut self, tag: u64, multiple: bool) -> Vec<Unconfirmed> {
        // The standard's way to say "all".
        let tag = if multiple && tag == 0 { u64::MAX } else { tag };
        let upto = self.unconfirmed.partition_point(|record| record.tag <= tag);
        if multiple {
            return self.unconfirmed.drain(..upto).collect();
        }
        let place = upto.checked_sub(1).filter(|&place| self.unconfirmed[place].tag == tag);
        place.and_then(|place| self.unconfirmed.remove(place)).into_iter().collect()
    }
}

impl Protocol for Session {
    /// Heartbeats are frames of another channel.
    const INTERLEAVES: bool = true;

    fn connect(&mut self, now: Time, out: &mut BytesMut) {
        *self = Session {
            has_warned_unroutable: self.has_warned_unroutable,
            is_refused: self.is_refused,
            warned_at: self.warned_at,
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
        while let Some(said) = incoming::next(input, self.frame_max)? {
            self.said(now, said, out, verdicts)?;
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    fn may_send(&self) -> bool {
        let may_ask = !self.is_refused || self.unconfirmed.is_empty();
        self.is_ready() && !self.is_blocked && may_ask
    }

    fn begin(&mut self, order: &Transmit, out: &mut BytesMut) -> Result<(), DropReason> {
        encode::begin(&self.options, self.frame_max, order, out)?;
        self.last_tag += 1;
        self.unconfirmed.push_back(Unconfirmed {
            tag: self.last_tag,
            id: order.id,
            identity: order.record.identity.clone(),
            was_returned: false,
        });
        Ok(())
    }

    fn piece(&mut self, piece: &[u8], out: &mut BytesMut) {
        encode::piece(self.frame_max, piece, out);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::test_protocol::{transmit, whole};
    use tidegate_types::headers;

    fn options() -> AmqpOptions {
        AmqpOptions {
            hosts: Vec::new(),
            tls: None,
            virtual_host: "plant".into(),
            user: "gate".into(),
            password: "secret".into(),
            exchange: "telemetry".into(),
            routing_key: "in.{topic}".into(),
            persistent: true,
            classes: ["ls".into(), "lt".into()].into(),
        }
    }

    /// Both ends of a connection in memory.
    struct Pair {
        session: Session,
        out: BytesMut,
    }

    impl Pair {
        fn new(options: AmqpOptions) -> Self {
            let mut pair = Pair { session: Session::new(options), out: BytesMut::new() };
            pair.session.connect(Time::ZERO, &mut pair.out);
            pair
        }

        fn ready() -> Self {
            let mut pair = Pair::new(options());
            pair.log_in(10);
            assert!(pair.session.may_send());
            pair
        }

        fn log_in(&mut self, heartbeat: u16) {
            self.hear(start("PLAIN AMQPLAIN")).unwrap();
            let tune = connection::Tune { channel_max: 2047, frame_max: 4096, heartbeat };
            self.hear(global(connection::AMQPMethod::Tune(tune))).unwrap();
            self.hear(global(connection::AMQPMethod::OpenOk(connection::OpenOk {}))).unwrap();
            for ok in [
                AMQPClass::Channel(channel::AMQPMethod::OpenOk(channel::OpenOk {})),
                AMQPClass::Exchange(exchange::AMQPMethod::DeclareOk(exchange::DeclareOk {})),
                AMQPClass::Confirm(confirm::AMQPMethod::SelectOk(confirm::SelectOk {})),
            ] {
                assert!(!self.session.is_ready());
                self.hear(AMQPFrame::Method(CHANNEL, ok)).unwrap();
            }
        }

        fn hear(&mut self, frame: AMQPFrame) -> Result<Verdicts, ProtocolError> {
            let (mut input, mut verdicts) = (BytesMut::new(), Verdicts::default());
            push_frame(&mut input, &frame);
            let Pair { session, out } = self;
            session.receive(Time::ZERO, &mut input, out, &mut verdicts).map(|()| verdicts)
        }

        fn hear_basic(&mut self, method: basic::AMQPMethod) -> Verdicts {
            self.hear(AMQPFrame::Method(CHANNEL, AMQPClass::Basic(method))).unwrap()
        }

        fn ack(&mut self, delivery_tag: u64, multiple: bool) -> Verdicts {
            self.hear_basic(basic::AMQPMethod::Ack(basic::Ack { delivery_tag, multiple }))
        }

        /// What was said since the last call.
        fn said(&mut self) -> Vec<AMQPFrame> {
            let bytes = self.out.split();
            let (mut rest, mut frames) = (&bytes[..], Vec::new());
            while !rest.is_empty() {
                let (after, frame) = amq_protocol::frame::parse_frame(rest).unwrap();
                (rest, frames) = (after, [frames, vec![frame]].concat());
            }
            frames
        }

        fn send(&mut self, id: u64) {
            self.session.begin(&whole(id, b"x"), &mut self.out).unwrap();
        }
    }

    fn start(mechanisms: &str) -> AMQPFrame {
        global(connection::AMQPMethod::Start(connection::Start {
            version_major: 0,
            version_minor: 9,
            server_properties: FieldTable::default(),
            mechanisms: mechanisms.into(),
            locales: "en_US".into(),
        }))
    }

    #[test]
    fn the_login_asks_for_all_that_publishing_needs() {
        let mut pair = Pair::new(options());
        assert_eq!(pair.out.split()[..], *b"AMQP\0\0\x09\x01");
        pair.log_in(60);
        let said: Vec<String> = pair.said().iter().map(|frame| format!("{frame}")).collect();
        let is = |place: usize, word: &str| said[place].contains(word);
        assert!(is(0, "StartOk") && is(0, "PLAIN") && is(1, "TuneOk") && is(1, "heartbeat: 15"));
        assert!(is(2, "plant") && is(4, "telemetry") && is(4, "passive: true"));
        assert!(is(5, "Select") && said.len() == 6);
        assert!(pair.session.is_ready());
    }

    #[test]
    fn a_record_is_one_publish_with_its_identity_in_the_headers() {
        let mut pair = Pair::ready();
        pair.said();
        let payload = vec![9; 6000];
        let order = Transmit { again: true, ..transmit(3, &payload, 0..1, 1) };
        pair.session.begin(&order, &mut pair.out).unwrap();
        pair.session.piece(&payload[..5000], &mut pair.out);
        pair.session.piece(&payload[5000..], &mut pair.out);
        let frames = pair.said();
        let AMQPFrame::Method(1, AMQPClass::Basic(basic::AMQPMethod::Publish(publish))) =
            &frames[0]
        else {
            panic!("{}", frames[0])
        };
        assert_eq!(publish.routing_key.as_str(), "in.plant.3.alarm");
        assert!(publish.mandatory);
        let AMQPFrame::Header(1, header) = &frames[1] else { panic!("{}", frames[1]) };
        let properties = &header.properties;
        assert_eq!((header.body_size, *properties.delivery_mode()), (6000, Some(2)));
        let id = properties.message_id().as_ref().map(ShortString::as_str);
        assert_eq!(id, Some("gate-7/0000000000001c9f/12/3"));
        assert_eq!(*properties.timestamp(), Some(1_700_000_000));
        let table = properties.headers().as_ref().unwrap().inner();
        let text = |name: &str| table[name].as_long_string().unwrap().to_string();
        assert_eq!((text(headers::SEQ), text(headers::CLASS)), ("3".into(), "ls".into()));
        assert_eq!(text(headers::SOURCE_TIME), "1700000000123456789");
        assert_eq!(text(headers::AGAIN), "1");
        let lengths: Vec<usize> = frames[2..]
            .iter()
            .map(|frame| match frame {
                AMQPFrame::Body(1, body) => body.len(),
                other => panic!("{other}"),
            })
            .collect();
        assert_eq!(lengths, [4088, 912, 1000], "no frame is larger than agreed, each cut ends one");
    }

    #[test]
    fn confirmations_may_name_one_many_or_all() {
        let mut pair = Pair::ready();
        (1..=9).for_each(|id| pair.send(id));
        assert_eq!(pair.ack(2, false).confirmed, [DeliveryId(2)]);
        assert_eq!(pair.ack(3, true).confirmed, [DeliveryId(1), DeliveryId(3)]);
        let nack = basic::Nack { delivery_tag: 5, multiple: true, requeue: false };
        let verdicts = pair.hear_basic(basic::AMQPMethod::Nack(nack));
        let retry = [4, 5].map(|id| (DeliveryId(id), Refusal::Retry));
        assert_eq!(verdicts.refused, retry);
        assert!(!pair.session.may_send(), "one at a time, from now on");
        assert_eq!(pair.ack(5, false), Verdicts::default(), "told before");
        assert_eq!(pair.ack(0, true).confirmed.len(), 4);
        assert!(pair.session.may_send());
        assert_eq!(pair.ack(77, true), Verdicts::default(), "never sent");
    }

    #[test]
    fn a_returned_record_is_unroutable_when_its_confirmation_comes() {
        let mut pair = Pair::ready();
        (1..=3).for_each(|id| pair.send(id));
        let sent = pair.said();
        let returned = basic::Return {
            reply_code: 312,
            reply_text: "NO_ROUTE".into(),
            exchange: "telemetry".into(),
            routing_key: "x".into(),
        };
        let told = pair.hear_basic(basic::AMQPMethod::Return(returned.clone())).told;
        assert!(
            told[0].contains("\"x\" (NO_ROUTE)") && told[0].contains("\"telemetry\""),
            "{told:?}"
        );
        assert_eq!(pair.hear_basic(basic::AMQPMethod::Return(returned)).told, [""; 0], "once");
        let header = sent.iter().filter(|frame| frame.is_header()).nth(1).unwrap().clone();
        pair.hear(header).unwrap();
        pair.hear(AMQPFrame::Body(CHANNEL, b"x".to_vec())).unwrap();
        let verdicts = pair.ack(3, true);
        assert_eq!(verdicts.confirmed, [DeliveryId(1), DeliveryId(3)]);
        let never = Refusal::Final(DropReason::Unroutable);
        assert_eq!(verdicts.refused, [(DeliveryId(2), never)]);
    }

    #[test]
    fn a_closed_channel_refuses_what_was_sent_and_one_record_asks_again() {
        let mut pair = Pair::ready();
        (1..=2).for_each(|id| pair.send(id));
        let close = |text: &str| {
            let reply_text = text.into();
            channel::Close { reply_code: 403, reply_text, class_id: 60, method_id: 40 }
        };
        let close = AMQPClass::Channel(channel::AMQPMethod::Close(close("ACCESS_REFUSED")));
        let (mut input, mut verdicts) = (BytesMut::new(), Verdicts::default());
        push_frame(&mut input, &AMQPFrame::Method(CHANNEL, close));
        let ended = pair.session.receive(Time::ZERO, &mut input, &mut pair.out, &mut verdicts);
        assert_eq!(ended, Err(ProtocolError::Rejected("ACCESS_REFUSED".into())));
        assert_eq!(verdicts.refused, [1, 2].map(|id| (DeliveryId(id), Refusal::Retry)));
        pair.session.connect(Time::ZERO, &mut pair.out);
        pair.log_in(10);
        assert!(pair.session.may_send());
        pair.send(1);
        assert!(!pair.session.may_send());
        assert_eq!(pair.ack(1, false).confirmed, [DeliveryId(1)]);
        assert!(pair.session.may_send());
    }

    #[test]
    fn a_blocked_broker_holds_new_records_only() {
        let mut pair = Pair::ready();
        let blocked = connection::Blocked { reason: "low on memory".into() };
        pair.hear(global(connection::AMQPMethod::Blocked(blocked))).unwrap();
        assert!(pair.session.is_ready() && !pair.session.may_send());
        pair.hear(global(connection::AMQPMethod::Unblocked(connection::Unblocked {}))).unwrap();
        assert!(pair.session.may_send());
    }

    #[test]
    fn refusals_are_told_in_the_brokers_words() {
        let close = |text: &str| connection::Close {
            reply_code: 403,
            reply_text: text.into(),
            class_id: 0,
            method_id: 0,
        };
        let mut pair = Pair::new(options());
        pair.hear(start("PLAIN")).unwrap();
        let refused = pair.hear(global(connection::AMQPMethod::Close(close("ACCESS_REFUSED\n"))));
        let error = refused.unwrap_err().to_string();
        assert_eq!(error, "the far end refuses the login: ACCESS_REFUSED");
        let mut pair = Pair::new(options());
        assert!(pair.hear(start("EXTERNAL")).unwrap_err().to_string().contains("EXTERNAL"));
        let mut pair = Pair::new(options());
        pair.hear(start("PLAIN")).unwrap();
        let tune = connection::Tune { channel_max: 1, frame_max: 4096, heartbeat: 0 };
        pair.hear(global(connection::AMQPMethod::Tune(tune))).unwrap();
        let refused = pair.hear(global(connection::AMQPMethod::Close(close("NOT_ALLOWED"))));
        let error = refused.unwrap_err().to_string();
        assert_eq!(error, "the far end lets us in, but not to its virtual host: NOT_ALLOWED");
        let mut pair = Pair::ready();
        let shutdown = pair.hear(global(connection::AMQPMethod::Close(close("SHUTDOWN"))));
        assert_eq!(shutdown, Err(ProtocolError::Closed("SHUTDOWN".into())));
    }

    #[test]
    fn an_exchange_that_is_missing_is_no_refused_login() {
        for (reply_code, cure) in [(404, "declare it there"), (403, "no right to the exchange")] {
            let close = channel::Close {
                reply_code,
                reply_text: "the broker's words".into(),
                class_id: 40,
                method_id: 10,
            };
            let mut pair = Pair::new(options());
            pair.hear(start("PLAIN")).unwrap();
            pair.session.state = State::Exchange;
            let mut input = BytesMut::new();
            let close = AMQPClass::Channel(channel::AMQPMethod::Close(close));
            push_frame(&mut input, &AMQPFrame::Method(CHANNEL, close));
            let ended = pair.session.receive(
                Time::ZERO,
                &mut input,
                &mut pair.out,
                &mut Verdicts::default(),
            );
            let error = ended.unwrap_err().to_string();
            assert!(error.starts_with("the far end lets us in, but "), "{error}");
            assert!(error.contains(cure) && error.contains("the broker's words"), "{error}");
        }
    }

    #[test]
    fn what_amqp_cannot_hold_is_refused_and_leaves_no_bytes() {
        let mut pair = Pair::ready();
        pair.said();
        let mut order = whole(1, b"x");
        let mut record = (*order.record).clone();
        record.key = "long/".repeat(60).into();
        order.record = record.into();
        assert_eq!(pair.session.begin(&order, &mut pair.out), Err(DropReason::Oversize));
        let mut record = (*whole(1, b"x").record).clone();
        let value = bytes::Bytes::from(vec![b'v'; 5000]);
        record.properties = tidegate_types::record::Properties::new(vec![("large".into(), value)]);
        order.record = record.into();
        assert_eq!(pair.session.begin(&order, &mut pair.out), Err(DropReason::Oversize));
        assert!(pair.out.is_empty());
        pair.send(2);
        assert_eq!(pair.ack(1, false).confirmed, [DeliveryId(2)], "no tag was spent");
    }

    #[test]
    fn heartbeats_go_out_in_time() {
        let mut pair = Pair::ready();
        pair.said();
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        assert_eq!(pair.session.next_timeout(), Some(at(5)));
        pair.session.tick(at(5), &mut pair.out).unwrap();
        assert_eq!(pair.said(), [AMQPFrame::Heartbeat]);
        assert!(pair.session.tick(at(20), &mut pair.out).is_err());
    }
}
