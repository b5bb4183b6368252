//! The path of the least round trip that has room: the default of kernel MPTCP.
//! Source: Raiciu et al., NSDI 2012, "lowest RTT first": `argmin srtt over q < swnd`.
//! Inputs: round trips, windows. Outputs: a path. O(paths).
//! Deviations: where no path has room, the least round trip (docs/algorithms-link.md#low-rtt).
//! Limits: none.

use crate::path_scheduler::scheduler::{Build, PathScheduler, PieceView, place_of_least};

/// How one is made.
pub(crate) const ENTRY: Build = |_| Box::new(LowRtt);

/// The rule.
#[derive(Debug)]
struct LowRtt;

impl PathScheduler for LowRtt {
    fn choose(&mut self, choice: &PieceView<'_>) -> Option<usize> {
        let least = || place_of_least(choice.open.iter().map(|path| path.srtt));
        Some(choice.fastest_with_room().unwrap_or_else(least))
    }
}
