//! A record as members hand it to each other: a byte for its QoS, then the envelope that a link knows.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tidegate_broker::Message;
use tidegate_link::envelope::Envelope;
use tidegate_types::record::{Identity, Offered, Origin, StreamId};
use tidegate_types::units::Time;

fn packed(qos: u8, envelope: &Envelope) -> Bytes {
    let encoded = envelope.encode();
    let mut bytes = BytesMut::with_capacity(1 + encoded.len());
    bytes.put_u8(qos);
    bytes.put(encoded);
    bytes.freeze()
}

/// QoS and record; `None` for what is neither.
pub(super) fn unpacked(content: &Bytes) -> Option<(u8, Envelope)> {
    let qos = content.first().copied().filter(|qos| *qos <= 2)?;
    Some((qos, Envelope::decode(&content.slice(1..)).ok()?))
}

/// Who accepted a record first; `None` for what is no record.
pub(super) fn origin(content: &Bytes) -> Option<Arc<str>> {
    Some(unpacked(content)?.1.identity.origin.node.clone())
}

/// A record for its owner, under the name that it keeps.
pub(super) fn of_record(now: Time, qos: u8, record: &Offered, identity: Identity) -> Bytes {
    let payload = record.payload.clone();
    let gone = now.since(record.read_at);
    packed(
        qos,
        &Envelope {
            identity,
            again: false,
            hop: 0,
            grant: None,
            left: std::time::Duration::ZERO,
            ttl: record.ttl.map(|ttl| ttl.saturating_sub(gone)),
            source_unix_ns: record.source_unix_ns,
            proof: None,
            key: record.key.clone(),
            properties: record.properties.clone(),
            payload,
        },
    )
}

/// What an owner published, for subscribers elsewhere.
pub(super) fn of_message(now: Time, message: &Message) -> Bytes {
    let origin = Arc::new(Origin { node: "".into(), incarnation: 0 });
    packed(
        message.qos,
        &Envelope {
            identity: Identity { origin, stream: StreamId(0), seq: 0 },
            again: false,
            hop: 0,
            grant: None,
            left: message.deadline.since(now),
            ttl: message.expires.map(|at| at.since(now)),
            source_unix_ns: message.source_unix_ns,
            proof: None,
            key: message.topic.clone(),
            properties: message.properties.clone(),
            payload: message.payload.clone(),
        },
    )
}
