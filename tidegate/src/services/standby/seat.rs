//! Who uses the folder of a log that is kept: its owner's connection, or an heir.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Mutex as Turn, watch};

use super::shelf::Shelf;

/// A log, and what happens to it.
#[derive(Debug)]
pub(super) struct Seat {
    /// Whoever uses its folder has this; there is one only while it is used.
    pub(super) shelf: Turn<Option<Shelf>>,
    /// How often its owner came: whoever uses the folder gives it up when this changes.
    pub(super) comings: watch::Sender<u64>,
    /// Since when the owner is away, or from when on it is looked after again; `None`: it is there.
    pub(super) away: Mutex<Option<Instant>>,
}

impl Seat {
    pub(super) fn new() -> Self {
        let away = Mutex::new(Some(Instant::now()));
        Seat { shelf: Turn::new(None), comings: watch::Sender::new(0), away }
    }

    /// The owner is there. Answers with which of its comings this is.
    pub(super) fn comes(&self) -> u64 {
        *lock(&self.away) = None;
        let mut coming = 0;
        self.comings.send_modify(|comings| {
            *comings += 1;
            coming = *comings;
        });
        coming
    }

    /// The owner is gone, unless it has come again.
    pub(super) fn goes(&self, coming: u64) {
        if *self.comings.borrow() == coming {
            *lock(&self.away) = Some(Instant::now());
        }
    }

    pub(super) fn is_away_for(&self, span: Duration) -> bool {
        lock(&self.away).is_some_and(|since| since.elapsed() >= span)
    }
}

/// The lock of what nobody holds for long.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
