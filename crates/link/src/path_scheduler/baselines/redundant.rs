//! Each piece on every path that has room.
//! Source: the scheduler `redundant` of multipath TCP for Linux (multipath-tcp.org, v0.96), after Froemmgen et
//! al., "ReMP TCP", ICC 2016: `all of q < swnd`, the least srtt first.
//! Inputs: round trips, windows. Outputs: paths, one after the other. O(paths).
//! Deviations: a path without room leaves the piece out, where the source's would send it later
//! (docs/algorithms-link.md#redundant).
//! Limits: none.

use crate::path_scheduler::scheduler::{Build, PathScheduler, PieceView, place_of_least};

/// How one is made.
pub(crate) const ENTRY: Build = |_| Box::new(Redundant);

/// The rule.
#[derive(Debug)]
struct Redundant;

impl PathScheduler for Redundant {
    fn choose(&mut self, choice: &PieceView<'_>) -> Option<usize> {
        Some(place_of_least(choice.open.iter().map(|path| path.srtt)))
    }

    fn copies(&self) -> usize {
        usize::MAX
    }
}

#[cfg(test)]
mod tests {
    use crate::path_scheduler::tests::{ask, path};
    use crate::path_scheduler::{PathSchedulerName, PathView};

    #[test]
    fn the_shortest_goes_first_and_only_this_rule_makes_copies() {
        let near = PathView { srtt: 0.05, ..path() };
        let mut rule = PathSchedulerName::Redundant.build(0.5);
        assert_eq!(rule.choose(&ask(&[path(), near], &[])), Some(1));
        let copies = PathSchedulerName::ALL.map(|name| name.build(0.5).copies());
        assert_eq!(copies.iter().filter(|&&copies| copies > 1).count(), 1);
        assert_eq!(rule.copies(), usize::MAX);
    }
}
