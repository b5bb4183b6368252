//! What is said of an outbox: its bounds, what goes next, what is dropped and why.

use std::collections::BTreeMap;
use std::ops::Deref;

use tidegate_types::class::ClassId;

use super::message::SubscriberMessage;

tidegate_types::named! {
    /// Why a subscriber does not get a message.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum OutboxDropReason {
        /// The outbox was full.
        Full = "full",
        /// Its time was over.
        Expired = "expired",
        /// It is larger than the subscriber takes.
        Oversize = "oversize",
        /// QoS 0, and the subscriber was away.
        Away = "away",
    }
}

/// How many messages of which class were dropped, and why.
pub type Drops = BTreeMap<(ClassId, OutboxDropReason), u64>;

/// What an outbox holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxLimits {
    /// Messages.
    pub count: usize,
    /// Bytes, each message counted for each of its subscribers.
    pub bytes: usize,
}

/// A message that goes now: the outbox is done with it, or keeps it until it is acknowledged.
#[derive(Debug)]
pub enum NextMessage<'a> {
    /// It is nowhere else.
    Done(SubscriberMessage),
    /// It stays in the window.
    Kept(&'a SubscriberMessage),
}

impl Deref for NextMessage<'_> {
    type Target = SubscriberMessage;

    #[inline]
    fn deref(&self) -> &SubscriberMessage {
        match self {
            NextMessage::Done(delivery) => delivery,
            NextMessage::Kept(delivery) => delivery,
        }
    }
}

/// What a subscriber is to be sent.
#[derive(Debug)]
pub enum NextSend<'a> {
    /// A PUBLISH.
    Publish {
        /// The message.
        delivery: NextMessage<'a>,
        /// Its packet identifier, for QoS 1 and 2.
        id: Option<u16>,
        /// Whether it was sent before.
        again: bool,
    },
    /// A PUBREL.
    Release(u16),
}

/// What an acknowledgement was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckOutcome {
    /// A publish that waited for it.
    Expected,
    /// Nothing that is known.
    Unknown,
    /// A publish that waits for an acknowledgement of another kind.
    Wrong,
}
