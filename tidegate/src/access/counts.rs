//! What inputs did not take, counted for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Denied;

/// Counts of all inputs of a node together; only upward.
#[derive(Debug, Default)]
pub struct InputCounts {
    dropped: AtomicU64,
    refused: AtomicU64,
    /// In the order of `REASONS`.
    denied: [AtomicU64; 4],
}

/// Why connections were not let in, as labels.
const REASONS: [&str; 4] = ["password", "anonymous", "certificate", "tls"];

impl InputCounts {
    /// A publish to a topic that its client has no right to was dropped; nobody was told.
    pub fn drop_forbidden(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// The same, but the client was told.
    pub fn refuse_forbidden(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// A client was not let in.
    pub fn deny(&self, why: Denied) {
        let place = match why {
            Denied::Password => 0,
            Denied::Anonymous => 1,
            Denied::Certificate => 2,
        };
        self.denied[place].fetch_add(1, Ordering::Relaxed);
    }

    /// TLS could not be agreed on.
    pub fn distrust(&self) {
        self.denied[3].fetch_add(1, Ordering::Relaxed);
    }

    /// Forbidden publishes that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Forbidden publishes whose clients were told.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Connections that were not let in, by reason.
    pub fn denied(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REASONS.into_iter().zip(self.denied.iter().map(|count| count.load(Ordering::Relaxed)))
    }
}
