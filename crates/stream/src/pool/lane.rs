//! The records of one operator and key, in their order, and how urgent they are.
//! Source: own; priority inheritance (L. Sha, R. Rajkumar, J. Lehoczky, 1990) among records that stand in a row.
//! Inputs: records with deadlines. Outputs: the first, and by when it must be begun. O(log records).
//! Deviations: two records are looked at (docs/ALGORITHMS.md).
//! Limits: those of its operator.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tidegate_types::units::Time;

/// Number of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorId(pub u32);

/// Number of a lane: the records of one operator and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u64);

#[derive(Debug)]
pub(super) struct Job<T> {
    pub(super) seq: u64,
    pub(super) deadline: Time,
    pub(super) value: T,
}

#[derive(Debug)]
pub(super) struct Lane<T, S> {
    pub(super) operator: OperatorId,
    pub(super) key: Bytes,
    pub(super) queue: VecDeque<Job<T>>,
    /// Of `queue`, each that is earlier than all behind it: the first is the earliest of all.
    pub(super) earliest: VecDeque<(Time, u64)>,
    pub(super) state: Option<S>,
    pub(super) is_running: bool,
    /// When a worker took the record that it works on.
    pub(super) began_at: Option<Time>,
    /// Up to this number its records go before all others.
    pub(super) hurried: Option<u64>,
    /// Where it stands among the ready, or the idle.
    pub(super) rank: Option<(Time, u64)>,
    /// When it fell idle.
    pub(super) idle: u64,
}

impl<T, S> Lane<T, S> {
    pub(super) fn new(operator: OperatorId, key: Bytes) -> Self {
        Lane {
            operator,
            key,
            queue: VecDeque::new(),
            earliest: VecDeque::new(),
            state: None,
            is_running: false,
            began_at: None,
            hurried: None,
            rank: None,
            idle: 0,
        }
    }

    pub(super) fn push(&mut self, job: Job<T>) {
        while self.earliest.back().is_some_and(|(last, _)| *last > job.deadline) {
            self.earliest.pop_back();
        }
        self.earliest.push_back((job.deadline, job.seq));
        self.queue.push_back(job);
    }

    pub(super) fn pop(&mut self) -> Option<Job<T>> {
        let job = self.queue.pop_front()?;
        if self.earliest.front().is_some_and(|(_, seq)| *seq == job.seq) {
            self.earliest.pop_front();
        }
        Some(job)
    }

    /// By when its first record must be begun so that one behind it can be begun in time, where all before that take
    /// `takes` each; `None` where that is over for all. The first whose deadline is not over is asked, and the last:
    /// in a row that catches up each has more time than the one before it, in one that does not, less.
    pub(super) fn begins_by(&self, now: Time, takes: Duration) -> Option<Time> {
        let first = self.earliest.partition_point(|(deadline, _)| *deadline <= now);
        let asked = [self.earliest.get(first), self.earliest.back()];
        asked.into_iter().flatten().find_map(|(deadline, seq)| {
            let ahead = self.queue.partition_point(|job| job.seq < *seq);
            let before = takes.saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX));
            Some(*deadline - before).filter(|at| *at > now)
        })
    }
}
