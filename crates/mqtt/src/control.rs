//! The small packets of a client: SUBSCRIBE, UNSUBSCRIBE, acknowledgements, DISCONNECT.

use tidegate_broker::{SubscribeOptions, Subscription, SubscriptionError};

use super::property::{self as p, PropertyWalk};
use super::reader::FieldReader;
use super::{Reason, Version, Violation};

/// Filters of one packet that are looked at: as many as a session may subscribe to.
const FILTERS_MAX: usize = 10_000;

/// A SUBSCRIBE or UNSUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filters {
    /// Its packet identifier.
    pub id: u16,
    /// The filters, as many as are looked at.
    pub entries: Vec<FilterRequest>,
    /// How many more there were than a session may have.
    pub beyond: usize,
}

/// One filter of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterRequest {
    /// `None` for a text that is no filter.
    pub subscription: Option<Subscription>,
    /// How what matches is sent.
    pub options: SubscribeOptions,
    /// Which retained messages are wanted with it.
    pub retained: RetainHandling,
}

/// Which retained messages a subscription wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetainHandling {
    /// All that match.
    #[default]
    Always,
    /// Only those of a subscription that is new.
    IfNew,
    /// None.
    Never,
}

impl RetainHandling {
    /// Whether a subscription that is new or not wants them.
    pub fn wants(self, is_new: bool) -> bool {
        match self {
            RetainHandling::Always => true,
            RetainHandling::IfNew => is_new,
            RetainHandling::Never => false,
        }
    }
}

impl Filters {
    /// Reads a SUBSCRIBE: each filter is followed by its options.
    pub(crate) fn subscribe(version: Version, body: &[u8]) -> Result<Self, Violation> {
        Self::read(version, body, p::IN_SUBSCRIBE, |reader, subscription, id| {
            let bits = reader.byte()?;
            let reserved = if version == Version::V5 { 0xC0 } else { 0xFC };
            if bits & 3 == 3 || bits & reserved != 0 || bits & 0x30 == 0x30 {
                return Err(Violation::malformed("subscription options with reserved bits"));
            }
            let (no_local, retain_as_published) = (bits & 4 != 0, bits & 8 != 0);
            if no_local && subscription.is_some_and(|subscription| subscription.group.is_some()) {
                return Err(Violation::protocol("no local on a shared subscription"));
            }
            let retained = match bits >> 4 {
                0 => RetainHandling::Always,
                1 => RetainHandling::IfNew,
                _ => RetainHandling::Never,
            };
            Ok((SubscribeOptions { qos: bits & 3, no_local, retain_as_published, id }, retained))
        })
    }

    /// Reads an UNSUBSCRIBE. Before MQTT 5 its answer has no word for a text that is no filter.
    pub(crate) fn unsubscribe(version: Version, body: &[u8]) -> Result<Self, Violation> {
        let filters =
            Self::read(version, body, p::IN_UNSUBSCRIBE, |_, _, _| Ok(Default::default()))?;
        let is_wrong = filters.entries.iter().any(|entry| entry.subscription.is_none());
        if filters.beyond > 0 {
            return Err(Violation::new(
                Reason::ImplementationSpecific,
                "more topic filters than a session may have",
            ));
        }
        if is_wrong && version != Version::V5 {
            return Err(Violation::malformed("a topic filter that is none"));
        }
        Ok(filters)
    }

    fn read(
        version: Version,
        body: &[u8],
        allowed: u64,
        options: impl Fn(
            &mut FieldReader<'_>,
            Option<&Subscription>,
            Option<u32>,
        ) -> Result<(SubscribeOptions, RetainHandling), Violation>,
    ) -> Result<Self, Violation> {
        let mut reader = FieldReader::new(body);
        let id = reader.packet_id()?;
        let mut subscription_id = None;
        if version == Version::V5 {
            let mut properties = PropertyWalk::new(reader.section()?, allowed);
            while let Some((id, value)) = properties.next()? {
                if id == p::SUBSCRIPTION_ID {
                    subscription_id = Some(value.positive()?);
                }
            }
        }
        let (mut entries, mut beyond) = (Vec::new(), 0);
        while !reader.is_empty() {
            let filter = reader.name()?;
            if filter.is_empty() {
                return Err(Violation::malformed("an empty topic filter"));
            }
            let subscription = match Subscription::new(filter) {
                Ok(subscription) => Some(subscription),
                Err(SubscriptionError::Share) => {
                    return Err(Violation::protocol(
                        "a shared subscription is $share/GROUP/FILTER",
                    ));
                }
                Err(SubscriptionError::Filter(_)) => None,
            };
            let (options, retained) = options(&mut reader, subscription.as_ref(), subscription_id)?;
            match entries.len() {
                0..FILTERS_MAX => entries.push(FilterRequest { subscription, options, retained }),
                _ => beyond += 1,
            }
        }
        if entries.is_empty() {
            return Err(Violation::protocol("a subscription without topic filters"));
        }
        Ok(Filters { id, entries, beyond })
    }
}

/// Reads a PUBACK, PUBREC, PUBREL or PUBCOMP and returns its packet identifier and whether it tells of
/// a success; `known` lists its reason codes.
pub(crate) fn acknowledgement(
    version: Version,
    body: &[u8],
    known: &[u8],
) -> Result<(u16, bool), Violation> {
    let mut reader = FieldReader::new(body);
    let id = reader.packet_id()?;
    let mut reason = Reason::Success as u8;
    if version == Version::V5 && !reader.is_empty() {
        reason = reader.byte()?;
        if !known.contains(&reason) {
            return Err(Violation::protocol("an acknowledgement with an unknown reason code"));
        }
        if !reader.is_empty() {
            PropertyWalk::new(reader.section()?, p::IN_ACKNOWLEDGEMENT).check()?;
        }
    }
    reader.finish()?;
    Ok((id, reason < 0x80))
}

/// Reason codes of PUBACK and PUBREC.
pub(crate) const TAKEN: &[u8] = &[0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99];
/// Reason codes of PUBREL and PUBCOMP.
pub(crate) const RELEASED: &[u8] = &[0x00, 0x92];

/// What a client says in its DISCONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disconnect {
    pub(crate) discard_will: bool,
    /// Seconds that the session outlives the connection, where the client changes its mind.
    pub(crate) session_expiry: Option<u32>,
}

/// Reads a DISCONNECT. `session_expires` tells that the CONNECT wanted the session to end with the
/// connection, which DISCONNECT cannot revoke.
pub(crate) fn disconnect(
    version: Version,
    body: &[u8],
    session_expires: bool,
) -> Result<Disconnect, Violation> {
    const OF_CLIENTS: &[u8] =
        &[0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99];
    let mut reader = FieldReader::new(body);
    let mut reason = Reason::Success as u8;
    let mut session_expiry = None;
    if version == Version::V5 && !reader.is_empty() {
        reason = reader.byte()?;
        if !OF_CLIENTS.contains(&reason) {
            return Err(Violation::protocol("a disconnect with a reason code that is no client's"));
        }
        if !reader.is_empty() {
            let mut properties = PropertyWalk::new(reader.section()?, p::IN_DISCONNECT);
            while let Some((id, value)) = properties.next()? {
                if id != p::SESSION_EXPIRY {
                    continue;
                }
                if value.number() != 0 && session_expires {
                    return Err(Violation::protocol("a session expiry that the connect ruled out"));
                }
                session_expiry = Some(value.number());
            }
        }
    }
    reader.finish()?;
    Ok(Disconnect { discard_will: reason == Reason::Success as u8, session_expiry })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_judged_one_by_one() {
        let filters = Filters::subscribe(Version::V311, b"\x12\x34\0\x01a\x01\0\x02a#\0").unwrap();
        let good: Vec<bool> =
            filters.entries.iter().map(|entry| entry.subscription.is_some()).collect();
        assert_eq!((filters.id, good), (0x1234, vec![true, false]));
        assert_eq!(filters.entries[0].options.qos, 1);
        let filters = Filters::unsubscribe(Version::V5, b"\x12\x34\0\0\x01a").unwrap();
        assert_eq!(filters.entries.len(), 1);
    }

    #[test]
    fn options_are_read() {
        let body = b"\0\x07\x02\x0B\x09\0\x01a\x2E";
        let Filters { entries, .. } = Filters::subscribe(Version::V5, body).unwrap();
        let options =
            SubscribeOptions { qos: 2, no_local: true, retain_as_published: true, id: Some(9) };
        assert_eq!((entries[0].options, entries[0].retained), (options, RetainHandling::Never));
        assert!(RetainHandling::IfNew.wants(true) && !RetainHandling::IfNew.wants(false));
        let shared = b"\0\x07\0\0\x0A$share/g/a\x04";
        let refused = Filters::subscribe(Version::V5, shared).unwrap_err();
        assert_eq!(refused.reason, Reason::ProtocolError);
    }

    #[test]
    fn subscriptions_without_filters_or_with_reserved_bits_are_refused() {
        assert!(Filters::subscribe(Version::V311, b"\x12\x34").is_err());
        assert!(Filters::subscribe(Version::V311, b"\x12\x34\0\x01a\x04").is_err());
        assert!(Filters::subscribe(Version::V5, b"\x12\x34\0\0\x01a\x04").is_ok());
        assert!(Filters::subscribe(Version::V5, b"\x12\x34\0\0\x01a\x40").is_err());
        assert!(Filters::subscribe(Version::V5, b"\0\0\0\0\x01a\0").is_err());
    }

    #[test]
    fn a_disconnect_may_keep_the_will() {
        let says = |discard_will, session_expiry| Ok(Disconnect { discard_will, session_expiry });
        assert_eq!(disconnect(Version::V311, b"", true), says(true, None));
        assert_eq!(disconnect(Version::V5, b"\x04", true), says(false, None));
        let ends = disconnect(Version::V5, b"\x00\x05\x11\0\0\0\0", true);
        assert_eq!(ends, says(true, Some(0)));
        let revoked = disconnect(Version::V5, b"\x00\x05\x11\0\0\0\x01", true);
        assert_eq!(revoked.unwrap_err().reason, Reason::ProtocolError);
        assert!(disconnect(Version::V5, b"\x8E", true).is_err());
        assert!(disconnect(Version::V311, b"\0", true).is_err());
    }

    #[test]
    fn acknowledgements_are_checked() {
        assert_eq!(acknowledgement(Version::V311, b"\0\x07", TAKEN), Ok((7, true)));
        assert_eq!(acknowledgement(Version::V5, b"\0\x07\x92\0", RELEASED), Ok((7, false)));
        assert!(acknowledgement(Version::V311, b"\0\x07\0", TAKEN).is_err());
        assert!(acknowledgement(Version::V5, b"\0\x07\xFF", TAKEN).is_err());
    }
}
