//! Sets of records, as the status page has them.

use serde::{Deserialize, Serialize};
use tidegate_node::status::CoflowStatus;

use super::view::TimesView;

/// Sets of records with one bound on the last of them (docs/concepts.md#sets).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoflowsView {
    /// Sets of which records wait, or are to come.
    pub open: u64,
    /// Sets that began, since start.
    pub begun: u64,
    /// Sets that were not whole on the wire in time.
    pub late: u64,
    /// Late ones of which something was dropped or never came.
    pub given_up: u64,
    /// Records whose set had no place.
    pub refused: u64,
    /// From the first record's arrival to the last one on the wire.
    pub times: TimesView,
}

impl From<&CoflowStatus> for CoflowsView {
    fn from(sets: &CoflowStatus) -> Self {
        let CoflowStatus { open, begun, late, given_up, refused, ref times } = *sets;
        CoflowsView { open, begun, late, given_up, refused, times: times.into() }
    }
}
