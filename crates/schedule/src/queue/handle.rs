//! Handles of what the queues hold, and the numbers by which a driver knows them.

use slotmap::{Key, KeyData, new_key_type};
use tidegate_types::ids::QueueId;
use tidegate_types::record::DeliveryId;

new_key_type! {
    /// Handle of a delivery: a stale one finds nothing.
    pub struct DeliveryKey;
    /// Handle of a record that is held.
    pub struct RecordKey;
    /// Handle of a queue.
    pub struct QueueKey;
}

impl From<QueueKey> for QueueId {
    #[inline]
    fn from(key: QueueKey) -> Self {
        QueueId(key.data().as_ffi())
    }
}

impl From<QueueId> for QueueKey {
    #[inline]
    fn from(id: QueueId) -> Self {
        KeyData::from_ffi(id.0).into()
    }
}

impl From<DeliveryKey> for DeliveryId {
    #[inline]
    fn from(key: DeliveryKey) -> Self {
        DeliveryId(key.data().as_ffi())
    }
}

impl From<DeliveryId> for DeliveryKey {
    #[inline]
    fn from(id: DeliveryId) -> Self {
        KeyData::from_ffi(id.0).into()
    }
}
