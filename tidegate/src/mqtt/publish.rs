//! PUBLISH as a client sends it (MQTT 5, 3.3): the one packet whose reading must be fast.

use tidegate_types::limits::TOPIC_LEVELS_MAX;

use super::reader::{Reader, has_control};
use super::{Reason, Version, Violation};

/// A PUBLISH, borrowed from the read buffer. Its properties are only delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Publish<'a> {
    pub(crate) retain: bool,
    pub(crate) qos: u8,
    /// The packet identifier of QoS 1 and 2; `None` is QoS 0.
    pub(crate) id: Option<u16>,
    /// Empty where a topic alias stands for it (MQTT 5).
    pub(crate) topic: &'a str,
    pub(crate) properties: &'a [u8],
    pub(crate) payload: &'a [u8],
}

impl<'a> Publish<'a> {
    /// Reads the packet after its fixed header; `flags` is the header's lower half.
    pub(crate) fn read(version: Version, flags: u8, body: &'a [u8]) -> Result<Self, Violation> {
        let qos = (flags >> 1) & 3;
        let mut reader = Reader::new(body);
        let topic = topic(reader.binary()?)?;
        match qos {
            0 if flags & 8 != 0 => {
                return Err(Violation::malformed("a publish with QoS 0 is marked as duplicate"));
            }
            0..=2 => {}
            _ => return Err(Violation::malformed("a publish with QoS 3")),
        }
        let id = if qos == 0 { None } else { Some(reader.packet_id()?) };
        let properties = if version == Version::V5 { reader.section()? } else { &[] };
        if topic.is_empty() && version != Version::V5 {
            return Err(Violation::malformed("a publish without topic"));
        }
        Ok(Publish { retain: flags & 1 != 0, qos, id, topic, properties, payload: reader.rest() })
    }
}

/// A topic name: UTF-8 without control characters and wildcards, of a bounded number of levels.
fn topic(bytes: &[u8]) -> Result<&str, Violation> {
    let plain = |&byte: &u8| (0x20..0x7F).contains(&byte) && byte != b'+' && byte != b'#';
    if bytes.len() <= TOPIC_LEVELS_MAX && bytes.iter().all(plain) {
        // Nearly every topic; ASCII is valid UTF-8, and the check of it is vectorised.
        return std::str::from_utf8(bytes).map_err(|_| Violation::malformed("no UTF-8"));
    }
    let topic = std::str::from_utf8(bytes)
        .map_err(|_| Violation::malformed("the topic is not valid UTF-8"))?;
    check_topic(topic)?;
    Ok(topic)
}

/// What makes a text a topic name, but for being empty.
pub(crate) fn check_topic(topic: &str) -> Result<(), Violation> {
    if has_control(topic) {
        return Err(Violation::malformed("the topic has a control character"));
    }
    if topic.contains(['+', '#']) {
        return Err(Violation::malformed("a topic name has no wildcards (+, #)"));
    }
    if topic.len() > TOPIC_LEVELS_MAX && topic.split('/').count() > TOPIC_LEVELS_MAX {
        return Err(Violation::new(Reason::TopicNameInvalid, "the topic has too many levels"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(version: Version, flags: u8, body: &[u8]) -> Reason {
        Publish::read(version, flags, body).unwrap_err().reason
    }

    #[test]
    fn fields_are_found() {
        let publish = Publish::read(Version::V311, 3, b"\0\x03a/b\0\x07hello").unwrap();
        let expected = Publish {
            retain: true,
            qos: 1,
            id: Some(7),
            topic: "a/b",
            properties: &[],
            payload: b"hello",
        };
        assert_eq!(publish, expected);
        let publish = Publish::read(Version::V5, 0, b"\0\x01a\x02\x01\x01").unwrap();
        assert_eq!((publish.id, publish.properties, publish.payload), (None, &[1, 1][..], &[][..]));
    }

    #[test]
    fn mistakes_have_their_reason() {
        assert_eq!(refusal(Version::V5, 0, b"\0\x01+\0"), Reason::MalformedPacket);
        assert_eq!(refusal(Version::V5, 0, b"\0\x01\n\0"), Reason::MalformedPacket);
        assert_eq!(refusal(Version::V5, 0, b"\0\x02\xC3\x28\0"), Reason::MalformedPacket);
        assert_eq!(refusal(Version::V5, 4, b"\0\x01a\0\0\0"), Reason::ProtocolError);
        assert_eq!(refusal(Version::V5, 6, b"\0\x01a\0\x01\0"), Reason::MalformedPacket);
        assert_eq!(refusal(Version::V5, 8, b"\0\x01a\0"), Reason::MalformedPacket);
        assert_eq!(refusal(Version::V311, 2, b"\0\x01a\0\0"), Reason::ProtocolError);
        assert_eq!(refusal(Version::V311, 0, b"\0\0"), Reason::MalformedPacket);
        let deep = "a/".repeat(TOPIC_LEVELS_MAX);
        let body = [&(deep.len() as u16).to_be_bytes()[..], deep.as_bytes()].concat();
        assert_eq!(refusal(Version::V311, 0, &body), Reason::TopicNameInvalid);
    }

    #[test]
    fn any_script_is_a_topic() {
        assert!(Publish::read(Version::V311, 0, "\0\u{4}𠀋".as_bytes()).is_ok());
    }
}
