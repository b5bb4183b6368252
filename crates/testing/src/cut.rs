//! What a driver was told to send.

use std::ops::Range;

use tidegate_node::io::PathId;
use tidegate_types::record::DeliveryId;

/// One `Transmit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// By which way.
    pub path: PathId,
    /// Of which delivery.
    pub id: DeliveryId,
    /// The record's key.
    pub key: String,
    /// Which part.
    pub range: Range<u64>,
    /// Of how much.
    pub size: u64,
    /// Whether an earlier attempt may have arrived.
    pub again: bool,
}

impl Cut {
    /// Whether the record is whole with it.
    pub fn is_last(&self) -> bool {
        self.range.end == self.size
    }
}
