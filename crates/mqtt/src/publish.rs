//! PUBLISH (MQTT 5, 3.3): the one packet whose reading and writing must be fast.

use bytes::BufMut;
use tidegate_types::limits::TOPIC_LEVELS_MAX;

use super::property::USER;
use super::reader::{FieldReader, has_control};
use super::write::{TEXT_MAX, put_text, variable};
use super::{Reason, Version, Violation};

/// Largest number of four 7-bit digits.
const REMAINING_MAX: usize = 268_435_455;

/// A PUBLISH, borrowed from the read buffer. Its properties are only delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publish<'a> {
    /// Whether it is to be kept for later subscribers.
    pub retain: bool,
    /// 0, 1 or 2.
    pub qos: u8,
    /// The packet identifier of QoS 1 and 2; `None` is QoS 0.
    pub id: Option<u16>,
    /// Empty where a topic alias stands for it (MQTT 5).
    pub topic: &'a str,
    /// The property section, its length left out (MQTT 5).
    pub properties: &'a [u8],
    /// The payload.
    pub payload: &'a [u8],
}

impl<'a> Publish<'a> {
    /// Reads the packet after its fixed header; `flags` is the header's lower half.
    ///
    /// # Errors
    /// It is no PUBLISH that anybody may send.
    pub fn read(version: Version, flags: u8, body: &'a [u8]) -> Result<Self, Violation> {
        let qos = (flags >> 1) & 3;
        let mut reader = FieldReader::new(body);
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

/// What stands before the payload of a PUBLISH.
#[derive(Clone, Copy, Debug)]
pub struct PublishHead<'a> {
    /// Its topic, or nothing where an alias among the properties stands for it.
    pub topic: &'a [u8],
    /// 0, 1 or 2.
    pub qos: u8,
    /// The packet identifier of QoS 1 and 2; `None` is QoS 0.
    pub id: Option<u16>,
    /// Whether an earlier attempt may have arrived.
    pub again: bool,
    /// Whether it is to be kept for later subscribers.
    pub retain: bool,
    /// The property section, its length in front; `None` before MQTT 5.
    pub properties: Option<&'a [u8]>,
    /// Bytes of the payload, which go behind it.
    pub payload: usize,
}

impl PublishHead<'_> {
    /// Appends it; false, and nothing, where the topic is no text of MQTT or the packet would be larger than `maximum`
    /// bytes.
    pub fn write(&self, out: &mut impl BufMut, maximum: usize) -> bool {
        let id = if self.id.is_some() { 2 } else { 0 };
        let properties = self.properties.unwrap_or_default();
        let remaining = 2 + self.topic.len() + id + properties.len() + self.payload;
        if self.topic.len() > TEXT_MAX
            || remaining > REMAINING_MAX
            || remaining + fixed_header(remaining) > maximum
        {
            return false;
        }
        let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
        out.put_u8(0x30 | flag(8, self.again) | (self.qos << 1) | flag(1, self.retain));
        variable(out, remaining);
        put_text(out, self.topic);
        if let Some(id) = self.id {
            out.put_u16(id);
        }
        out.put_slice(properties);
        true
    }
}

/// Bytes of a fixed header.
fn fixed_header(remaining: usize) -> usize {
    match remaining {
        0..0x80 => 2,
        0x80..0x4000 => 3,
        0x4000..0x20_0000 => 4,
        _ => 5,
    }
}

/// A property section of user properties only, its length in front; `None` where one of them is no text of MQTT, or they
/// are too many.
pub fn user_properties<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) -> Option<Vec<u8>> {
    let mut length = 0;
    for (name, value) in pairs.clone() {
        if name.len().max(value.len()) > TEXT_MAX {
            return None;
        }
        length += 5 + name.len() + value.len();
    }
    if length > REMAINING_MAX {
        return None;
    }
    let mut section = Vec::with_capacity(length + 4);
    variable(&mut section, length);
    for (name, value) in pairs {
        section.push(USER);
        put_text(&mut section, name.as_bytes());
        put_text(&mut section, value.as_bytes());
    }
    Some(section)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Front, front};

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
    fn what_is_written_is_read_again() {
        let pairs = [("unit", "celsius"), ("place", "hall")];
        let properties = user_properties(pairs.into_iter()).unwrap();
        let head = PublishHead {
            topic: b"a/b",
            qos: 1,
            id: Some(7),
            again: true,
            retain: true,
            properties: Some(&properties),
            payload: 300,
        };
        let mut out = b"before".to_vec();
        assert!(!head.write(&mut out, 6) && out == b"before", "what does not fit leaves nothing");
        out.clear();
        assert!(head.write(&mut out, usize::MAX));
        let whole = out.len() + 300;
        assert!(!head.write(&mut out, whole - 1) && head.write(&mut Vec::new(), whole));
        out.extend([b'x'; 300]);
        let Front::Complete(packet) = front(&out, 1000).unwrap() else { panic!("it is complete") };
        assert_eq!((packet.first, packet.size), (0x3B, whole));
        let read = Publish::read(Version::V5, packet.first & 15, packet.body).unwrap();
        assert_eq!((read.topic, read.qos, read.id, read.retain), ("a/b", 1, Some(7), true));
        assert_eq!((read.properties, read.payload.len()), (&properties[1..], 300));
        assert_eq!(user_properties([("a", &*"x".repeat(TEXT_MAX + 1))].into_iter()), None);
    }

    #[test]
    fn any_script_is_a_topic() {
        assert!(Publish::read(Version::V311, 0, "\0\u{4}𠀋".as_bytes()).is_ok());
    }
}
