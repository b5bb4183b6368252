//! What all MQTT clients of a node together said and were told.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of all listeners of a node; only upward.
#[derive(Debug, Default)]
pub struct Traffic {
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    publishes: AtomicU64,
}

impl Traffic {
    /// Bytes of packets came.
    pub(super) fn received(&self, bytes: usize) {
        self.received_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes of packets are in the kernel's hands.
    pub(super) fn sent(&self, bytes: usize) {
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Publishes came.
    pub(super) fn published(&self, count: usize) {
        self.publishes.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Bytes that came, bytes that went, and publishes that came.
    pub fn read(&self) -> [u64; 3] {
        [&self.received_bytes, &self.sent_bytes, &self.publishes]
            .map(|count| count.load(Ordering::Relaxed))
    }
}
