//! The record: what is scheduled, how it is identified, and the ways it can end.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::units::{Size, Time};

/// Where a record was first accepted. The incarnation is new whenever the node's log is new, so no
/// identity ever repeats.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Name of the accepting node.
    pub node: Arc<str>,
    /// Which life of that node's log.
    pub incarnation: u64,
}

/// Number of a stream within one incarnation; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// What a record is called everywhere and for ever: `(node, incarnation, stream, seq)`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The node that accepted it first, and which life of its log.
    pub origin: Arc<Origin>,
    /// Its stream on that node.
    pub stream: StreamId,
    /// Its place in the stream, from 1, given at acceptance.
    pub seq: u64,
}

impl fmt::Display for Identity {
    /// `gate-7/1c9f…/12/345`, the form that headers and `tidegate explain` use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { node, incarnation } = &*self.origin;
        write!(f, "{node}/{incarnation:016x}/{}/{}", self.stream.0, self.seq)
    }
}

/// The text names no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an identity is NODE/INCARNATION/STREAM/SEQ, as in gate-7/1c9f5a0be7d20c11/12/345; the \
     incarnation in hexadecimal digits"
)]
pub struct IdentityError;

impl FromStr for Identity {
    type Err = IdentityError;

    /// The form that is shown. The name of a node may have slashes.
    fn from_str(text: &str) -> Result<Self, IdentityError> {
        let mut parts = text.rsplitn(4, '/');
        let mut part = || parts.next().ok_or(IdentityError);
        let (seq, stream, incarnation, node) = (part()?, part()?, part()?, part()?);
        let number =
            |text: &str, radix| u64::from_str_radix(text, radix).map_err(|_| IdentityError);
        let origin = Origin { node: node.into(), incarnation: number(incarnation, 16)? };
        let (stream, seq) = (StreamId(number(stream, 10)?), number(seq, 10)?);
        Ok(Identity { origin: Arc::new(origin), stream, seq })
    }
}

/// One connection (or file, or camera) of an input; chosen by the driver, dense from 0, reused after
/// `Control::Close`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

/// The driver's own number for an acceptance that a sender waits for; opaque to the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// One (record, destination) pair that waits or is under way. A handle with a generation: an old one
/// names nothing, so a stale handle is harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryId(pub u64);

/// Work that the driver does for the node: a transformation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// What a record carries beside key and payload (MQTT user properties, content type, ...), in the
/// sender's order. Cheap to clone; empty costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties(Option<Arc<[(Bytes, Bytes)]>>);

impl Properties {
    /// The given pairs, in order.
    pub fn new(pairs: Vec<(Bytes, Bytes)>) -> Self {
        Properties((!pairs.is_empty()).then(|| pairs.into()))
    }

    /// The pairs in the sender's order.
    pub fn iter(&self) -> impl Iterator<Item = &(Bytes, Bytes)> {
        self.0.iter().flat_map(|pairs| pairs.iter())
    }

    /// The first value of `name`.
    pub fn find(&self, name: &str) -> Option<&Bytes> {
        self.iter().find(|(key, _)| key == name.as_bytes()).map(|(_, value)| value)
    }

    /// Bytes of all names and values.
    #[inline]
    pub fn size(&self) -> Size {
        Size(self.iter().map(|(name, value)| (name.len() + value.len()) as u64).sum())
    }
}

/// A record as an input offers it, before it is accepted.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The connection it came by.
    pub source: SourceId,
    /// Set where the sender waits for `Output::Accept`; `None` for at-most-once senders.
    pub token: Option<Token>,
    /// Key (for MQTT the topic), UTF-8.
    pub key: Bytes,
    /// What travels beside the payload.
    pub properties: Properties,
    /// The payload.
    pub payload: Bytes,
    /// When the input had read its last byte; residence counts from here.
    pub read_at: Time,
    /// When the source says it was made: nanoseconds since the Unix epoch.
    pub source_unix_ns: Option<u64>,
    /// How long it is worth sending, from `read_at`; the rule's own `ttl` applies as well.
    pub ttl: Option<Duration>,
    /// Set for a record that another node accepted first.
    pub foreign: Option<Foreign>,
    /// Under which packet identifier it may come again and must not be taken twice (QoS 2), where the
    /// sender's session outlives its connection.
    pub packet: Option<u16>,
}

/// What another node, which accepted a record first, says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Its name, which travels on.
    pub identity: Identity,
    /// Whether an earlier attempt may have arrived: then so may this one, a second time. The log knows no
    /// attempts: the process remembers which of its records are marked, and the next one marks all.
    pub again: bool,
    /// What was left of its bound when it came, where that counts here: a neighbour's record, for our uplink.
    pub left: Option<Duration>,
}

/// On whose account records are, as far as their input knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A user who proved his name.
    User(Arc<str>),
    /// A client of which only the address is known.
    Address(Arc<str>),
}

/// What one owner may have, beside his share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Streams that are fed or hold something.
    pub streams: Option<u32>,
    /// Bytes of the log that his records take.
    pub log: Option<Size>,
}

/// When the sender is told that its record is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptMode {
    /// As soon as it is queued.
    #[default]
    Memory,
    /// After the group commit that holds it.
    Durable,
    /// After every destination confirmed it.
    Confirmed,
}

/// Why an offered record was not accepted. The input tells the sender in its protocol's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefuseReason {
    /// No rule covers the key and there is no default output.
    NoRule,
    /// The sender has no right to the key; inputs say so, before the node sees the record.
    Forbidden,
    /// The stream's or the node's bound is reached and its policy is to refuse.
    Full,
    /// Larger than the rule or the node allows.
    Oversize,
    /// More streams than `limits::STREAMS_MAX`, or than one owner may have of them.
    TooManyStreams,
    /// The log could not take it (disk full, read-only).
    Storage,
    /// The node is stopping.
    Stopping,
    /// Its fate was `Dropped` before every destination confirmed it (accept mode `Confirmed`).
    Dropped(DropReason),
}

impl RefuseReason {
    /// Label for metrics and messages.
    pub fn name(self) -> &'static str {
        match self {
            RefuseReason::NoRule => "no-rule",
            RefuseReason::Forbidden => "forbidden",
            RefuseReason::Full => "full",
            RefuseReason::Oversize => "oversize",
            RefuseReason::TooManyStreams => "too-many-streams",
            RefuseReason::Storage => "storage",
            RefuseReason::Stopping => "stopping",
            RefuseReason::Dropped(reason) => reason.name(),
        }
    }
}

crate::named! {
    /// Why an accepted record ended without confirmation. Every value is a metric label.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DropReason {
        /// Its `ttl` passed.
        Expired = "expired",
        /// The stream or the node was full and the policy drops.
        Full = "full",
        /// A newer record of the same key came and the discipline is `newest-only`.
        Superseded = "superseded",
        /// A script or an operator of the console dropped it.
        Script = "script",
        /// The destination can never take it (larger than its limit).
        Oversize = "oversize",
        /// The destination refused it for good.
        Refused = "refused",
        /// The destination has nowhere to put it (AMQP: unroutable).
        Unroutable = "unroutable",
        /// Its preparation failed (unreadable log record, undecodable frame).
        Unprepared = "unprepared",
        /// The node stopped without a log to keep it.
        Stopped = "stopped",
        /// The log could not take it, or what it took is damaged.
        Storage = "storage",
        /// It is a neighbour's, and goes back to it: the neighbour answers for it.
        GivenBack = "given-back",
        /// Its sender went away before it was sent.
        Withdrawn = "withdrawn",
    }
}

impl DropReason {
    /// Place in `ALL`.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// How a delivery ended: exactly one of these, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The destination has it.
    Confirmed,
    /// It was given up, and why.
    Dropped(DropReason),
}

/// An accepted record as outputs see it.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its name.
    pub identity: Identity,
    /// Key (for MQTT the topic), UTF-8.
    pub key: Bytes,
    /// What travels beside the payload.
    pub properties: Properties,
    /// The payload.
    pub payload: Bytes,
    /// Arrival on the node's monotonic clock.
    pub arrived: Time,
    /// Arrival + latency bound.
    pub deadline: Time,
    /// When it stops being worth sending.
    pub expires: Option<Time>,
    /// When the source says it was made: nanoseconds since the Unix epoch.
    pub source_unix_ns: Option<u64>,
}

impl Record {
    /// Bytes as bounds count them: key, properties and payload.
    pub fn size(&self) -> Size {
        Size(self.key.len() as u64) + self.properties.size() + Size(self.payload.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_prints_as_a_path() {
        let origin = Arc::new(Origin { node: "gate-7".into(), incarnation: 0x1c9f });
        let identity = Identity { origin, stream: StreamId(12), seq: 345 };
        assert_eq!(identity.to_string(), "gate-7/0000000000001c9f/12/345");
        assert_eq!("gate-7/1c9f/12/345".parse(), Ok(identity));
        let slashes: Identity = "site/gate/1/2/3".parse().unwrap();
        assert_eq!((&*slashes.origin.node, slashes.seq), ("site/gate", 3));
        for wrong in ["", "gate-7/12/345", "gate-7/x/12/345", "gate-7/1c9f/12/-1"] {
            assert_eq!(wrong.parse::<Identity>(), Err(IdentityError), "{wrong}");
        }
    }

    #[test]
    fn drop_reasons_stand_at_their_index() {
        for (place, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), place);
        }
    }

    #[test]
    fn properties_keep_order_and_find_the_first() {
        let pair = |k: &'static str, v: &'static str| (Bytes::from(k), Bytes::from(v));
        let properties = Properties::new(vec![pair("a", "1"), pair("b", "2"), pair("a", "3")]);
        assert_eq!(properties.find("a").unwrap().as_ref(), b"1");
        assert_eq!(properties.size(), Size(6));
        assert_eq!(Properties::new(vec![]), Properties::default());
    }
}
