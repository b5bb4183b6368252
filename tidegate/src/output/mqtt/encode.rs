//! A record as the head of an MQTT PUBLISH: all that stands before the payload.

use bytes::BytesMut;
use tidegate_mqtt::Version;
use tidegate_mqtt::publish::{PublishHead, user_properties};
use tidegate_types::headers;
use tidegate_types::record::DropReason;
use tidegate_types::topic::is_topic;

use super::MqttOptions;
use crate::node::contract::Transmit;

/// What a connection can carry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) version: Version,
    /// Bytes of the largest packet.
    pub(super) packet_max: usize,
    /// Whether the broker retains.
    pub(super) retains: bool,
}

/// Appends the head of a record's PUBLISH.
///
/// # Errors
/// `Oversize` where something does not fit in MQTT's fields or in `packet_max` bytes; `Refused` for a
/// key that is no topic, or has no name at the far end.
pub(super) fn publish(
    options: &MqttOptions,
    limits: Limits,
    packet_id: u16,
    order: &Transmit,
    out: &mut BytesMut,
) -> Result<(), DropReason> {
    let record = &*order.record;
    let key = std::str::from_utf8(&record.key).map_err(|_| DropReason::Refused)?;
    let topic = options.topics.there(key).ok_or(DropReason::Refused)?;
    if !is_topic(&topic) {
        return Err(DropReason::Refused);
    }
    let properties = match limits.version {
        Version::V31 | Version::V311 => None,
        Version::V5 => Some(properties(options, order).ok_or(DropReason::Oversize)?),
    };
    let head = PublishHead {
        topic: topic.as_bytes(),
        qos: 1,
        id: Some(packet_id),
        again: order.again,
        retain: options.retain
            && limits.retains
            && record.properties.find(headers::RETAIN).is_some_and(|v| v == "1"),
        properties: properties.as_deref(),
        payload: record.payload.len(),
    };
    if head.write(out, limits.packet_max) { Ok(()) } else { Err(DropReason::Oversize) }
}

/// The properties of MQTT 5, their length in front.
fn properties(options: &MqttOptions, order: &Transmit) -> Option<Vec<u8>> {
    let class = options.classes.get(order.class.index()).map_or("", |name| name);
    let pairs = headers::of(&order.record, class, order.again);
    user_properties(pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use rmqtt_codec::types::QoS;
    use rmqtt_codec::v5::{Codec, Packet};
    use tidegate_mqtt::topics::{There, TopicLine, TopicMap};
    use tidegate_types::topic::Filter;
    use tokio_util::codec::Decoder;

    use super::*;
    use crate::keys::url::Host;
    use crate::output::test_protocol::{record, transmit, whole};

    pub(in crate::output::mqtt) fn options() -> MqttOptions {
        MqttOptions {
            hosts: vec![Host::new("localhost", 1883)],
            tls: None,
            client_id: "gate-7".into(),
            is_exact: false,
            version: None,
            topics: TopicMap::default(),
            user: None,
            password: None,
            classes: ["ls".into(), "lt".into()].into(),
            retain: true,
        }
    }

    fn limits(version: Version, packet_max: usize) -> Limits {
        Limits { version, packet_max, retains: true }
    }

    /// A record that came with the retain flag, if `value` is 1.
    fn with(value: &'static str) -> Transmit {
        let pair = (Bytes::from_static(b"retain"), Bytes::from_static(value.as_bytes()));
        let properties = tidegate_types::record::Properties::new(vec![pair]);
        let record = tidegate_types::record::Record { properties, ..record(1, b"x") };
        Transmit { record: Arc::new(record), ..transmit(1, b"x", 0..1, 1) }
    }

    pub(in crate::output::mqtt) fn retained() -> Transmit {
        with("1")
    }

    fn encode(order: &Transmit, packet_max: usize) -> Result<BytesMut, DropReason> {
        let mut out = BytesMut::new();
        publish(&options(), limits(Version::V5, packet_max), 7, order, &mut out).map(|()| out)
    }

    #[test]
    fn the_codec_reads_what_is_written() {
        let payload = [b'x'; 20_000];
        let mut order = whole(3, &payload);
        order.again = true;
        let mut bytes = encode(&order, usize::MAX).unwrap();
        bytes.extend_from_slice(&payload);
        let mut codec = Codec::new(0, 0);
        let Some((Packet::Publish(publish), _)) = codec.decode(&mut bytes).unwrap() else {
            panic!("a publish")
        };
        assert!(bytes.is_empty() && publish.dup && publish.qos == QoS::AtLeastOnce);
        assert_eq!((&*publish.topic, publish.payload.len()), ("plant/3/alarm", 20_000));
        let properties = publish.properties.unwrap().user_properties;
        let find = |wanted| {
            let found = properties.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| value.to_string())
        };
        assert_eq!(find(headers::SEQ).as_deref(), Some("3"));
        assert_eq!(find(headers::CLASS).as_deref(), Some("ls"));
        assert_eq!(find(headers::BOUND).as_deref(), Some("50"));
        assert_eq!(find(headers::AGAIN).as_deref(), Some("1"));
    }

    #[test]
    fn the_old_version_carries_topic_and_payload() {
        let mut out = BytesMut::new();
        let order = whole(3, b"hot");
        publish(&options(), limits(Version::V311, usize::MAX), 7, &order, &mut out).unwrap();
        out.extend_from_slice(b"hot");
        let decoded = rmqtt_codec::v3::Codec::new(0).decode(&mut out).unwrap().unwrap().0;
        let rmqtt_codec::v3::Packet::Publish(publish) = decoded else { panic!("a publish") };
        assert_eq!((&*publish.topic, &publish.payload[..]), ("plant/3/alarm", &b"hot"[..]));
    }

    #[test]
    fn the_retain_flag_is_passed_on_where_it_came() {
        for (value, first) in [("1", 0x33), ("0", 0x32)] {
            assert_eq!(encode(&with(value), usize::MAX).unwrap()[0], first);
            let options = MqttOptions { retain: false, ..options() };
            let mut out = BytesMut::new();
            publish(&options, limits(Version::V5, usize::MAX), 7, &with(value), &mut out).unwrap();
            assert_eq!(out[0], 0x32, "only if it is configured");
        }
    }

    #[test]
    fn a_topic_has_the_far_ends_name_or_none() {
        let mut out = BytesMut::new();
        let mut of = |pattern: &str| {
            let there = There::Prefix("site7/".into());
            let pattern = Filter::new(pattern).ok();
            let topics = TopicMap(vec![TopicLine { pattern, here: String::new(), there }]);
            let options = MqttOptions { topics, ..options() };
            out.clear();
            let order = whole(3, b"hot");
            let written = publish(&options, limits(Version::V311, usize::MAX), 7, &order, &mut out);
            written.map(|()| out.clone())
        };
        let written = of("plant/3/#").unwrap();
        assert!(written.ends_with(b"site7/plant/3/alarm\0\x07"), "{written:?}");
        assert_eq!(of("plant/4/#"), Err(DropReason::Refused));
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_no_bytes() {
        let order = whole(3, &[0; 100]);
        let length = encode(&order, usize::MAX).unwrap().len() + 100;
        assert!(encode(&order, length).is_ok());
        let mut out = BytesMut::from(&b"before"[..]);
        let result = publish(&options(), limits(Version::V5, length - 1), 7, &order, &mut out);
        assert_eq!((result, &out[..]), (Err(DropReason::Oversize), &b"before"[..]));
        for key in ["", "plant/+/alarm", "plant/#", "a\0b"] {
            let record = tidegate_types::record::Record {
                key: Bytes::copy_from_slice(key.as_bytes()),
                ..record(1, b"x")
            };
            let order = Transmit { record: Arc::new(record), ..transmit(1, b"x", 0..1, 1) };
            assert_eq!(encode(&order, usize::MAX), Err(DropReason::Refused), "{key:?}");
        }
    }
}
