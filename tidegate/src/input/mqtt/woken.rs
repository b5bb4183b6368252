//! Which connections have something to read and have not had their turn yet.
//!
//! The runtime begins with the task that it woke last. A publish would so overtake the SUBSCRIBE of another client
//! that came before it: who publishes lets those go first that were woken and have not run. Where nobody was, it costs
//! nothing.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

/// How many connections of all inputs of a node were woken and have not run since.
#[derive(Clone, Debug, Default)]
pub(super) struct Woken(Arc<AtomicUsize>);

impl Woken {
    /// Of one more connection.
    pub(super) fn bell(&self) -> Arc<Bell> {
        let task = Mutex::new(Waker::noop().clone());
        Arc::new(Bell { all: self.clone(), rang: AtomicBool::new(false), task })
    }
}

/// What wakes a connection when there is something to read.
#[derive(Debug)]
pub(super) struct Bell {
    all: Woken,
    rang: AtomicBool,
    task: Mutex<Waker>,
}

impl Bell {
    /// The task runs, and is woken by this from now on.
    pub(super) fn begin(&self, task: &Waker) {
        self.heard();
        let mut known = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        known.clone_from(task);
    }

    /// Its connection has its turn.
    pub(super) fn heard(&self) {
        if self.rang.swap(false, Ordering::AcqRel) {
            self.all.0.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether another connection was woken and has not had its turn.
    pub(super) fn others_wait(&self) -> bool {
        self.heard();
        self.all.0.load(Ordering::Acquire) > 0
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.rang.swap(true, Ordering::AcqRel) {
            self.all.0.fetch_add(1, Ordering::AcqRel);
        }
        self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.heard();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_woken_and_has_not_run_is_waited_for() {
        let woken = Woken::default();
        let [one, two] = [woken.bell(), woken.bell()];
        assert!(!one.others_wait() && !two.others_wait());
        Waker::from(one.clone()).wake_by_ref();
        Waker::from(one.clone()).wake();
        assert!(!one.others_wait(), "it is its own turn");
        one.wake_by_ref();
        two.wake_by_ref();
        assert!(two.others_wait() && !one.others_wait());
        two.wake_by_ref();
        assert!(one.others_wait());
        drop(two);
        assert!(!one.others_wait(), "who is gone has no turn");
    }

    #[test]
    fn the_task_that_came_last_is_woken() {
        let woken = Woken::default();
        let (bell, task) = (woken.bell(), woken.bell());
        bell.wake_by_ref();
        bell.begin(&Waker::from(task.clone()));
        assert!(!bell.others_wait());
        bell.wake_by_ref();
        assert!(bell.others_wait(), "the task rang");
        task.heard();
        assert!(!bell.others_wait());
    }
}
