//! One record on its way to one destination, and how far it is.

use tidegate_types::units::{Size, Time};

use super::handle::{DeliveryKey, QueueKey, RecordKey};
use super::spec::QueueSpec;

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
pub enum DeliveryState {
    /// It waits.
    Waiting(Timing),
    /// Some of its bytes are picked, or it is on its way from one place to another.
    Taken,
    /// All of it is picked and nothing is confirmed: it stands in its connection's list.
    Unconfirmed,
}

/// How far a transmission is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes picked so far, on the scale of the delivery's size.
    pub picked: Size,
    /// When the first of them was.
    pub picked_at: Time,
    /// When the last byte was handed to the wire; `Time::FAR` until then.
    pub handed_at: Time,
    /// Its number on its connection, in the order of picking.
    pub number: u64,
    /// Whether an earlier attempt may have arrived.
    pub again: bool,
    /// Whether it was counted as a violation of its bound.
    pub is_violated: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Progress {
            picked: Size::ZERO,
            picked_at: Time::ZERO,
            handed_at: Time::FAR,
            number: 0,
            again: false,
            is_violated: false,
        }
    }
}

impl Progress {
    /// Whether the last byte was handed to the wire.
    #[inline]
    pub fn is_handed(&self) -> bool {
        self.handed_at < Time::FAR
    }
}

/// One record on its way to one destination. With ten thousand queues every other structure is far away
/// for a processor: what each step of its life needs stands here, though it could be found elsewhere.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The record it delivers.
    pub record: RecordKey,
    /// Its queue.
    pub queue: QueueKey,
    /// What its queue is.
    pub spec: QueueSpec,
    /// Bytes, as the node counts them for this destination.
    pub size: Size,
    /// Place in the node's order of acceptance.
    pub order: u64,
    /// When the record arrived.
    pub arrived: Time,
    /// Arrival + latency bound.
    pub deadline: Time,
    /// Whether it stops being worth sending at some time.
    pub can_expire: bool,
    /// Whether it may go: not before the log has it, or its script has seen it, where that is asked for.
    pub ready: bool,
    /// How far its transmission is.
    pub progress: Progress,
    pub(super) place: DeliveryState,
    pub(super) previous: Option<DeliveryKey>,
    pub(super) next: Option<DeliveryKey>,
}

impl Delivery {
    /// A delivery of the record that is not in its queue yet: ready, and worth sending for ever.
    #[inline]
    pub fn new(record: RecordKey, queue: (QueueKey, QueueSpec), size: Size, order: u64) -> Self {
        let place = DeliveryState::Taken;
        Delivery {
            record,
            queue: queue.0,
            spec: queue.1,
            size,
            order,
            arrived: Time::ZERO,
            deadline: Time::FAR,
            can_expire: false,
            ready: true,
            progress: Progress::default(),
            place,
            previous: None,
            next: None,
        }
    }

    /// Where it is.
    #[inline]
    pub fn place(&self) -> DeliveryState {
        self.place
    }
}
