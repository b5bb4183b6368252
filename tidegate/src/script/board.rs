//! What scripts did, for status and metrics.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_node::rules::ScriptId;

use super::verdict::Verdict;

/// What became of a script's calls since it was first loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptCounts {
    /// Calls. One may serve all records that came since the last.
    pub runs: u64,
    /// Turns after which a call was suspended, to go on later.
    pub suspended: u64,
    /// Time of all calls.
    pub time: Duration,
    /// Calls that took too long.
    pub too_long: u64,
    /// Calls that needed too much memory.
    pub too_large: u64,
    /// Calls that failed otherwise.
    pub wrong: u64,
    /// Calls that were left out while it was switched off.
    pub unadapted: u64,
    /// Verdicts of each kind, in the order of `Verdict::ALL`.
    pub verdicts: [u64; Verdict::ALL.len()],
}

/// One script as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptStatus {
    /// What streams call it by.
    pub name: Arc<str>,
    /// Whether it runs; false after it failed too often.
    pub is_on: bool,
    /// What became of its calls.
    pub counts: ScriptCounts,
    /// Requests that endpoints answered.
    pub answered: u64,
    /// Requests that they did not.
    pub unanswered: u64,
}

/// The scripts of a node. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ScriptBoard(Arc<Mutex<Vec<ScriptStatus>>>);

impl ScriptBoard {
    /// Every script, in the order of the configuration.
    pub fn read(&self) -> Vec<ScriptStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn write(&self, place: usize, name: Arc<str>, is_on: bool, counts: ScriptCounts) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(place) {
            Some(status) => (status.name, status.is_on, status.counts) = (name, is_on, counts),
            None => all.push(ScriptStatus { name, is_on, counts, answered: 0, unanswered: 0 }),
        }
    }

    /// An endpoint of a script answered, or did not.
    pub fn note_endpoint(&self, script: ScriptId, is_answered: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(status) = all.get_mut(usize::from(script.0)) {
            status.answered += u64::from(is_answered);
            status.unanswered += u64::from(!is_answered);
        }
    }

    /// There are so many scripts from now on.
    pub(super) fn truncate(&self, count: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).truncate(count);
    }
}
