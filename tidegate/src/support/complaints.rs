//! A bound on warnings: a hostile or broken client must not fill the disk with logs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Warnings a window.
const WARNINGS: u32 = 20;
/// The window.
const WINDOW: Duration = Duration::from_secs(10);

/// What is wrong with the far end, told once by all lanes of an output together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Complaint(Arc<Mutex<String>>);

impl Complaint {
    /// Whether nobody said this before.
    pub(crate) fn is_new(&self, text: &str) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *last != text;
        text.clone_into(&mut last);
        is_new
    }
}

#[derive(Debug)]
struct Window {
    since: Instant,
    given: u32,
    withheld: u64,
}

/// Counts warnings of one listener.
#[derive(Debug)]
pub(crate) struct Complaints(Mutex<Window>);

impl Complaints {
    pub(crate) fn new(now: Instant) -> Self {
        Complaints(Mutex::new(Window { since: now, given: 0, withheld: 0 }))
    }

    /// Whether a warning may be given now; if so, how many were withheld since the last one.
    pub(crate) fn allow(&self, now: Instant) -> Option<u64> {
        let mut window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(window.since) >= WINDOW {
            window.since = now;
            window.given = 0;
        }
        if window.given == WARNINGS {
            window.withheld += 1;
            return None;
        }
        window.given += 1;
        Some(std::mem::take(&mut window.withheld))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let start = Instant::now();
        let complaints = Complaints::new(start);
        let given = (0..100).filter(|_| complaints.allow(start).is_some()).count();
        assert_eq!(given, WARNINGS as usize);
        assert_eq!(complaints.allow(start + WINDOW), Some(80));
        assert_eq!(complaints.allow(start + WINDOW), Some(0));
    }
}
