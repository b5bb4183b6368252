//! The queues of one class and one output, ranked by their next records.

use std::collections::BTreeSet;

use tidegate_types::units::{Size, Time};

use super::{QueueKey, Timing};

/// A queue's place among the queues of its group: by its next record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    /// The record's deadline in nanoseconds, or its place in the order of acceptance.
    pub(super) first: u64,
    /// Of two equal ones the older goes first.
    pub(super) order: u64,
    pub(super) queue: QueueKey,
}

impl Rank {
    /// The deadline of a rank by deadline.
    pub(super) fn deadline(self) -> Time {
        Time::from_nanos(self.first)
    }
}

#[derive(Debug, Default)]
pub(super) struct QueueGroup {
    ranks: [BTreeSet<Rank>; 2],
    pub(super) records: [u64; 2],
    /// Of the live ones, those whose deadline has passed: where a queue keeps its order, they stay live.
    pub(super) overdue: u64,
    pub(super) bytes: Size,
}

impl QueueGroup {
    pub(super) fn first(&self, timing: Timing) -> Option<Rank> {
        self.ranks[timing as usize].first().copied()
    }

    /// From the most urgent one on.
    pub(super) fn ranked(&self, timing: Timing) -> impl Iterator<Item = &Rank> {
        self.ranks[timing as usize].iter()
    }

    pub(super) fn replace(&mut self, old: [Option<Rank>; 2], new: [Option<Rank>; 2]) {
        for (ranks, (old, new)) in self.ranks.iter_mut().zip(old.into_iter().zip(new)) {
            if old == new {
                continue;
            }
            if let Some(old) = old {
                ranks.remove(&old);
            }
            if let Some(new) = new {
                ranks.insert(new);
            }
        }
    }
}
