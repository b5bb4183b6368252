//! PUBLISH as a server sends it to a subscriber (MQTT 5, 3.3).

use bytes::Bytes;
use tidegate_broker::{Message, MessageRun, SubscriberMessage};

use super::Version;
use super::property as p;
use super::publish::PublishHead;
use super::write::{TEXT_MAX, put_text, variable};
use tidegate_types::headers::{
    CONTENT_TYPE, CORRELATION_DATA, PAYLOAD_FORMAT, RESPONSE_TOPIC, RETAIN, SOURCE_TIME,
};

/// A topic alias in a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alias {
    pub(crate) number: u16,
    /// Whether the client knows its topic: then the publish does not say it.
    pub(crate) is_known: bool,
}

/// A publish to one subscriber.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outward<'a> {
    pub(crate) delivery: &'a SubscriberMessage,
    /// Set for QoS 1 and 2.
    pub(crate) id: Option<u16>,
    pub(crate) again: bool,
    pub(crate) alias: Option<Alias>,
    /// Seconds for which it is still wanted.
    pub(crate) expiry: Option<u32>,
}

/// Appends the packet; false, and nothing, where it would be larger than `maximum` bytes.
pub(crate) fn publish(
    out: &mut Vec<u8>,
    version: Version,
    outward: &Outward<'_>,
    maximum: usize,
) -> bool {
    let Outward { delivery, id, again, alias, .. } = *outward;
    let message = &*delivery.message;
    let topic: &[u8] = if alias.is_some_and(|alias| alias.is_known) { &[] } else { &message.topic };
    let properties = if version == Version::V5 { section(outward) } else { Vec::new() };
    let head = PublishHead {
        topic,
        qos: delivery.qos,
        id,
        again,
        retain: delivery.retain,
        properties: Some(&properties),
        payload: message.payload.len(),
    };
    out.reserve(topic.len() + properties.len() + message.payload.len() + 10);
    let fits = head.write(out, maximum);
    if fits {
        out.extend_from_slice(&message.payload);
    }
    fits
}

/// Appends the packets of a run that goes with QoS 0 to a subscriber without aliases, where they are no larger than
/// `maximum` bytes each, and `all` together; false, and nothing, where they are.
pub(crate) fn publish_run(
    out: &mut Vec<u8>,
    version: Version,
    run: &MessageRun,
    (maximum, all): (usize, usize),
) -> bool {
    if run.packet_max() > maximum || run.packets_max() > all {
        return false;
    }
    let is_new = version == Version::V5;
    let write = |out: &mut Vec<u8>| {
        run.messages().iter().all(|message| {
            let head = PublishHead {
                topic: &message.topic,
                qos: 0,
                id: None,
                again: false,
                retain: false,
                properties: is_new.then_some(&[0]),
                payload: message.payload.len(),
            };
            let fits = head.write(out, usize::MAX);
            out.extend_from_slice(&message.payload);
            fits
        })
    };
    out.reserve(run.packets_max());
    if let Some(packets) = run.packets(usize::from(is_new), write) {
        out.extend_from_slice(packets);
        return true;
    }
    let before = out.len();
    let fits = write(out);
    if !fits {
        out.truncate(before);
    }
    fits
}

/// The properties, their length in front.
fn section(outward: &Outward<'_>) -> Vec<u8> {
    let Outward { delivery, alias, expiry, .. } = *outward;
    let message = &*delivery.message;
    let is_plain = message.properties.iter().next().is_none() && message.source_unix_ns.is_none();
    if is_plain && alias.is_none() && expiry.is_none() && delivery.ids.is_none() {
        return vec![0];
    }
    let mut bytes = Vec::new();
    if let Some(Alias { number, .. }) = alias {
        bytes.push(p::TOPIC_ALIAS);
        bytes.extend(number.to_be_bytes());
    }
    if let Some(seconds) = expiry {
        bytes.push(p::EXPIRY);
        bytes.extend(seconds.to_be_bytes());
    }
    for id in delivery.ids.iter().flat_map(|ids| ids.iter()) {
        bytes.push(p::SUBSCRIPTION_ID);
        variable(&mut bytes, *id as usize);
    }
    own(&mut bytes, message);
    let mut section = Vec::with_capacity(bytes.len() + 4);
    variable(&mut section, bytes.len());
    section.extend(bytes);
    section
}

/// The sender's own properties.
fn own(bytes: &mut Vec<u8>, message: &Message) {
    // A user property of the same name comes later.
    let mut seen = 0_u8;
    for (name, value) in message.properties.iter() {
        let known = [CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION_DATA, PAYLOAD_FORMAT, RETAIN];
        let place = known.iter().position(|known| name == known.as_bytes());
        let is_first = place.is_some_and(|place| seen & (1 << place) == 0);
        if let Some(place) = place {
            seen |= 1 << place;
        }
        match place.filter(|_| is_first) {
            Some(0) => text(bytes, p::CONTENT_TYPE, value),
            Some(1) => text(bytes, p::RESPONSE_TOPIC, value),
            Some(2) => text(bytes, p::CORRELATION_DATA, value),
            Some(3) => bytes.extend([p::PAYLOAD_FORMAT, 1]),
            // It is in the packet's flags.
            Some(4) if message.retain => {}
            _ => pair(bytes, name, value),
        }
    }
    if let Some(unix_ns) = message.source_unix_ns {
        pair(bytes, SOURCE_TIME.as_bytes(), unix_ns.to_string().as_bytes());
    }
}

fn text(bytes: &mut Vec<u8>, id: u8, value: &Bytes) {
    if value.len() <= TEXT_MAX {
        bytes.push(id);
        put_text(bytes, value);
    }
}

/// A user property; one that MQTT cannot express is left out.
fn pair(bytes: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let is_text = |text: &[u8]| text.len() <= TEXT_MAX && std::str::from_utf8(text).is_ok();
    if is_text(name) && is_text(value) {
        bytes.push(p::USER);
        put_text(bytes, name);
        put_text(bytes, value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidegate_types::account::Account;
    use tidegate_types::class::ClassId;
    use tidegate_types::record::Properties;
    use tidegate_types::units::Time;

    use super::super::publish::Publish;
    use super::*;
    use crate::session::record::Facts;

    fn delivery(qos: u8, properties: Properties) -> SubscriberMessage {
        let message = Message {
            topic: Bytes::from_static(b"a/b"),
            payload: Bytes::from_static(b"hello"),
            properties,
            qos,
            retain: false,
            arrived: Time::ZERO,
            expires: None,
            class: ClassId(0),
            deadline: Time::ZERO,
            source_unix_ns: None,
            meter: None,
        };
        SubscriberMessage {
            message: Arc::new(message),
            qos,
            retain: qos == 1,
            ids: None,
            charge: Default::default(),
            number: 0,
        }
    }

    fn outward(delivery: &SubscriberMessage) -> Outward<'_> {
        let id = (delivery.qos > 0).then_some(7);
        Outward { delivery, id, again: false, alias: None, expiry: None }
    }

    #[test]
    fn packets_have_the_standards_bytes() {
        let mut out = Vec::new();
        let plain = delivery(0, Properties::default());
        assert!(publish(&mut out, Version::V311, &outward(&plain), 12));
        assert_eq!(out, b"\x30\x0A\0\x03a/bhello");
        assert!(!publish(&mut out, Version::V311, &outward(&plain), 11));
        assert_eq!(out.len(), 12, "what does not fit leaves nothing");
        out.clear();
        let once = delivery(1, Properties::default());
        let again = Outward { again: true, ..outward(&once) };
        assert!(publish(&mut out, Version::V5, &again, 100));
        assert_eq!(out, b"\x3B\x0D\0\x03a/b\0\x07\0hello");
        out.clear();
        let alias = Some(Alias { number: 3, is_known: true });
        assert!(publish(&mut out, Version::V5, &Outward { alias, ..outward(&plain) }, 100));
        assert_eq!(out, b"\x30\x0B\0\0\x03\x23\0\x03hello");
    }

    #[test]
    fn a_run_has_the_bytes_of_its_messages() {
        let plain = || delivery(0, Properties::default());
        let messages = || vec![plain().message, plain().message];
        let account = Account::new(1 << 20);
        let runs = [None, Some(account.clone())];
        for run in runs.map(|account| MessageRun::new(messages(), account).unwrap()) {
            for version in [Version::V31, Version::V311, Version::V5] {
                let (mut each, mut all) = (b"before".to_vec(), b"before".to_vec());
                for _ in 0..2 {
                    assert!(publish(&mut each, version, &outward(&plain()), 100));
                }
                for _ in 0..2 {
                    all.truncate(6);
                    assert!(publish_run(&mut all, version, &run, (16, 32)));
                    assert_eq!(all, each);
                }
                assert!(!publish_run(&mut all, version, &run, (15, 100)), "one may be larger");
                assert!(!publish_run(&mut all, version, &run, (100, 31)), "all may be");
                assert_eq!(all, each);
            }
        }
        assert_eq!(account.used(), 0, "packets go with their run");
    }

    #[test]
    fn our_own_reader_finds_the_properties() {
        let named = |name: &'static str, value: &'static [u8]| {
            (Bytes::from_static(name.as_bytes()), Bytes::from_static(value))
        };
        let pairs = vec![
            named(CONTENT_TYPE, b"text"),
            named(CORRELATION_DATA, b"\xFF"),
            named("unit", b"celsius"),
            named(CONTENT_TYPE, b"forged"),
        ];
        let delivery = SubscriberMessage {
            ids: Some([5, 300].into()),
            ..delivery(1, Properties::new(pairs.clone()))
        };
        let mut out = Vec::new();
        assert!(publish(
            &mut out,
            Version::V5,
            &Outward { expiry: Some(9), ..outward(&delivery) },
            200
        ));
        let read = Publish::read(Version::V5, out[0] & 15, &out[2..]).unwrap();
        assert_eq!((read.retain, read.qos, read.id, read.topic), (true, 1, Some(7), "a/b"));
        let ids = [p::SUBSCRIPTION_ID, 5, p::SUBSCRIPTION_ID, 0xAC, 2];
        assert!(read.properties.windows(5).any(|bytes| bytes == ids));
        // A client's publish has no subscription identifiers.
        let without: Vec<u8> =
            read.properties.split(|&byte| byte == p::SUBSCRIPTION_ID).next().unwrap().to_vec();
        assert_eq!(without, [p::EXPIRY, 0, 0, 0, 9]);
        let rest = &read.properties[10..];
        let facts = Facts::read(rest, p::IN_PUBLISH, false).unwrap();
        assert_eq!(facts.properties, Properties::new(pairs));
    }
}
