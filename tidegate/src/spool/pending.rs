//! What waits for the disk: `encode` fills it while `write` waits for a sync, so neither waits for the other.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tidegate_log::{SegmentId, SegmentWrite};

/// Entries as bytes that are written together and made safe by one sync.
#[derive(Debug)]
pub(super) struct Commit {
    /// Their numbers, rising.
    pub(super) numbers: Vec<u64>,
    /// How many of them are records.
    pub(super) records: usize,
    /// Their bytes.
    pub(super) writes: Vec<SegmentWrite>,
    /// When the first of them was there.
    pub(super) since: Instant,
}

/// Something to do with the disk.
#[derive(Debug)]
pub(super) enum Job {
    /// Write, sync, answer.
    Commit(Commit),
    /// Delete segments.
    Release(Vec<SegmentId>),
    /// Write the last footer.
    Finish(Vec<SegmentWrite>),
}

/// The jobs, in order.
#[derive(Debug)]
pub(super) struct Pending {
    /// Records that one commit takes at most.
    commit_max: usize,
    /// How long a commit waits for more than its first entry.
    commit_delay: Duration,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Set by a commit that failed: what was encoded since then belongs behind bytes that are not there.
    has_failed: bool,
    is_closed: bool,
}

impl Pending {
    pub(super) fn new(commit_max: usize, commit_delay: Duration) -> Pending {
        let (queue, changed) = (Mutex::default(), Condvar::new());
        Pending { commit_max: commit_max.max(1), commit_delay, queue, changed }
    }

    /// Records that one commit takes at most.
    pub(super) fn commit_max(&self) -> usize {
        self.commit_max
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a commit failed since this was asked last.
    pub(super) fn take_failure(&self) -> bool {
        std::mem::take(&mut self.lock().has_failed)
    }

    /// Adds entries to the commit that waits last, if they fit in. They come back if a commit failed since
    /// `take_failure` was asked.
    pub(super) fn add(&self, commit: Commit) -> Result<(), Commit> {
        let mut queue = self.lock();
        if queue.has_failed {
            return Err(commit);
        }
        match queue.jobs.back_mut() {
            Some(Job::Commit(last)) if last.records + commit.records <= self.commit_max => {
                last.numbers.extend(commit.numbers);
                last.records += commit.records;
                last.writes.extend(commit.writes);
            }
            _ => queue.jobs.push_back(Job::Commit(commit)),
        }
        self.changed.notify_one();
        Ok(())
    }

    /// Adds another job.
    pub(super) fn tell(&self, job: Job) {
        self.lock().jobs.push_back(job);
        self.changed.notify_one();
    }

    /// A commit failed, and with it all that waits to be written behind it: the numbers of that.
    pub(super) fn fail(&self) -> Vec<u64> {
        let mut queue = self.lock();
        queue.has_failed = true;
        let mut numbers = Vec::new();
        queue.jobs.retain_mut(|job| match job {
            Job::Commit(commit) => {
                numbers.append(&mut commit.numbers);
                false
            }
            Job::Release(_) | Job::Finish(_) => true,
        });
        numbers
    }

    /// Whether there is nothing to do.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.lock().jobs.is_empty()
    }

    /// Nothing more comes.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// The next job; waits for it, and with a commit for more entries. `None`: nothing more comes.
    pub(super) fn next(&self) -> Option<Job> {
        let mut queue = self.lock();
        loop {
            let wait = match queue.jobs.front() {
                Some(Job::Commit(commit))
                    if commit.records < self.commit_max
                        && queue.jobs.len() == 1
                        && !queue.is_closed =>
                {
                    self.commit_delay.saturating_sub(commit.since.elapsed())
                }
                Some(_) => Duration::ZERO,
                None if queue.is_closed => return None,
                None => Duration::MAX,
            };
            if wait == Duration::ZERO {
                return queue.jobs.pop_front();
            }
            let waited = self.changed.wait_timeout(queue, wait);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(numbers: std::ops::RangeInclusive<u64>) -> Commit {
        let (numbers, since): (Vec<u64>, _) = (numbers.collect(), Instant::now());
        Commit { records: numbers.len(), numbers, writes: Vec::new(), since }
    }

    fn numbers(job: Option<Job>) -> Vec<u64> {
        match job {
            Some(Job::Commit(commit)) => commit.numbers,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_comes_while_the_disk_is_busy_goes_together_as_far_as_a_commit_takes_it() {
        let pending = Pending::new(4, Duration::ZERO);
        for numbers in [1..=1, 2..=3, 4..=5, 6..=9] {
            pending.add(commit(numbers)).unwrap();
        }
        let next = || numbers(pending.next());
        assert_eq!([next(), next(), next()], [vec![1, 2, 3], vec![4, 5], vec![6, 7, 8, 9]]);
        pending.close();
        assert!(pending.next().is_none());
    }

    #[test]
    fn a_commit_waits_for_more_until_it_is_full_or_something_else_comes() {
        let pending = Pending::new(2, Duration::from_secs(3600));
        pending.add(commit(1..=2)).unwrap();
        assert_eq!(numbers(pending.next()), [1, 2]);
        pending.add(commit(3..=3)).unwrap();
        pending.tell(Job::Release(vec![SegmentId(1)]));
        assert_eq!(numbers(pending.next()), [3]);
        assert!(matches!(pending.next(), Some(Job::Release(_))));
        pending.add(commit(4..=4)).unwrap();
        pending.close();
        assert_eq!(numbers(pending.next()), [4]);
    }

    #[test]
    fn all_that_waits_fails_with_a_commit_and_what_is_encoded_meanwhile_comes_back() {
        let pending = Pending::new(2, Duration::ZERO);
        pending.add(commit(1..=2)).unwrap();
        pending.add(commit(3..=4)).unwrap();
        pending.tell(Job::Release(vec![SegmentId(1)]));
        assert_eq!(pending.fail(), [1, 2, 3, 4]);
        assert!(matches!(pending.next(), Some(Job::Release(_))));
        assert_eq!(pending.add(commit(5..=5)).unwrap_err().numbers, [5]);
        assert!(pending.take_failure() && !pending.take_failure());
        pending.add(commit(6..=6)).unwrap();
        assert_eq!(numbers(pending.next()), [6]);
    }
}
