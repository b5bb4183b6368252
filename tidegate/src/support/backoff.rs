//! How long to wait before the next attempt: doubling, bounded, with jitter.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// The waits of one connection, file or refusing broker.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// For connecting and for opening files.
    pub(crate) fn new() -> Self {
        Backoff::within(Duration::from_millis(100), Duration::from_secs(30))
    }

    /// From `first` to `longest`.
    pub(crate) fn within(first: Duration, longest: Duration) -> Self {
        Backoff { first, longest, next: first }
    }

    /// It worked: begin again with the shortest wait.
    pub(crate) fn reset(&mut self) {
        self.next = self.first;
    }

    /// The next wait: between half and all of a doubling span, so that many nodes which lost one
    /// broker do not come back in step.
    pub(crate) fn next(&mut self) -> Duration {
        let span = self.next;
        self.next = (span * 2).min(self.longest);
        let random = RandomState::new().build_hasher().finish();
        span / 2 + (span / 2).mul_f64(random as f64 / u64::MAX as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_begin_again() {
        let (first, longest) = (Duration::from_millis(100), Duration::from_secs(30));
        let mut backoff = Backoff::within(first, longest);
        let waits: Vec<Duration> = (0..12).map(|_| backoff.next()).collect();
        assert!(waits[0] >= first / 2 && waits[0] <= first);
        assert!(waits.iter().all(|wait| *wait <= longest));
        assert!(waits[11] >= longest / 2);
        backoff.reset();
        assert!(backoff.next() <= first);
    }
}
