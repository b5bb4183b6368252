//! A record as it travels by a link.

use bytes::Bytes;
use tidegate_link::Outgoing;
use tidegate_link::envelope::{Envelope, GrantId, HOPS_MAX};
use tidegate_types::headers;
use tidegate_types::record::{Properties, Record};
use tidegate_types::units::Time;

use crate::node::contract::Transmit;

/// The record of an order, to be there by `deadline`; `None` for one that goes in circles. For a neighbour
/// that relays it, the grant is named by its class: there is one of each at a time.
pub(super) fn outgoing(
    order: &Transmit,
    now: Time,
    deadline: Time,
    is_peer: bool,
    proof: Option<Bytes>,
) -> Option<Outgoing> {
    let record = &order.record;
    let hop = headers::hop(&record.properties);
    if hop > HOPS_MAX {
        return None;
    }
    let payload = &record.payload;
    let envelope = Envelope {
        identity: record.identity.clone(),
        again: order.again,
        hop,
        grant: is_peer.then_some(GrantId(order.class.0.into())),
        left: record.deadline.since(now),
        ttl: record.expires.map(|expires| expires.since(now)),
        source_unix_ns: record.source_unix_ns,
        proof,
        key: record.key.clone(),
        properties: own_properties(&record.properties),
        payload: payload.clone(),
    };
    Some(Outgoing {
        token: order.id.0,
        stream: stream_number(record),
        content: envelope.encode(),
        deadline,
        expires: record.expires,
    })
}

/// The record's properties without those that stand for its way.
fn own_properties(properties: &Properties) -> Properties {
    if properties.find(headers::HOP).is_none() {
        return properties.clone();
    }
    let own = properties.iter().filter(|(name, _)| name != headers::HOP.as_bytes());
    Properties::new(
        own.map(|(name, value): &(Bytes, Bytes)| (name.clone(), value.clone())).collect(),
    )
}

/// One number for each stream that a record can be of. Two streams with the same one wait for each
/// other, no more.
fn stream_number(record: &Record) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    let identity = &record.identity;
    (&identity.origin, identity.stream).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hop_is_no_property_of_the_record() {
        let pair = |name: &'static str, value: &'static str| (name.into(), value.into());
        let all = Properties::new(vec![pair("unit", "bar"), pair(headers::HOP, "3")]);
        assert_eq!(headers::hop(&all), 3);
        assert_eq!(own_properties(&all), Properties::new(vec![pair("unit", "bar")]));
        assert_eq!(headers::hop(&own_properties(&all)), 0);
    }
}
