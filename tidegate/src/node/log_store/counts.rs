//! What the thread that writes counts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_node::status::StageTimes;

/// Counts of commits since the start.
#[derive(Clone, Debug, Default)]
pub struct Commits {
    /// From the first write to the end of the sync, of those that are on disk.
    pub times: StageTimes,
    /// Entries that they took.
    pub entries: u64,
    /// Commits that failed.
    pub failed: u64,
    /// Damaged places of the log that the start met, and files that were found damaged since; torn ends are
    /// none.
    pub damaged: u64,
    /// Files that lie in quarantine.
    pub quarantined: u64,
}

/// The counters. Cheap to clone; all clones count together.
#[derive(Clone, Debug, Default)]
pub struct CommitCounts(Arc<Mutex<Commits>>);

impl CommitCounts {
    /// Counters of a log that a start found damaged in so many places, with so many files in quarantine.
    pub fn new(damaged: u64, quarantined: u64) -> Self {
        let commits = Commits { damaged, quarantined, ..Commits::default() };
        CommitCounts(Arc::new(Mutex::new(commits)))
    }

    /// A file was found damaged.
    pub fn damaged(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).damaged += 1;
    }

    /// A file went to quarantine.
    pub fn quarantined(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).quarantined += 1;
    }

    /// A commit of so many entries is on disk.
    pub fn committed(&self, entries: usize, took: Duration) {
        let mut commits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        commits.times.record(took);
        commits.entries += entries as u64;
    }

    /// A commit failed.
    pub fn failed(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failed += 1;
    }

    /// The counts so far.
    pub fn read(&self) -> Commits {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_count_together() {
        let counts = CommitCounts::new(2, 1);
        counts.clone().committed(5, Duration::from_millis(3));
        counts.committed(7, Duration::from_millis(4));
        counts.failed();
        counts.clone().damaged();
        counts.quarantined();
        let Commits { times, entries, failed, damaged, quarantined } = counts.read();
        assert_eq!((times.count(), entries, failed), (2, 12, 1));
        assert_eq!((damaged, quarantined), (3, 2));
    }
}
