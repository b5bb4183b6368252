//! How long to wait before the next attempt: doubling, bounded, with jitter.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

/// The waits of one connection or file.
#[derive(Debug)]
pub(super) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Backoff { next: FIRST }
    }

    /// It worked: begin again with the shortest wait.
    pub(super) fn reset(&mut self) {
        self.next = FIRST;
    }

    /// The next wait: between half and all of a doubling span, so that many nodes which lost one
    /// broker do not come back in step.
    pub(super) fn next(&mut self) -> Duration {
        let span = self.next;
        self.next = (span * 2).min(LONGEST);
        let random = RandomState::new().build_hasher().finish();
        span / 2 + (span / 2).mul_f64(random as f64 / u64::MAX as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_begin_again() {
        let mut backoff = Backoff::new();
        let waits: Vec<Duration> = (0..12).map(|_| backoff.next()).collect();
        assert!(waits[0] >= FIRST / 2 && waits[0] <= FIRST);
        assert!(waits.iter().all(|wait| *wait <= LONGEST));
        assert!(waits[11] >= LONGEST / 2);
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
