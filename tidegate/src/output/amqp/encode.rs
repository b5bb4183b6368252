//! A record as AMQP frames: method, header, and a body split at the broker's frame size.

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, gen_frame};
use amq_protocol::protocol::basic::{AMQPMethod, AMQPProperties, Publish};
use amq_protocol::protocol::{AMQPClass, constants};
use amq_protocol::types::{AMQPValue, FieldTable, LongString, ShortString};
use bytes::{BufMut, Bytes, BytesMut};
use tidegate_core::record::{Body, DropReason, Record};

use super::AmqpOptions;
use crate::output::headers;
use crate::port::Transmit;

/// The one channel of a connection.
pub(super) const CHANNEL: u16 = 1;
/// Bytes of a frame that are not body: type, channel, size, end.
const FRAME_OVERHEAD: usize = 8;
/// AMQP's mode for messages that survive a restart of the broker.
const PERSISTENT: u8 = 2;
/// Class `basic` in content headers.
const BASIC: u16 = 60;

/// Appends a frame.
pub(super) fn push_frame(out: &mut BytesMut, frame: &AMQPFrame) {
    let written = cookie_factory::gen_simple(gen_frame(frame), Vec::new());
    out.extend_from_slice(&written.expect("a Vec takes every frame"));
}

/// All frames of a record.
///
/// # Errors
/// `Oversize` where the key does not fit in AMQP's 255 bytes.
pub(super) fn record(
    options: &AmqpOptions,
    frame_max: usize,
    order: &Transmit,
) -> Result<Bytes, DropReason> {
    let record = &*order.record;
    let Body::Resident(payload) = &record.body else { return Err(DropReason::Unprepared) };
    let text = |text: &str| ShortString::try_new(text).map_err(|_| DropReason::Oversize);
    let publish = Publish {
        exchange: text(&options.exchange)?,
        routing_key: text(&routing_key(options, record))?,
        mandatory: true,
        immediate: false,
    };
    let method = AMQPFrame::Method(CHANNEL, AMQPClass::Basic(AMQPMethod::Publish(publish)));
    let header = AMQPContentHeader {
        class_id: BASIC,
        body_size: payload.len() as u64,
        properties: properties(options, order)?,
    };
    let mut out = BytesMut::with_capacity(payload.len() + 512);
    push_frame(&mut out, &method);
    push_frame(&mut out, &AMQPFrame::Header(CHANNEL, header));
    let part = if frame_max == 0 { usize::MAX } else { frame_max - FRAME_OVERHEAD };
    for body in payload.chunks(part) {
        out.put_u8(constants::FRAME_BODY);
        out.put_u16(CHANNEL);
        out.put_u32(u32::try_from(body.len()).map_err(|_| DropReason::Oversize)?);
        out.put_slice(body);
        out.put_u8(constants::FRAME_END);
    }
    Ok(out.freeze())
}

fn routing_key(options: &AmqpOptions, record: &Record) -> String {
    let topic = String::from_utf8_lossy(&record.key).replace('/', ".");
    options.routing_key.replace("{topic}", &topic)
}

fn properties(options: &AmqpOptions, order: &Transmit) -> Result<AMQPProperties, DropReason> {
    let record = &*order.record;
    let mut table = FieldTable::default();
    let class = &options.classes[order.class.index()];
    for (name, value) in headers::of(record, class, order.again) {
        let name = ShortString::try_new(name).map_err(|_| DropReason::Oversize)?;
        table.insert(name, AMQPValue::LongString(LongString::from(value)));
    }
    let identity = ShortString::try_new(record.identity.to_string());
    let mut properties = AMQPProperties::default()
        .with_headers(table)
        .with_message_id(identity.map_err(|_| DropReason::Oversize)?);
    if let Some(unix_ns) = record.source_unix_ns {
        properties = properties.with_timestamp(unix_ns / 1_000_000_000);
    }
    if options.persistent {
        properties = properties.with_delivery_mode(PERSISTENT);
    }
    Ok(properties)
}
