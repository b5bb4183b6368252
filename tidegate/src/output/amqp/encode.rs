//! A record as AMQP frames: method, content header, and a body that is cut as the node says.

use amq_protocol::frame::{AMQPContentHeader, AMQPFrame, gen_frame};
use amq_protocol::protocol::basic::{AMQPMethod, AMQPProperties, Publish};
use amq_protocol::protocol::{AMQPClass, constants};
use amq_protocol::types::{AMQPValue, FieldTable, LongString, ShortString};
use bytes::{BufMut, BytesMut};
use tidegate_types::headers;
use tidegate_types::record::{DropReason, Record};

use super::AmqpOptions;
use crate::node::contract::Transmit;

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
    let written = gen_frame(frame)(Vec::new().into()).map(|context| context.into_inner().0);
    out.extend_from_slice(&written.expect("a Vec takes every frame"));
}

/// Appends what goes before a record's payload: method and content header.
///
/// # Errors
/// `Oversize` where something does not fit in AMQP's fields or in the broker's frames.
pub(super) fn begin(
    options: &AmqpOptions,
    frame_max: usize,
    order: &Transmit,
    out: &mut BytesMut,
) -> Result<(), DropReason> {
    let record = &*order.record;
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
        body_size: record.payload.len() as u64,
        properties: properties(options, order)?,
    };
    let before = out.len();
    push_frame(out, &method);
    let between = out.len();
    push_frame(out, &AMQPFrame::Header(CHANNEL, header));
    if out.len() - between > frame_max {
        out.truncate(before);
        return Err(DropReason::Oversize);
    }
    Ok(())
}

/// Appends a piece of a payload, in as few frames as the broker allows: so a piece always ends with a
/// frame, and a heartbeat may follow.
pub(super) fn piece(frame_max: usize, piece: &[u8], out: &mut BytesMut) {
    for body in piece.chunks(frame_max - FRAME_OVERHEAD) {
        out.put_u8(constants::FRAME_BODY);
        out.put_u16(CHANNEL);
        // A chunk is no longer than a frame, whose length is a u32.
        out.put_u32(body.len() as u32);
        out.put_slice(body);
        out.put_u8(constants::FRAME_END);
    }
}

fn routing_key(options: &AmqpOptions, record: &Record) -> String {
    let topic = String::from_utf8_lossy(&record.key).replace('/', ".");
    options.routing_key.replace("{topic}", &topic)
}

fn properties(options: &AmqpOptions, order: &Transmit) -> Result<AMQPProperties, DropReason> {
    let record = &*order.record;
    let mut table = FieldTable::default();
    let class = options.classes.get(order.class.index()).map_or("", |name| name);
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
