//! What the machine takes from everybody: times in which a processor did not run even its most urgent thread.
//!
//! A virtual machine loses its processors for tens of milliseconds at a time. A benchmark that judges milliseconds
//! leaves out what lived through such a time, and says how much that was.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::net::urgent::urgent;

/// How often a watcher looks at the time.
const STEP: Duration = Duration::from_micros(500);
/// What a look may come late by and nothing is thought of it.
const LATE: Duration = Duration::from_millis(1);

/// A time in which one of the processors stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Still {
    /// When its watcher looked last.
    pub(crate) from: Instant,
    /// When it looked again.
    pub(crate) to: Instant,
}

impl Still {
    /// Whether something that began and ended then may have waited for it: it was under way meanwhile, or came while
    /// what had waited was worked off, for which as long again is given.
    pub(crate) fn touches(&self, began: Instant, ended: Instant) -> bool {
        let worked_off = self.to + (self.to - self.from);
        began < worked_off && ended > self.from
    }
}

/// One watching thread on each processor. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Watch {
    found: Arc<Mutex<Vec<Still>>>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Watch {
    /// Starts them. Where real-time priority is not permitted they see more than the machine's doing.
    pub(crate) fn start() -> Watch {
        let mut watch =
            Watch { found: Arc::default(), is_over: Arc::default(), threads: Vec::new() };
        for processor in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let (found, is_over) = (watch.found.clone(), watch.is_over.clone());
            watch.threads.push(std::thread::spawn(move || {
                let mut own = CpuSet::new();
                own.set(processor);
                // Refused where the processor is not ours: the thread watches another one.
                let _ = sched_setaffinity(None, &own);
                urgent();
                while !is_over.load(Ordering::Relaxed) {
                    let from = Instant::now();
                    std::thread::sleep(STEP);
                    let to = Instant::now();
                    if to - from > STEP + LATE {
                        found
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(Still { from, to });
                    }
                }
            }));
        }
        watch
    }

    /// What has been found since the last time it was asked.
    pub(crate) fn take(&self) -> Vec<Still> {
        std::mem::take(&mut *self.found.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It cannot panic.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lived_beside_a_standstill_is_told_from_what_did_not() {
        let zero = Instant::now();
        let at = |millis: u64| zero + Duration::from_millis(millis);
        let still = Still { from: at(100), to: at(120) };
        assert!(still.touches(at(90), at(130)));
        assert!(still.touches(at(110), at(111)));
        // Behind it: what had waited is worked off until 140.
        assert!(still.touches(at(130), at(131)));
        assert!(!still.touches(at(140), at(150)));
        assert!(!still.touches(at(80), at(100)));
    }
}
