//! CONNECT (MQTT 5, 3.1), read in two steps: first the version, for it decides how to refuse the rest.

use super::property::{self as p, PropertyValue, PropertyWalk};
use super::publish::check_topic;
use super::reader::FieldReader;
use super::{Reason, Version, Violation};

/// What the client asks for, borrowed from the read buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connect<'a> {
    pub(crate) clean: bool,
    /// Seconds; 0 is off.
    pub(crate) keepalive: u16,
    pub(crate) client_id: &'a str,
    pub(crate) will: Option<Will<'a>>,
    pub(crate) user: Option<&'a str>,
    pub(crate) password: Option<&'a [u8]>,
    /// Seconds that the session outlives the connection (MQTT 5).
    pub(crate) session_expiry: u32,
    /// Unacknowledged publishes that the client takes (MQTT 5).
    pub(crate) receive_maximum: u16,
    /// Topic aliases that the client takes (MQTT 5).
    pub(crate) topic_alias_maximum: u16,
    /// Largest packet that the client takes (MQTT 5).
    pub(crate) maximum_packet_size: u32,
    /// Whether acknowledgements may carry a reason in words (MQTT 5).
    pub(crate) problem_information: bool,
}

/// What is to be published when the connection dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Will<'a> {
    pub(crate) qos: u8,
    pub(crate) retain: bool,
    pub(crate) topic: &'a str,
    pub(crate) properties: &'a [u8],
    pub(crate) payload: &'a [u8],
}

/// Reads protocol name and level, leaving the reader behind them.
pub(crate) fn version(reader: &mut FieldReader<'_>) -> Result<Version, Violation> {
    let name = reader.binary()?;
    let level = reader.byte()?;
    match (name, level) {
        (b"MQTT", 4) => Ok(Version::V311),
        (b"MQTT", 5) => Ok(Version::V5),
        (b"MQIsdp", 3) => Ok(Version::V31),
        (b"MQTT" | b"MQIsdp", _) => Err(Violation::new(
            Reason::UnsupportedVersion,
            "an MQTT version that is not supported: use 5 or 3.1.1",
        )),
        _ => Err(Violation::malformed("the protocol name is not MQTT")),
    }
}

const CLEAN: u8 = 0x02;
const WILL: u8 = 0x04;
const WILL_QOS: u8 = 0x18;
const WILL_RETAIN: u8 = 0x20;
const PASSWORD: u8 = 0x40;
const USERNAME: u8 = 0x80;

impl<'a> Connect<'a> {
    /// Reads what follows the protocol level.
    pub(crate) fn read(version: Version, mut reader: FieldReader<'a>) -> Result<Self, Violation> {
        let flags = reader.byte()?;
        check_flags(version, flags)?;
        let keepalive = reader.two()?;
        let mut connect = Connect {
            clean: flags & CLEAN != 0,
            keepalive,
            client_id: "",
            will: None,
            user: None,
            password: None,
            session_expiry: 0,
            receive_maximum: u16::MAX,
            topic_alias_maximum: 0,
            maximum_packet_size: u32::MAX,
            problem_information: true,
        };
        if version == Version::V5 {
            connect.read_properties(reader.section()?)?;
        }
        connect.client_id = reader.name()?;
        if flags & WILL != 0 {
            connect.will = Some(Will::read(version, flags, &mut reader)?);
        }
        if flags & USERNAME != 0 {
            connect.user = Some(reader.name()?);
        }
        if flags & PASSWORD != 0 {
            connect.password = Some(reader.binary()?);
        }
        reader.finish()?;
        Ok(connect)
    }

    fn read_properties(&mut self, section: &'a [u8]) -> Result<(), Violation> {
        let mut properties = PropertyWalk::new(section, p::IN_CONNECT);
        let mut method = false;
        let mut data = false;
        while let Some((id, value)) = properties.next()? {
            match id {
                p::SESSION_EXPIRY => self.session_expiry = value.number(),
                p::MAXIMUM_PACKET_SIZE => self.maximum_packet_size = value.positive()?,
                p::RECEIVE_MAXIMUM => self.receive_maximum = value.positive()? as u16,
                p::TOPIC_ALIAS_MAXIMUM => self.topic_alias_maximum = value.number() as u16,
                p::REQUEST_PROBLEM => self.problem_information = value.flag()?,
                p::REQUEST_RESPONSE => drop(value.flag()?),
                p::AUTHENTICATION_METHOD => method = true,
                p::AUTHENTICATION_DATA => data = true,
                _ => {}
            }
        }
        match (method, data) {
            (true, _) => Err(Violation::new(
                Reason::BadAuthenticationMethod,
                "enhanced authentication, which is not supported",
            )),
            (false, true) => Err(Violation::protocol("authentication data without a method")),
            (false, false) => Ok(()),
        }
    }
}

fn check_flags(version: Version, flags: u8) -> Result<(), Violation> {
    if flags & 1 != 0 && version != Version::V31 {
        return Err(Violation::malformed("the reserved flag of the connect packet is set"));
    }
    if flags & WILL == 0 && flags & (WILL_QOS | WILL_RETAIN) != 0 {
        return Err(Violation::malformed("will QoS or will retain without a will"));
    }
    if flags & WILL_QOS == WILL_QOS {
        return Err(Violation::malformed("a will with QoS 3"));
    }
    if version != Version::V5 && flags & PASSWORD != 0 && flags & USERNAME == 0 {
        return Err(Violation::malformed("a password without a username"));
    }
    Ok(())
}

impl<'a> Will<'a> {
    fn read(version: Version, flags: u8, reader: &mut FieldReader<'a>) -> Result<Self, Violation> {
        let properties = if version == Version::V5 { reader.section()? } else { &[] };
        let mut walk = PropertyWalk::new(properties, p::IN_WILL);
        while let Some((id, value)) = walk.next()? {
            check_record_property(id, value)?;
        }
        let topic = reader.name()?;
        if topic.is_empty() {
            return Err(Violation::malformed("a will without topic"));
        }
        check_topic(topic)?;
        let payload = reader.binary()?;
        let (qos, retain) = ((flags & WILL_QOS) >> 3, flags & WILL_RETAIN != 0);
        Ok(Will { qos, retain, topic, properties, payload })
    }
}

/// Checks what PUBLISH and will properties have in common.
pub(crate) fn check_record_property(id: u8, value: PropertyValue<'_>) -> Result<(), Violation> {
    match (id, value) {
        (p::PAYLOAD_FORMAT, value) => value.flag().map(drop),
        (p::RESPONSE_TOPIC, PropertyValue::Text(topic)) if topic.contains(['+', '#']) => {
            Err(Violation::protocol("a response topic has no wildcards"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &[u8]) -> Result<(Version, Connect<'_>), Violation> {
        let mut reader = FieldReader::new(body);
        let version = version(&mut reader)?;
        Ok((version, Connect::read(version, reader)?))
    }

    #[test]
    fn both_versions_are_read() {
        let (version, connect) = read(b"\0\x04MQTT\x04\x02\0\x3C\0\x01p").unwrap();
        assert_eq!(version, Version::V311);
        assert_eq!((connect.clean, connect.keepalive, connect.client_id), (true, 60, "p"));
        let body = b"\0\x04MQTT\x05\0\0\x0A\x05\x27\0\0\0\x20\0\0";
        let (version, connect) = read(body).unwrap();
        assert_eq!(version, Version::V5);
        assert_eq!((connect.clean, connect.maximum_packet_size), (false, 32));
        assert_eq!(connect.client_id, "");
    }

    #[test]
    fn a_will_that_expires_at_once_is_legal() {
        let body = b"\0\x04MQTT\x05\x06\0\x0A\0\0\x01p\x05\x02\0\0\0\0\0\x01t\0\x01w";
        let will = read(body).unwrap().1.will.unwrap();
        assert_eq!((will.topic, will.payload), ("t", &b"w"[..]));
    }

    #[test]
    fn mistakes_have_their_reason() {
        let reason = |body: &[u8]| read(body).unwrap_err().reason;
        assert_eq!(reason(b"\0\x04MQTT\x06\0\0\x0A\0\x01p"), Reason::UnsupportedVersion);
        assert_eq!(reason(b"\0\x05MQTTT\x04\0\0\x0A\0\x01p"), Reason::MalformedPacket);
        assert_eq!(reason(b"\0\x04MQTT\x04\x01\0\x0A\0\x01p"), Reason::MalformedPacket);
        assert_eq!(reason(b"\0\x04MQTT\x04\x0A\0\x0A\0\x01p"), Reason::MalformedPacket);
        assert_eq!(reason(b"\0\x04MQTT\x04\x42\0\x0A\0\x01p\0\x01p"), Reason::MalformedPacket);
        assert_eq!(reason(b"\0\x04MQTT\x04\x02\0\x0A\0\x01p\0"), Reason::MalformedPacket);
        assert_eq!(reason(b"\0\x04MQTT\x05\x02\0\x0A\x03\x21\0\0\0\x01p"), Reason::ProtocolError);
        let auth = b"\0\x04MQTT\x05\x02\0\x0A\x04\x15\0\x01m\0\x01p";
        assert_eq!(reason(auth), Reason::BadAuthenticationMethod);
        let will = b"\0\x04MQTT\x04\x06\0\x0A\0\x01p\0\x01+\0\x01w";
        assert_eq!(reason(will), Reason::MalformedPacket);
    }
}
