//! The client's side of the wire: what a subscriber writes, and what a broker answers it.

use super::property::{self as p, PropertyWalk};
use super::reader::FieldReader;
use super::write::{close, open, put_text, variable};
use super::{Version, Violation};

/// What a CONNECT asks for.
#[derive(Clone, Copy, Debug)]
pub struct Login<'a> {
    /// Which MQTT.
    pub version: Version,
    /// Under which the broker keeps the session.
    pub client_id: &'a str,
    /// User name.
    pub user: Option<&'a str>,
    /// Its password.
    pub password: Option<&'a str>,
    /// Whether the broker forgets what it knew of this client.
    pub clean: bool,
    /// Seconds.
    pub keepalive: u16,
    /// Seconds that the broker keeps the session while we are away (MQTT 5); 0 is the standard's default.
    pub session_expiry: u32,
    /// Publishes that may wait for our answer (MQTT 5); 65,535 is the standard's default.
    pub receive_maximum: u16,
    /// Largest packet that we take (MQTT 5); without one, any.
    pub maximum_packet_size: Option<u32>,
}

impl<'a> Login<'a> {
    /// A new session that ends with its connection: no user, no keepalive, no bound on what may come.
    pub fn new(version: Version, client_id: &'a str) -> Self {
        Login {
            version,
            client_id,
            user: None,
            password: None,
            clean: true,
            keepalive: 0,
            session_expiry: 0,
            receive_maximum: u16::MAX,
            maximum_packet_size: None,
        }
    }
}

/// Asks to be let in. Texts are below 64 KiB: the configuration sees to it.
pub fn connect(out: &mut Vec<u8>, login: &Login<'_>) {
    const USER: u8 = 0x80;
    const PASSWORD: u8 = 0x40;
    const CLEAN: u8 = 0x02;
    let start = open(out, 0x10);
    text(out, "MQTT");
    let flag = |text: Option<&str>, flag| if text.is_some() { flag } else { 0 };
    out.push(if login.version == Version::V5 { 5 } else { 4 });
    let clean = if login.clean { CLEAN } else { 0 };
    out.push(flag(login.user, USER) | flag(login.password, PASSWORD) | clean);
    out.extend(login.keepalive.to_be_bytes());
    if login.version == Version::V5 {
        let mut properties = Vec::new();
        if login.session_expiry > 0 {
            properties.push(p::SESSION_EXPIRY);
            properties.extend(login.session_expiry.to_be_bytes());
        }
        if login.receive_maximum < u16::MAX {
            properties.push(p::RECEIVE_MAXIMUM);
            properties.extend(login.receive_maximum.to_be_bytes());
        }
        if let Some(size) = login.maximum_packet_size {
            properties.push(p::MAXIMUM_PACKET_SIZE);
            properties.extend(size.to_be_bytes());
        }
        variable(out, properties.len());
        out.extend(properties);
    }
    text(out, login.client_id);
    for field in [login.user, login.password].into_iter().flatten() {
        text(out, field);
    }
    close(out, start);
}

/// Subscribes to every filter, each at its QoS. In MQTT 5 retained records come with a new subscription only.
pub fn subscribe(out: &mut Vec<u8>, version: Version, id: u16, filters: &[(String, u8)]) {
    const RETAINED_IF_NEW: u8 = 0x10;
    const RETAIN_AS_PUBLISHED: u8 = 0x08;
    let start = open(out, 0x82);
    out.extend(id.to_be_bytes());
    let mut options = 0;
    if version == Version::V5 {
        out.push(0);
        options |= RETAINED_IF_NEW | RETAIN_AS_PUBLISHED;
    }
    for (filter, qos) in filters {
        text(out, filter);
        out.push(options | qos);
    }
    close(out, start);
}

fn text(out: &mut Vec<u8>, text: &str) {
    put_text(out, text.as_bytes());
}

/// A sign of life.
pub const PING: [u8; 2] = [0xC0, 0];
/// A goodbye; the session stays.
pub const DISCONNECT: [u8; 2] = [0xE0, 0];

/// The answer to a CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome<'a> {
    /// Whether the broker goes on with the session of an earlier connection.
    pub session_present: bool,
    /// Return code of 3.1.1 or reason code of MQTT 5; 0 is success.
    pub code: u8,
    /// The broker answers in the words of 3.1.1.
    pub is_old: bool,
    /// The broker's own idea of a keepalive, in seconds.
    pub keepalive: Option<u16>,
    /// Publishes that it takes unacknowledged.
    pub receive_maximum: u16,
    /// Largest packet that it takes, if it says so.
    pub maximum_packet_size: Option<u32>,
    /// Highest QoS that it takes.
    pub maximum_qos: u8,
    /// Whether it retains.
    pub retains: bool,
    /// Why, in words.
    pub words: Option<&'a str>,
}

/// Reads a CONNACK. A broker that knows no MQTT 5 answers such a client in the words of 3.1.1.
pub fn welcome(version: Version, body: &[u8]) -> Result<Welcome<'_>, Violation> {
    let mut reader = FieldReader::new(body);
    let (flags, code) = (reader.byte()?, reader.byte()?);
    let is_old = version != Version::V5 || reader.is_empty();
    let session_present = flags & 1 != 0;
    let mut welcome = Welcome {
        session_present,
        code,
        is_old,
        keepalive: None,
        receive_maximum: u16::MAX,
        maximum_packet_size: None,
        maximum_qos: 2,
        retains: true,
        words: None,
    };
    if !is_old {
        let mut properties = PropertyWalk::new(reader.section()?, p::IN_WELCOME);
        while let Some((id, value)) = properties.next()? {
            match (id, value) {
                (p::SERVER_KEEPALIVE, value) => welcome.keepalive = Some(value.number() as u16),
                (p::RECEIVE_MAXIMUM, value) => {
                    welcome.receive_maximum = value.positive()? as u16;
                }
                (p::MAXIMUM_PACKET_SIZE, value) => {
                    welcome.maximum_packet_size = Some(value.positive()?);
                }
                (p::MAXIMUM_QOS, value) => welcome.maximum_qos = u8::from(value.flag()?),
                (p::RETAIN_AVAILABLE, value) => welcome.retains = value.flag()?,
                (p::REASON_STRING, p::PropertyValue::Text(words)) => welcome.words = Some(words),
                _ => {}
            }
        }
    }
    reader.finish()?;
    Ok(welcome)
}

/// Reads a SUBACK: the packet identifier, and a code for each filter.
pub fn granted(version: Version, body: &[u8]) -> Result<(u16, &[u8]), Violation> {
    let mut reader = FieldReader::new(body);
    let id = reader.packet_id()?;
    if version == Version::V5 {
        PropertyWalk::new(reader.section()?, p::IN_ACKNOWLEDGEMENT).check()?;
    }
    Ok((id, reader.rest()))
}

/// Reads a PUBACK: the packet identifier, and the reason code, 0 where there is none.
pub fn acknowledged(version: Version, body: &[u8]) -> Result<(u16, u8), Violation> {
    let mut reader = FieldReader::new(body);
    let id = reader.packet_id()?;
    if version != Version::V5 || reader.is_empty() {
        reader.finish()?;
        return Ok((id, 0));
    }
    let code = reader.byte()?;
    if !reader.is_empty() {
        PropertyWalk::new(reader.section()?, p::IN_ACKNOWLEDGEMENT).check()?;
    }
    reader.finish()?;
    Ok((id, code))
}

/// Reads a broker's DISCONNECT: the reason code, and why in words.
pub fn farewell(body: &[u8]) -> Result<(u8, Option<&str>), Violation> {
    let mut reader = FieldReader::new(body);
    if reader.is_empty() {
        return Ok((0, None));
    }
    let code = reader.byte()?;
    let mut words = None;
    if !reader.is_empty() {
        let mut properties = PropertyWalk::new(reader.section()?, p::IN_DISCONNECT);
        while let Some((id, value)) = properties.next()? {
            if let (p::REASON_STRING, p::PropertyValue::Text(text)) = (id, value) {
                words = Some(text);
            }
        }
    }
    Ok((code, words))
}

/// The standard's name of a reason code of CONNACK or DISCONNECT (MQTT 5, 2.4).
pub fn reason_name(code: u8) -> Option<&'static str> {
    Some(match code {
        0x80 => "UnspecifiedError",
        0x81 => "MalformedPacket",
        0x82 => "ProtocolError",
        0x83 => "ImplementationSpecificError",
        0x84 => "UnsupportedProtocolVersion",
        0x85 => "ClientIdentifierNotValid",
        0x86 => "BadUserNameOrPassword",
        0x87 => "NotAuthorized",
        0x88 => "ServerUnavailable",
        0x89 => "ServerBusy",
        0x8A => "Banned",
        0x8B => "ServerShuttingDown",
        0x8C => "BadAuthenticationMethod",
        0x8D => "KeepAliveTimeout",
        0x8E => "SessionTakenOver",
        0x8F => "TopicFilterInvalid",
        0x90 => "TopicNameInvalid",
        0x93 => "ReceiveMaximumExceeded",
        0x94 => "TopicAliasInvalid",
        0x95 => "PacketTooLarge",
        0x96 => "MessageRateTooHigh",
        0x97 => "QuotaExceeded",
        0x98 => "AdministrativeAction",
        0x99 => "PayloadFormatInvalid",
        0x9A => "RetainNotSupported",
        0x9B => "QosNotSupported",
        0x9C => "UseAnotherServer",
        0x9D => "ServerMoved",
        0x9E => "SharedSubscriptionsNotSupported",
        0x9F => "ConnectionRateExceeded",
        0xA0 => "MaximumConnectTime",
        0xA1 => "SubscriptionIdentifiersNotSupported",
        0xA2 => "WildcardSubscriptionsNotSupported",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::connect::{self as server, Connect};
    use super::*;

    #[test]
    fn our_own_server_reads_what_is_written() {
        for version in [Version::V311, Version::V5] {
            let login = Login {
                version,
                client_id: "gate-7",
                user: Some("gate"),
                password: Some("word"),
                keepalive: 30,
                session_expiry: 3600,
                receive_maximum: 100,
                maximum_packet_size: Some(1000),
                clean: false,
            };
            let mut out = Vec::new();
            connect(&mut out, &login);
            let mut reader = FieldReader::new(&out[2..]);
            assert_eq!(server::version(&mut reader), Ok(version));
            let read = Connect::read(version, reader).unwrap();
            assert_eq!((read.client_id, read.clean, read.keepalive), ("gate-7", false, 30));
            out.clear();
            subscribe(&mut out, version, 7, &[("a/#".into(), 1), ("b".into(), 0)]);
            let filters = super::super::control::Filters::subscribe(version, &out[2..]).unwrap();
            assert_eq!((filters.id, filters.entries.len()), (7, 2));
        }
    }

    #[test]
    fn answers_are_read_in_both_versions() {
        let old = welcome(Version::V5, &[0, 1]).unwrap();
        assert!(old.is_old && old.code == 1);
        let new = welcome(Version::V5, &[1, 0, 3, 0x13, 0, 9]).unwrap();
        assert_eq!((new.session_present, new.keepalive, new.code), (true, Some(9), 0));
        let bounds = [0, 0, 10, 0x21, 0, 2, 0x27, 0, 0, 1, 0xF4, 0x24, 0];
        let new = welcome(Version::V5, &bounds).unwrap();
        assert_eq!(
            (new.receive_maximum, new.maximum_packet_size, new.maximum_qos),
            (2, Some(500), 0)
        );
        assert!(welcome(Version::V5, &[0, 0, 3, 0x21, 0, 0]).is_err(), "a receive maximum of 0");
        assert!(welcome(Version::V311, &[0, 0, 0]).is_err());
        assert_eq!(granted(Version::V311, &[0, 7, 1, 0x80]), Ok((7, &[1, 0x80][..])));
        assert_eq!(granted(Version::V5, &[0, 7, 0, 1]), Ok((7, &[1][..])));
        assert_eq!(acknowledged(Version::V5, &[0, 7]), Ok((7, 0)));
        assert_eq!(acknowledged(Version::V5, &[0, 7, 0x97, 0]), Ok((7, 0x97)));
        assert!(acknowledged(Version::V311, &[0, 7, 0x97]).is_err());
        assert_eq!((farewell(&[]), farewell(&[0x8E, 0])), (Ok((0, None)), Ok((0x8E, None))));
    }
}
