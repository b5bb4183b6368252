//! A message: what all its deliveries share.

use std::sync::Arc;

use bytes::Bytes;

use crate::class::ClassId;
use crate::record::Properties;
use crate::units::Time;

/// A message that was published here. All who get it share one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// UTF-8, without wildcards.
    pub topic: Bytes,
    /// Any bytes.
    pub payload: Bytes,
    /// What travels beside the payload.
    pub properties: Properties,
    /// 0, 1 or 2, as its publisher chose.
    pub qos: u8,
    /// Whether its publisher wants it to be retained.
    pub retain: bool,
    /// When it was read.
    pub arrived: Time,
    /// From when on nobody wants it.
    pub expires: Option<Time>,
    /// The class of its topic.
    pub class: ClassId,
    /// When it is late.
    pub deadline: Time,
    /// When its source says that it was made: nanoseconds since the Unix epoch.
    pub source_unix_ns: Option<u64>,
    /// Whose figures count its deliveries, where an operator made it.
    pub meter: Option<u32>,
}

impl Message {
    /// Whether nobody wants it any more.
    pub fn is_expired(&self, now: Time) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        let properties = usize::try_from(self.properties.size().0).unwrap_or(usize::MAX);
        self.topic.len().saturating_add(self.payload.len()).saturating_add(properties)
    }
}

/// Subscription identifiers, of all subscriptions of one session that a message matches.
pub type Ids = Option<Arc<[u32]>>;

/// A message for one subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The message.
    pub message: Arc<Message>,
    /// The smaller one of the publisher's and the subscription's.
    pub qos: u8,
    /// What the subscriber is told of retaining.
    pub retain: bool,
    /// Which of its subscriptions it is for, where they have identifiers.
    pub ids: Ids,
}
