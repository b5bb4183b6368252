//! How a PUBLISH or a will becomes a record.
//!
//! A record owns exactly its own bytes: a slice of the read buffer would hold the whole buffer for as
//! long as one record of it waits.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use tidegate_types::record::{Offered, Properties, SourceId, Token};
use tidegate_types::units::Time;

use crate::connect::check_record_property;
use crate::property::{self as p, PropertyValue};
use crate::{Reason, Violation};

pub use tidegate_types::headers::{
    CONTENT_TYPE, CORRELATION_DATA, PAYLOAD_FORMAT, RESPONSE_TOPIC, RETAIN, SOURCE_TIME,
};

/// User properties of one record. Each costs some sixty bytes beside its text, and a large packet could
/// hold hundreds of thousands of empty ones.
const USER_PROPERTIES_MAX: usize = 64;

/// What the MQTT 5 properties of a PUBLISH or will say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) properties: Properties,
    pub(crate) topic_alias: Option<u32>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) source_unix_ns: Option<u64>,
}

impl Facts {
    /// Bytes of memory that its properties take.
    pub(crate) fn size(&self) -> usize {
        /// Beside the text of one.
        const PAIR: usize = 160;
        let text = usize::try_from(self.properties.size().0).unwrap_or(usize::MAX);
        text.saturating_add(PAIR * self.properties.iter().count())
    }

    /// Reads a property section; `allowed` is the packet's set. The sender's own properties come
    /// before its user properties, so that a user property of the same name does not hide them.
    pub(crate) fn read(section: &[u8], allowed: u64, retain: bool) -> Result<Self, Violation> {
        if section.is_empty() {
            static RETAINED: LazyLock<Properties> =
                LazyLock::new(|| Properties::new(vec![pair(RETAIN, Bytes::from_static(b"1"))]));
            let properties = if retain { RETAINED.clone() } else { Properties::default() };
            return Ok(Facts { properties, ..Facts::default() });
        }
        let mut facts = Facts::default();
        let mut pairs = Vec::new();
        let mut user = Vec::new();
        if retain {
            pairs.push(pair(RETAIN, Bytes::from_static(b"1")));
        }
        let mut walk = p::PropertyWalk::new(section, allowed);
        while let Some((id, value)) = walk.next()? {
            check_record_property(id, value)?;
            match (id, value) {
                (p::TOPIC_ALIAS, value) => facts.topic_alias = Some(value.number()),
                (p::EXPIRY, value) => {
                    facts.ttl = Some(Duration::from_secs(value.number().into()));
                }
                (p::PAYLOAD_FORMAT, PropertyValue::Number(1)) => {
                    pairs.push(pair(PAYLOAD_FORMAT, Bytes::from_static(b"1")));
                }
                (p::CONTENT_TYPE, value) => pairs.push(copied(CONTENT_TYPE, value)),
                (p::RESPONSE_TOPIC, value) => pairs.push(copied(RESPONSE_TOPIC, value)),
                (p::CORRELATION_DATA, value) => pairs.push(copied(CORRELATION_DATA, value)),
                (_, PropertyValue::Pair(..)) if user.len() > USER_PROPERTIES_MAX => {}
                (_, PropertyValue::Pair(name, value)) => match source_time(name, value) {
                    Some(time) => facts.source_unix_ns = Some(time),
                    None => user.push((copy(name.as_bytes()), copy(value.as_bytes()))),
                },
                _ => {}
            }
        }
        if user.len() > USER_PROPERTIES_MAX {
            return Err(Violation::new(Reason::QuotaExceeded, "more than 64 user properties"));
        }
        pairs.append(&mut user);
        facts.properties = Properties::new(pairs);
        Ok(facts)
    }

    /// The record of these facts.
    pub(crate) fn record(
        self,
        source: SourceId,
        token: Option<Token>,
        key: Bytes,
        payload: Bytes,
        read_at: Time,
    ) -> Offered {
        Offered {
            source,
            token,
            key,
            properties: self.properties,
            payload,
            read_at,
            source_unix_ns: self.source_unix_ns,
            ttl: self.ttl,
            foreign: None,
            packet: None,
        }
    }
}

fn pair(name: &'static str, value: Bytes) -> (Bytes, Bytes) {
    (Bytes::from_static(name.as_bytes()), value)
}

fn copied(name: &'static str, value: PropertyValue<'_>) -> (Bytes, Bytes) {
    pair(name, copy(value.bytes()))
}

fn copy(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

fn source_time(name: &str, value: &str) -> Option<u64> {
    if name == SOURCE_TIME { value.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(id: u8, text: &str) -> Vec<u8> {
        [&[id][..], &(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
    }

    fn user(name: &str, value: &str) -> Vec<u8> {
        [text(p::USER, name), text(0, value)[1..].to_vec()].concat()
    }

    #[test]
    fn properties_are_kept_and_expiry_is_ttl() {
        let section = [
            user("content-type", "forged"),
            text(p::CONTENT_TYPE, "application/json"),
            vec![p::EXPIRY, 0, 0, 0, 0],
            vec![p::CORRELATION_DATA, 0, 2, 0xFF, 0x00],
            vec![p::PAYLOAD_FORMAT, 1],
            user("source-time-ns", "1700000000000000000"),
        ]
        .concat();
        let facts = Facts::read(&section, p::IN_PUBLISH, true).unwrap();
        assert_eq!(facts.ttl, Some(Duration::ZERO));
        assert_eq!(facts.source_unix_ns, Some(1_700_000_000_000_000_000));
        assert_eq!(facts.properties.find(CONTENT_TYPE).unwrap(), "application/json");
        assert_eq!(facts.properties.find(CORRELATION_DATA).unwrap().as_ref(), [0xFF, 0x00]);
        assert_eq!(facts.properties.find(PAYLOAD_FORMAT).unwrap(), "1");
        assert_eq!(facts.properties.find(RETAIN).unwrap(), "1");
        assert_eq!(facts.properties.iter().count(), 5);
    }

    #[test]
    fn a_source_time_that_is_no_number_stays_a_property() {
        let facts = Facts::read(&user("source-time-ns", "noon"), p::IN_PUBLISH, false).unwrap();
        assert_eq!(facts.source_unix_ns, None);
        assert_eq!(facts.properties.find(SOURCE_TIME).unwrap(), "noon");
    }

    #[test]
    fn user_properties_are_bounded() {
        let section = |count: usize| user("", "").repeat(count);
        assert!(Facts::read(&section(USER_PROPERTIES_MAX), p::IN_PUBLISH, false).is_ok());
        let many = section(USER_PROPERTIES_MAX + 1);
        let refused = Facts::read(&many, p::IN_PUBLISH, false).unwrap_err();
        assert_eq!(refused.reason, Reason::QuotaExceeded);
    }

    #[test]
    fn nothing_costs_nothing() {
        assert_eq!(Facts::read(&[], p::IN_PUBLISH, false).unwrap(), Facts::default());
        let retained = Facts::read(&[], p::IN_PUBLISH, true).unwrap();
        assert_eq!(retained.properties.find(RETAIN).unwrap(), "1");
    }
}
