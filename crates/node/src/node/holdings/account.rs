//! The accounts: how many deliveries and bytes each stream holds, and the node. Only this file writes them.
//!
//! A record that only the log holds is *stored*; every other one is in memory. The node's own account is the sum
//! of those of its streams: each entry below books in both at once.

use std::ops::{AddAssign, SubAssign};

use tidegate_types::units::Size;

/// Deliveries without a fate, and bytes of their records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum(u64, Size);

impl AddAssign for Sum {
    fn add_assign(&mut self, more: Sum) {
        self.0 += more.0;
        self.1 += more.1;
    }
}

impl SubAssign for Sum {
    fn sub_assign(&mut self, less: Sum) {
        self.0 -= less.0;
        self.1 -= less.1;
    }
}

/// What a stream holds, or the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeliveryAccount {
    memory: Sum,
    log: Sum,
}

impl DeliveryAccount {
    /// Deliveries without a fate, in memory or stored.
    #[inline]
    pub(crate) fn deliveries(&self) -> u64 {
        self.memory.0 + self.log.0
    }

    /// Those of them that are stored.
    #[inline]
    pub(crate) fn stored(&self) -> u64 {
        self.log.0
    }

    /// Bytes of the records held, wherever they are.
    #[inline]
    pub(crate) fn bytes(&self) -> Size {
        self.memory.1 + self.log.1
    }

    /// Bytes of the records held in memory.
    #[inline]
    pub(crate) fn in_memory(&self) -> Size {
        self.memory.1
    }
}

/// Entries in the account of the node and in that of one of its streams.
impl DeliveryAccount {
    /// So much more is in memory.
    pub(super) fn hold(&mut self, stream: &mut DeliveryAccount, deliveries: u64, size: Size) {
        self.memory += Sum(deliveries, size);
        stream.memory += Sum(deliveries, size);
    }

    /// So much of what was in memory is not held any more.
    pub(super) fn free(&mut self, stream: &mut DeliveryAccount, deliveries: u64, size: Size) {
        self.memory -= Sum(deliveries, size);
        stream.memory -= Sum(deliveries, size);
    }

    /// So much more is stored, or on its way to the log.
    pub(super) fn store(&mut self, stream: &mut DeliveryAccount, deliveries: u64, size: Size) {
        self.log += Sum(deliveries, size);
        stream.log += Sum(deliveries, size);
    }

    /// So much of what was stored is not held any more.
    pub(super) fn unstore(&mut self, stream: &mut DeliveryAccount, deliveries: u64, size: Size) {
        self.log -= Sum(deliveries, size);
        stream.log -= Sum(deliveries, size);
    }
}
