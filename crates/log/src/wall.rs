//! Wall time, as far as a node knows it.

use std::time::Duration;

/// A point in wall time, and how far off it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallTime {
    /// Nanoseconds since the Unix epoch; never 0.
    pub unix_ns: u64,
    /// Half-width of the interval that surely holds the true time.
    pub uncertainty: Duration,
}
