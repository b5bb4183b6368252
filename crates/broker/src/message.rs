//! A message: what all its deliveries share.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::account::{Account, Kind, Refusal, Reservation};
use tidegate_types::class::ClassId;
use tidegate_types::record::Properties;
use tidegate_types::units::Time;

/// Memory of a message without content: itself and the allocations of topic and payload.
const FOOTPRINT: usize = 320;
/// Memory of a property beside its text.
const PAIR: usize = 160;

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

/// What is reserved for a message where it waits; deliveries of one publish share it. It is of the memory, and
/// not of what is delivered.
#[derive(Clone, Debug, Default)]
pub struct MessageReservation(Option<Arc<Share>>);

#[derive(Debug)]
enum Share {
    All { _held: Reservation },
    Part { _of: MessageReservation },
}

impl MessageReservation {
    /// Reserves what messages take together: one step for many. It is given back when the last delivery of them is
    /// gone.
    ///
    /// # Errors
    /// There is no room.
    pub fn of(bytes: usize, account: &Account) -> Result<MessageReservation, Refusal> {
        let _held = account.reserve(Kind::Messages, bytes)?;
        Ok(MessageReservation(Some(Arc::new(Share::All { _held }))))
    }

    /// The same for one subscriber: its deliveries share this, and no counter with those of others, which other threads
    /// work on.
    #[must_use]
    pub fn part(&self) -> MessageReservation {
        let part = |_: &Arc<Share>| Arc::new(Share::Part { _of: self.clone() });
        MessageReservation(self.0.as_ref().map(part))
    }

    /// Whether anything is reserved.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.is_some()
    }
}

impl PartialEq for MessageReservation {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for MessageReservation {}

impl Message {
    /// What is left of a message of which only the number counts.
    pub(crate) fn empty(class: ClassId) -> Message {
        Message {
            topic: Bytes::new(),
            payload: Bytes::new(),
            properties: Properties::default(),
            qos: 2,
            retain: false,
            arrived: Time::ZERO,
            expires: None,
            class,
            deadline: Time::ZERO,
            source_unix_ns: None,
            meter: None,
        }
    }

    /// Whether nobody wants it any more.
    #[inline]
    pub fn is_expired(&self, now: Time) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Whether a subscriber is told no more of it than topic and payload, if it gets it with QoS 0.
    pub(super) fn is_plain(&self) -> bool {
        let Message { properties, retain, expires, source_unix_ns, meter, .. } = self;
        let is_timeless = expires.is_none() && source_unix_ns.is_none() && meter.is_none();
        is_timeless && !retain && properties.iter().next().is_none()
    }

    /// Bytes that it takes.
    #[inline]
    pub fn size(&self) -> usize {
        let properties = usize::try_from(self.properties.size().0).unwrap_or(usize::MAX);
        self.topic.len().saturating_add(self.payload.len()).saturating_add(properties)
    }

    /// Bytes of memory that it takes, those of its allocations included.
    #[inline]
    pub fn footprint(&self) -> usize {
        self.size() + FOOTPRINT + PAIR * self.properties.iter().count()
    }
}

/// Subscription identifiers, of all subscriptions of one session that a message matches.
pub type Ids = Option<Arc<[u32]>>;

/// A message for one subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriberMessage {
    /// The message.
    pub message: Arc<Message>,
    /// The smaller one of the publisher's and the subscription's.
    pub qos: u8,
    /// What the subscriber is told of retaining.
    pub retain: bool,
    /// Which of its subscriptions it is for, where they have identifiers.
    pub ids: Ids,
    /// What is reserved for it.
    pub charge: MessageReservation,
    /// Its number in the journal of sessions; 0 where it is not there.
    pub number: u64,
}
