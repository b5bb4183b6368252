//! What a broker says to a publisher, taken off the wire frame by frame.
//!
//! The codec parses nested tables by recursion: a frame full of table heads would end the process. So
//! the two frames that carry tables (the greeting, and the header of a returned message) are read here,
//! stepping over tables by their length, and only methods without tables reach the codec.

use amq_protocol::frame::{AMQPFrame, parse_frame};
use amq_protocol::protocol::{AMQPClass, channel, constants};
use bytes::{Buf, BytesMut};

use crate::output::protocol::{ProtocolError, words};

/// Type, channel and size of a frame.
const HEAD: usize = 7;
/// Longest frame before a size is agreed.
const FRAME_MIN: usize = 4096;
/// Methods without tables that a broker may send to a publisher: connection, channel, exchange,
/// confirm, basic.
const METHODS: &[(u16, u16)] = &[
    (10, 30),
    (10, 41),
    (10, 50),
    (10, 51),
    (10, 60),
    (10, 61),
    (20, 11),
    (20, 40),
    (20, 41),
    (40, 11),
    (85, 11),
    (60, 50),
    (60, 80),
    (60, 120),
];
/// Why a broker closes a channel: what is named does not exist, or is not ours to use.
const NOT_FOUND: u16 = 404;
const ACCESS_REFUSED: u16 = 403;
/// `connection.start`.
const START: (u16, u16) = (10, 10);

/// One thing that the broker said.
#[derive(Debug, PartialEq)]
pub(super) enum Said {
    /// Its greeting, and the ways of logging in that it knows.
    Start {
        /// Separated by blanks.
        mechanisms: String,
    },
    /// A method without tables.
    Method(AMQPClass),
    /// The header of a message that comes back, with the identity that we gave it.
    Returned {
        /// Empty where it has none.
        message_id: String,
    },
    /// A sign of life, or the body of a message that comes back.
    Nothing,
}

/// Takes the first frame off `input`, once all of it is there.
///
/// # Errors
/// It is no frame that a broker sends to a publisher.
pub(super) fn next(input: &mut BytesMut, frame_max: usize) -> Result<Option<Said>, ProtocolError> {
    if input.starts_with(b"AMQP") {
        let version = input.get(5..8).map(|v| format!(" {}.{}.{}", v[0], v[1], v[2]));
        return Err(malformed(format!("it wants AMQP{}", version.unwrap_or_default())));
    }
    let Some(head) = input.get(..HEAD) else { return Ok(None) };
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    if size > frame_max.max(FRAME_MIN) {
        return Err(malformed(format!("a frame of {size} bytes, more than was agreed")));
    }
    let length = HEAD + size + 1;
    let Some(frame) = input.get(..length) else { return Ok(None) };
    let broken = || malformed(format!("a broken frame of type {}", frame[0]));
    if frame[length - 1] != constants::FRAME_END {
        return Err(broken());
    }
    let mut payload = Reader(&frame[HEAD..length - 1]);
    let said = match frame[0] {
        constants::FRAME_METHOD => method(frame, &mut payload)?,
        constants::FRAME_HEADER => {
            Said::Returned { message_id: message_id(&mut payload).ok_or_else(broken)? }
        }
        constants::FRAME_BODY | constants::FRAME_HEARTBEAT => Said::Nothing,
        _ => return Err(broken()),
    };
    input.advance(length);
    Ok(Some(said))
}

fn method(frame: &[u8], payload: &mut Reader<'_>) -> Result<Said, ProtocolError> {
    let broken = || malformed("a broken method".into());
    let number = (payload.u16().ok_or_else(broken)?, payload.u16().ok_or_else(broken)?);
    if number == START {
        let mechanisms = start(payload).ok_or_else(broken)?;
        return Ok(Said::Start { mechanisms });
    }
    if !METHODS.contains(&number) {
        let (class, method) = number;
        return Err(malformed(format!("method {class}.{method}, which no publisher expects")));
    }
    match parse_frame(frame) {
        Ok(([], AMQPFrame::Method(_, method))) => Ok(Said::Method(method)),
        _ => Err(broken()),
    }
}

/// The mechanisms of a `connection.start`: version, server's properties, mechanisms, locales.
fn start(payload: &mut Reader<'_>) -> Option<String> {
    payload.u16()?;
    payload.long()?;
    let mechanisms = payload.long()?;
    payload.long()?;
    Some(String::from_utf8_lossy(mechanisms).into_owned())
}

/// The `message-id` of a content header: class, weight, size, flags, then each property that has its
/// flag, from the highest.
fn message_id(payload: &mut Reader<'_>) -> Option<String> {
    const MESSAGE_ID: u16 = 1 << 7;
    payload.take(12)?;
    let flags = payload.u16()?;
    for place in (8..16).rev() {
        match (flags & 1 << place != 0, place) {
            (false, _) => {}
            // Headers; delivery mode; priority; all others are short strings.
            (true, 13) => drop(payload.long()?),
            (true, 12 | 11) => drop(payload.take(1)?),
            (true, _) => drop(payload.short()?),
        }
    }
    if flags & MESSAGE_ID == 0 {
        return Some(String::new());
    }
    Some(String::from_utf8_lossy(payload.short()?).into_owned())
}

/// Reads from the front of a payload; `None` where it is too short.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn short(&mut self) -> Option<&'a [u8]> {
        let length = self.take(1)?[0];
        self.take(usize::from(length))
    }

    /// A long string, or a whole table.
    fn long(&mut self) -> Option<&'a [u8]> {
        let length = self.take(4)?;
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]);
        self.take(length as usize)
    }
}

/// Why a channel is not to be had, and what to do about it at the broker; `exchange` is what was asked for last.
pub(super) fn unusable(exchange: Option<&str>, close: &channel::Close) -> ProtocolError {
    let said = words(close.reply_text.as_str());
    ProtocolError::Unusable(match (exchange, close.reply_code) {
        (Some(exchange), NOT_FOUND) => {
            format!("it has no exchange {exchange:?}: declare it there ({said})")
        }
        (Some(exchange), ACCESS_REFUSED) => {
            format!("our user has no right to the exchange {exchange:?} ({said})")
        }
        _ => format!("it opens no channel for us ({said})"),
    })
}

pub(super) fn malformed(what: String) -> ProtocolError {
    ProtocolError::Malformed { protocol: "AMQP 0-9-1", what }
}

#[cfg(test)]
mod tests {
    use amq_protocol::frame::AMQPContentHeader;
    use amq_protocol::protocol::basic::AMQPProperties;
    use amq_protocol::protocol::connection;
    use amq_protocol::types::{AMQPValue, FieldTable, LongString};

    use super::super::encode::push_frame;
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::from(&[kind, 0, 1][..]);
        bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&[constants::FRAME_END]);
        bytes
    }

    #[test]
    fn greetings_and_returned_headers_are_read_around_their_tables() {
        let mut table = FieldTable::default();
        table.insert("product".into(), AMQPValue::LongString(LongString::from("RabbitMQ")));
        let start = connection::Start {
            version_major: 0,
            version_minor: 9,
            server_properties: table.clone(),
            mechanisms: "PLAIN AMQPLAIN".into(),
            locales: "en_US".into(),
        };
        let start = AMQPClass::Connection(connection::AMQPMethod::Start(start));
        let properties = AMQPProperties::default()
            .with_content_type("text/plain".into())
            .with_headers(table)
            .with_delivery_mode(2)
            .with_priority(1)
            .with_correlation_id("c".into())
            .with_message_id("gate-7/1/2/3".into())
            .with_timestamp(7);
        let header = AMQPContentHeader { class_id: 60, body_size: 9, properties };
        let mut input = BytesMut::new();
        push_frame(&mut input, &AMQPFrame::Method(0, start));
        push_frame(&mut input, &AMQPFrame::Header(1, header));
        push_frame(&mut input, &AMQPFrame::Heartbeat);
        let mut said = || next(&mut input, 4096).unwrap();
        assert_eq!(said(), Some(Said::Start { mechanisms: "PLAIN AMQPLAIN".into() }));
        assert_eq!(said(), Some(Said::Returned { message_id: "gate-7/1/2/3".into() }));
        assert_eq!((said(), said()), (Some(Said::Nothing), None));
    }

    #[test]
    fn a_frame_is_taken_when_all_of_it_is_there() {
        let whole = frame(constants::FRAME_HEARTBEAT, b"");
        for length in 0..whole.len() {
            assert_eq!(next(&mut BytesMut::from(&whole[..length]), 4096), Ok(None));
        }
    }

    #[test]
    fn tables_within_tables_do_not_exhaust_the_stack() {
        // 25,000 arrays, each the only entry of the one before, in a greeting and in a queue.declare-ok.
        let mut nested = Vec::new();
        for depth in (0..25_000_u32).rev() {
            nested.push(b'A');
            nested.extend_from_slice(&(depth * 5).to_be_bytes());
        }
        let table = [&(nested.len() as u32 + 2).to_be_bytes()[..], &[1, b'x'], &nested].concat();
        for number in [[0, 10, 0, 10], [0, 60, 0, 20], [0, 50, 0, 11]] {
            let payload = [&number[..], &[0, 9], &table].concat();
            assert!(next(&mut frame(constants::FRAME_METHOD, &payload), 1 << 20).is_err());
        }
        let payload = [&[0; 12][..], &[0x20, 0], &table].concat();
        let said = next(&mut frame(constants::FRAME_HEADER, &payload), 1 << 20).unwrap();
        assert_eq!(said, Some(Said::Returned { message_id: String::new() }));
    }

    #[test]
    fn what_is_no_amqp_is_named() {
        let error = |bytes: &[u8]| next(&mut BytesMut::from(bytes), 4096).unwrap_err().to_string();
        assert!(error(b"AMQP\0\x01\0\0").ends_with("it wants AMQP 1.0.0"));
        assert!(error(b"HTTP/1.1 400 Bad Request").contains("more than was agreed"));
        assert!(error(&frame(9, b"")).contains("type 9"));
    }
}
