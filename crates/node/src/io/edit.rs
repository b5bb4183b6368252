//! What scripts and the console do to waiting records.

use bytes::Bytes;
use tidegate_types::record::{DeliveryId, Properties};

use super::Destination;

/// What becomes of a record that its script could not look at, or whose verdict cannot be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Otherwise {
    /// It goes as it is: for scripts that only choose when and where.
    #[default]
    Pass,
    /// It is given up: for scripts without which it must not go.
    Drop,
    /// It is held until its scripts have changed, which look at it then; beyond `limits::WITHHELD_MAX` it is given up.
    Hold,
}

/// One change of a waiting queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Give a record up.
    Drop(DeliveryId),
    /// Send it next.
    MoveFront(DeliveryId),
    /// Send it last.
    MoveBack(DeliveryId),
    /// Send it elsewhere. Where a delivery of its own goes there already, it is dropped.
    Redirect(DeliveryId, Destination),
    /// Send this in its place, under its identity.
    Replace(DeliveryId, Content),
    /// Send this as a record of its own, by the same way, after the given one.
    Insert(DeliveryId, Content),
    /// Do this with it where an edit that follows cannot be done, or no endpoint answers.
    Guard(DeliveryId, Otherwise),
    /// Its script has failed on it: do this.
    Fail(DeliveryId, Otherwise),
    /// Its script looks at it later: it does not go before.
    Wait(DeliveryId),
    /// Its script has looked at it, wherever it waits by now: it may go.
    Ready(DeliveryId),
    /// Its script has changed meanwhile: the one that it has now is to look at it.
    Show(DeliveryId),
    /// Have an endpoint transform its payload.
    Transform {
        /// Which record.
        id: DeliveryId,
        /// Which endpoint of the configuration.
        endpoint: u16,
        /// Whether nothing of its queue may pass it meanwhile.
        ordered: bool,
    },
}

impl Edit {
    /// The record that it is about.
    pub fn delivery(&self) -> DeliveryId {
        match self {
            Edit::Drop(id)
            | Edit::MoveFront(id)
            | Edit::MoveBack(id)
            | Edit::Redirect(id, _)
            | Edit::Replace(id, _)
            | Edit::Guard(id, _)
            | Edit::Fail(id, _)
            | Edit::Wait(id)
            | Edit::Ready(id)
            | Edit::Show(id)
            | Edit::Insert(id, _)
            | Edit::Transform { id, .. } => *id,
        }
    }
}

/// What a script changes of a record; the rest stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// Key (for MQTT the topic), UTF-8.
    pub key: Option<Bytes>,
    /// What travels beside the payload.
    pub properties: Option<Properties>,
    /// The payload.
    pub payload: Option<Bytes>,
}
