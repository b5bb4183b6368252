//! Each path in its turn.
//! Source: own; the plainest rival.
//! Inputs: the paths. Outputs: a path. O(paths).
//! Deviations: none.
//! Limits: none.

use crate::path_scheduler::scheduler::{Build, PathScheduler, PieceView};

/// How one is made.
pub(crate) const ENTRY: Build = |_| Box::new(RoundRobin::default());

/// The rule.
#[derive(Debug, Default)]
struct RoundRobin {
    /// The path after the one that had the last turn.
    next: usize,
}

impl PathScheduler for RoundRobin {
    fn choose(&mut self, choice: &PieceView<'_>) -> Option<usize> {
        let paths = choice.open;
        let place = paths.iter().position(|path| path.path >= self.next).unwrap_or(0);
        self.next = paths.get(place).map_or(0, |path| path.path + 1);
        Some(place)
    }
}
