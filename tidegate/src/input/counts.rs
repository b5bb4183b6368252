//! What inputs count by themselves: records that the node refused and whose senders were told otherwise.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Reasons that are shown from the start.
const COMMON: [&str; 4] = ["full", "no-rule", "oversize", "too-many-streams"];

/// Counts by reason. Cheap to clone; all clones count together.
#[derive(Clone, Debug)]
pub struct InputCounts(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Default for InputCounts {
    fn default() -> Self {
        InputCounts(Arc::new(Mutex::new(COMMON.map(|reason| (reason, 0)).into())))
    }
}

impl InputCounts {
    /// A record was acknowledged to its sender though the node did not take it.
    pub fn dropped(&self, reason: &'static str) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(reason).or_default() += 1;
    }

    /// How many were, by reason.
    pub fn read(&self) -> BTreeMap<&'static str, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_count_together() {
        let counts = InputCounts::default();
        counts.clone().dropped("full");
        counts.dropped("stopping");
        let read = counts.read();
        assert_eq!((read["full"], read["stopping"], read["no-rule"]), (1, 1, 0));
    }
}
