//! One record on its way to one destination, and how far it is.

use super::{DeliveryKey, QueueKey, RecordKey};
use crate::units::{Size, Time};

/// Which of a queue's two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timing {
    /// Before their deadline.
    Live,
    /// Past it, or read back from disk.
    Late,
}

/// Where a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It waits.
    Waiting(Timing),
    /// Picked: its bytes are under way, or all handed over and not confirmed.
    Taken,
}

/// How far a transmission is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes picked so far, on the scale of the delivery's size.
    pub picked: Size,
    /// When the first of them was.
    pub picked_at: Time,
    /// When the last byte was handed to the wire.
    pub handed_at: Option<Time>,
    /// Its number on its connection, in the order of picking.
    pub number: u64,
    /// Whether an earlier attempt may have arrived.
    pub again: bool,
    /// Whether it was counted as a violation of its bound.
    pub is_violated: bool,
}

/// One record on its way to one destination.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The record it delivers.
    pub record: RecordKey,
    /// Its queue.
    pub queue: QueueKey,
    /// Bytes, as the node counts them for this destination.
    pub size: Size,
    /// Place in the node's order of acceptance.
    pub order: u64,
    /// Arrival + latency bound.
    pub deadline: Time,
    /// Whether its body can go to a path.
    pub ready: bool,
    /// Whether its preparation was asked for.
    pub(super) is_asked: bool,
    /// How far its transmission is.
    pub progress: Progress,
    pub(super) place: Place,
    pub(super) previous: Option<DeliveryKey>,
    pub(super) next: Option<DeliveryKey>,
}

impl Delivery {
    /// A delivery that is not in its queue yet.
    pub fn new(record: RecordKey, queue: QueueKey, size: Size, order: u64, deadline: Time) -> Self {
        let place = Place::Taken;
        Delivery {
            record,
            queue,
            size,
            order,
            deadline,
            ready: true,
            is_asked: false,
            progress: Progress::default(),
            place,
            previous: None,
            next: None,
        }
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        self.place
    }
}
