//! Whether a log has one holder: processes that write one log follow each other, so each names the one before.
//!
//! A copy of a log begins a second line. Both go on from one process, or one comes back after the other has
//! begun: neither can be where the log's lock lets one process write at a time. A copy that never meets the
//! original at the same far node is not seen there.

/// Processes of one log that are remembered.
const SEEN_MAX: usize = 64;

/// What a process that says a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineageCheck {
    /// The one that is known.
    Same,
    /// It follows the one that is known, whose connections are over.
    Next,
    /// An earlier one, which may have said this before the later one began: it must come again to be believed.
    Late,
    /// Another holder of the same log.
    Copy,
}

/// The processes of one log, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    /// The present one last.
    seen: Vec<u64>,
    /// Those that were late once.
    late: Vec<u64>,
}

impl Lineage {
    /// A process comes by a new connection, and names the one before it (0 where it knows none).
    pub fn comes(&mut self, boot: u64, previous: u64) -> LineageCheck {
        let current = self.seen.last().copied();
        if current == Some(boot) {
            return LineageCheck::Same;
        }
        let is_back = self.seen.contains(&boot);
        let is_branch = current != Some(previous) && self.seen.contains(&previous);
        if is_back || is_branch {
            if self.late.contains(&boot) {
                return LineageCheck::Copy;
            }
            remember(&mut self.late, boot);
            return LineageCheck::Late;
        }
        remember(&mut self.seen, boot);
        LineageCheck::Next
    }
}

fn remember(boots: &mut Vec<u64>, boot: u64) {
    if boots.len() == SEEN_MAX {
        boots.remove(0);
    }
    boots.push(boot);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_that_follow_each_other_are_one_holder() {
        let mut line = Lineage::default();
        assert_eq!(line.comes(1, 0), LineageCheck::Next);
        assert_eq!(line.comes(1, 0), LineageCheck::Same);
        assert_eq!(line.comes(2, 1), LineageCheck::Next);
        assert_eq!(line.comes(5, 4), LineageCheck::Next, "two that never came here lie between");
        assert_eq!(line.comes(6, 0), LineageCheck::Next, "a damaged log knows no process before");
    }

    #[test]
    fn two_that_go_on_from_one_process_are_told_once_the_second_comes_again() {
        let mut line = Lineage::default();
        line.comes(1, 0);
        assert_eq!(line.comes(2, 1), LineageCheck::Next);
        assert_eq!(line.comes(3, 1), LineageCheck::Late);
        assert_eq!(line.comes(3, 1), LineageCheck::Copy);
        assert_eq!(line.comes(2, 1), LineageCheck::Same, "who was first goes on");
    }

    #[test]
    fn a_process_that_comes_back_after_a_later_one_is_another_holder() {
        let mut line = Lineage::default();
        line.comes(1, 0);
        line.comes(2, 1);
        assert_eq!([line.comes(1, 0), line.comes(1, 0)], [LineageCheck::Late, LineageCheck::Copy]);
        // Its next process does not hide it.
        assert_eq!([line.comes(4, 1), line.comes(4, 1)], [LineageCheck::Late, LineageCheck::Copy]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut line = Lineage::default();
        for boot in 1..=1000 {
            line.comes(boot, boot - 1);
            line.comes(1_000_000 + boot, boot - 1);
        }
        assert_eq!((line.seen.len(), line.late.len()), (SEEN_MAX, SEEN_MAX));
    }
}
