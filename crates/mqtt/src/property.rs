//! MQTT 5 properties: which exist, of what type, and where they may stand (MQTT 5, 2.2.2).

use super::Violation;
use super::reader::FieldReader;

pub(crate) const PAYLOAD_FORMAT: u8 = 0x01;
pub(crate) const EXPIRY: u8 = 0x02;
pub(crate) const CONTENT_TYPE: u8 = 0x03;
pub(crate) const RESPONSE_TOPIC: u8 = 0x08;
pub(crate) const CORRELATION_DATA: u8 = 0x09;
pub(crate) const SUBSCRIPTION_ID: u8 = 0x0B;
pub(crate) const SESSION_EXPIRY: u8 = 0x11;
pub(crate) const ASSIGNED_CLIENT_ID: u8 = 0x12;
pub(crate) const SERVER_KEEPALIVE: u8 = 0x13;
pub(crate) const AUTHENTICATION_METHOD: u8 = 0x15;
pub(crate) const AUTHENTICATION_DATA: u8 = 0x16;
pub(crate) const REQUEST_PROBLEM: u8 = 0x17;
pub(crate) const WILL_DELAY: u8 = 0x18;
pub(crate) const REQUEST_RESPONSE: u8 = 0x19;
pub(crate) const RESPONSE_INFORMATION: u8 = 0x1A;
pub(crate) const SERVER_REFERENCE: u8 = 0x1C;
pub(crate) const REASON_STRING: u8 = 0x1F;
pub(crate) const RECEIVE_MAXIMUM: u8 = 0x21;
pub(crate) const TOPIC_ALIAS_MAXIMUM: u8 = 0x22;
pub(crate) const TOPIC_ALIAS: u8 = 0x23;
pub(crate) const MAXIMUM_QOS: u8 = 0x24;
pub(crate) const RETAIN_AVAILABLE: u8 = 0x25;
pub(crate) const USER: u8 = 0x26;
pub(crate) const MAXIMUM_PACKET_SIZE: u8 = 0x27;

const fn set(ids: &[u8]) -> u64 {
    let mut bits = 0;
    let mut place = 0;
    while place < ids.len() {
        bits |= 1 << ids[place];
        place += 1;
    }
    bits
}

/// PropertyWalk of a client's PUBLISH.
pub(crate) const IN_PUBLISH: u64 = set(&[
    PAYLOAD_FORMAT,
    EXPIRY,
    CONTENT_TYPE,
    RESPONSE_TOPIC,
    CORRELATION_DATA,
    TOPIC_ALIAS,
    USER,
]);
/// PropertyWalk of a broker's PUBLISH.
pub(crate) const IN_DELIVERY: u64 = IN_PUBLISH | set(&[SUBSCRIPTION_ID]);
/// PropertyWalk of CONNACK; the flags of what a broker has are 0x25 and 0x28 to 0x2A.
pub(crate) const IN_WELCOME: u64 = set(&[
    SESSION_EXPIRY,
    ASSIGNED_CLIENT_ID,
    SERVER_KEEPALIVE,
    AUTHENTICATION_METHOD,
    AUTHENTICATION_DATA,
    RESPONSE_INFORMATION,
    SERVER_REFERENCE,
    REASON_STRING,
    RECEIVE_MAXIMUM,
    TOPIC_ALIAS_MAXIMUM,
    MAXIMUM_QOS,
    RETAIN_AVAILABLE,
    USER,
    MAXIMUM_PACKET_SIZE,
    0x28,
    0x29,
    0x2A,
]);
/// PropertyWalk of CONNECT.
pub(crate) const IN_CONNECT: u64 = set(&[
    SESSION_EXPIRY,
    AUTHENTICATION_METHOD,
    AUTHENTICATION_DATA,
    REQUEST_PROBLEM,
    REQUEST_RESPONSE,
    RECEIVE_MAXIMUM,
    TOPIC_ALIAS_MAXIMUM,
    USER,
    MAXIMUM_PACKET_SIZE,
]);
/// PropertyWalk of a will.
pub(crate) const IN_WILL: u64 = set(&[
    PAYLOAD_FORMAT,
    EXPIRY,
    CONTENT_TYPE,
    RESPONSE_TOPIC,
    CORRELATION_DATA,
    WILL_DELAY,
    USER,
]);
/// PropertyWalk of SUBSCRIBE.
pub(crate) const IN_SUBSCRIBE: u64 = set(&[SUBSCRIPTION_ID, USER]);
/// PropertyWalk of UNSUBSCRIBE.
pub(crate) const IN_UNSUBSCRIBE: u64 = set(&[USER]);
/// PropertyWalk of PUBACK and its relatives.
pub(crate) const IN_ACKNOWLEDGEMENT: u64 = set(&[REASON_STRING, USER]);
/// PropertyWalk of a client's DISCONNECT; the server reference is a server's, but harmless.
pub(crate) const IN_DISCONNECT: u64 = set(&[SESSION_EXPIRY, REASON_STRING, SERVER_REFERENCE, USER]);

/// A property's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PropertyValue<'a> {
    Number(u32),
    Text(&'a str),
    Binary(&'a [u8]),
    Pair(&'a str, &'a str),
}

impl<'a> PropertyValue<'a> {
    /// The number; 0 for other types, which the table of types makes impossible.
    pub(crate) fn number(self) -> u32 {
        if let PropertyValue::Number(number) = self { number } else { 0 }
    }

    /// Text or binary data.
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            PropertyValue::Text(text) => text.as_bytes(),
            PropertyValue::Binary(bytes) => bytes,
            PropertyValue::Number(_) | PropertyValue::Pair(..) => &[],
        }
    }

    /// Refuses what is neither 0 nor 1.
    pub(crate) fn flag(self) -> Result<bool, Violation> {
        match self.number() {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Violation::protocol("a property that is 0 or 1 has another value")),
        }
    }

    /// Refuses 0.
    pub(crate) fn positive(self) -> Result<u32, Violation> {
        match self.number() {
            0 => Err(Violation::protocol("a property that must not be 0 is 0")),
            number => Ok(number),
        }
    }
}

/// A walk through one property section. Stops at the first mistake.
#[derive(Debug)]
pub(crate) struct PropertyWalk<'a> {
    reader: FieldReader<'a>,
    allowed: u64,
    seen: u64,
}

impl<'a> PropertyWalk<'a> {
    pub(crate) fn new(section: &'a [u8], allowed: u64) -> Self {
        PropertyWalk { reader: FieldReader::new(section), allowed, seen: 0 }
    }

    /// The next property; `None` at the end. An unknown property and one in the wrong packet are
    /// malformed (2.2.2.2), one that stands twice is a protocol error.
    pub(crate) fn next(&mut self) -> Result<Option<(u8, PropertyValue<'a>)>, Violation> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let id = self.reader.variable()?;
        let value = read_value(id, &mut self.reader)?;
        let bit = 1_u64 << id;
        if self.allowed & bit == 0 {
            return Err(Violation::malformed("a property that does not belong into its packet"));
        }
        if self.seen & bit != 0 && id != u32::from(USER) {
            return Err(Violation::protocol("a property stands twice"));
        }
        self.seen |= bit;
        Ok(Some((id as u8, value)))
    }

    /// Checks all that is left.
    pub(crate) fn check(mut self) -> Result<(), Violation> {
        while self.next()?.is_some() {}
        Ok(())
    }
}

/// Reads a value of the type that belongs to `id`; ids above 0x2A do not exist.
fn read_value<'a>(id: u32, reader: &mut FieldReader<'a>) -> Result<PropertyValue<'a>, Violation> {
    Ok(match id {
        0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28..=0x2A => {
            PropertyValue::Number(reader.byte()?.into())
        }
        0x13 | 0x21..=0x23 => PropertyValue::Number(reader.two()?.into()),
        0x02 | 0x11 | 0x18 | 0x27 => PropertyValue::Number(reader.four()?),
        0x0B => PropertyValue::Number(reader.variable()?),
        0x03 | 0x08 | 0x12 | 0x15 | 0x1A | 0x1C | 0x1F => PropertyValue::Text(reader.text()?),
        0x09 | 0x16 => PropertyValue::Binary(reader.binary()?),
        0x26 => PropertyValue::Pair(reader.text()?, reader.text()?),
        _ => return Err(Violation::malformed("an unknown property")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    fn refusal(section: &[u8]) -> Reason {
        PropertyWalk::new(section, IN_PUBLISH).check().unwrap_err().reason
    }

    #[test]
    fn values_have_the_type_of_their_property() {
        let section = [0x01, 1, 0x02, 0, 0, 0, 0, 0x26, 0, 1, b'k', 0, 1, b'v', 0x09, 0, 1, 7];
        let mut properties = PropertyWalk::new(&section, IN_PUBLISH);
        assert_eq!(properties.next(), Ok(Some((PAYLOAD_FORMAT, PropertyValue::Number(1)))));
        assert_eq!(properties.next(), Ok(Some((EXPIRY, PropertyValue::Number(0)))));
        assert_eq!(properties.next(), Ok(Some((USER, PropertyValue::Pair("k", "v")))));
        assert_eq!(properties.next(), Ok(Some((CORRELATION_DATA, PropertyValue::Binary(&[7])))));
        assert_eq!(properties.next(), Ok(None));
    }

    #[test]
    fn mistakes_have_the_reason_that_the_standard_gives() {
        assert_eq!(refusal(&[0x04, 1]), Reason::MalformedPacket);
        assert_eq!(refusal(&[0xFF, 0x7F, 1]), Reason::MalformedPacket);
        assert_eq!(refusal(&[0x01]), Reason::MalformedPacket);
        assert_eq!(refusal(&[0x17, 0]), Reason::MalformedPacket);
        assert_eq!(refusal(&[0x0B, 1]), Reason::MalformedPacket);
        assert_eq!(refusal(&[0x01, 1, 0x01, 1]), Reason::ProtocolError);
    }

    #[test]
    fn user_properties_may_repeat() {
        let pair = [0x26, 0, 1, b'k', 0, 1, b'v'];
        assert!(PropertyWalk::new(&[pair, pair].concat(), IN_PUBLISH).check().is_ok());
    }
}
