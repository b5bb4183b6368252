//! The path of the least round trip that has room: the default of kernel MPTCP.
//! Source: Raiciu et al., NSDI 2012, "lowest RTT first": `argmin srtt over q < swnd`.
//! Inputs: round trips, windows. Outputs: a path. O(paths).
//! Deviations: where no path has room, the least round trip (docs/algorithms-link.md#low-rtt).
//! Limits: none.

use super::{PathView, Scheduler, place_of_least};

/// The rule.
#[derive(Debug)]
pub(super) struct LowRtt;

impl Scheduler for LowRtt {
    fn choose(&mut self, paths: &[PathView], piece: f64) -> usize {
        let has_room = |path: &PathView| path.ahead(piece) <= path.window;
        let any = paths.iter().any(has_room);
        let cost = |path: &PathView| {
            if any && !has_room(path) { f64::INFINITY } else { path.srtt }
        };
        place_of_least(paths.iter().map(cost))
    }
}
