//! What was measured of a unit between two rounds.

use super::Topic;

/// What happened to a unit between two rounds.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// Its load then.
    pub(super) topic: Topic,
    /// Records that came, and that were worked on.
    pub(super) records: u64,
    pub(super) worked: u64,
    /// 90th percentile until subscribers had the result, seconds; to the end of its work where few had any.
    pub(super) p90: Option<f64>,
    /// Part that was later than the bounds.
    pub(super) late: Option<f64>,
    /// The same of work alone: subscribers that do not take their results make it no worse.
    pub(super) work_late: Option<f64>,
}
