//! The path on which what is ahead of a piece is sent in the fewest rounds of a window that loss makes smaller.
//! Source: after Xue et al., "DPSAF: Forward Prediction Based Dynamic Packet Scheduling and Adjusting with Feedback
//! for Multipath TCP in Lossy Heterogeneous Networks", IEEE TVT 67(2), 2018, by its abstract and by papers/fd-mvqs.txt,
//! §1: what other paths send meanwhile, by maximum likelihood, with loss and changes of the window. Here
//! `T = srtt / 2 + n srtt`, n the rounds that send q - swnd where `W' = p (W + 1) + (1 - p) η W`, `p = (1 - ρ)^W`.
//! Inputs: round trips, windows, what is ahead, loss rates. Outputs: a path. O(paths · `ROUNDS_MAX`).
//! Deviations: the text was not at hand, hence `-like`; no correction by SACK (docs/algorithms-link.md#dpsaf).
//! Limits: `ROUNDS_MAX`.

use crate::path_scheduler::scheduler::{Build, PathScheduler, PathView, PieceView, place_of_least};

/// Rounds that are counted one by one: further ahead than a virtual queue is long.
const ROUNDS_MAX: u32 = 32;

/// How one is made.
pub(crate) const ENTRY: Build = |decrease_factor| Box::new(DpsafLike { decrease_factor });

/// The rule.
#[derive(Debug)]
struct DpsafLike {
    /// η, what a loss leaves of a window.
    pub(crate) decrease_factor: f64,
}

impl DpsafLike {
    /// The window of the next round as it is expected, in packets.
    fn next_window(&self, window: f64, loss_rate: f64) -> f64 {
        let whole = (1.0 - loss_rate).powf(window);
        whole * (window + 1.0) + (1.0 - whole) * self.decrease_factor * window
    }

    /// Rounds until a piece goes that has so many bytes before it.
    fn rounds(&self, path: &PathView, piece: f64) -> f64 {
        let piece = piece.max(1.0);
        let mut window = (path.window / piece).max(1.0);
        let mut ahead = path.ahead(piece) / piece - window;
        for round in 0..ROUNDS_MAX {
            if ahead <= 0.0 {
                return f64::from(round);
            }
            window = self.next_window(window, path.loss_rate).max(1.0);
            ahead -= window;
        }
        f64::from(ROUNDS_MAX) + ahead.max(0.0) / window
    }
}

impl PathScheduler for DpsafLike {
    fn choose(&mut self, choice: &PieceView<'_>) -> Option<usize> {
        let time = |path: &PathView| (0.5 + self.rounds(path, choice.piece)) * path.srtt;
        Some(place_of_least(choice.open.iter().map(time)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_scheduler::tests::{ask, path};

    const RULE: DpsafLike = DpsafLike { decrease_factor: 0.5 };

    #[test]
    fn a_window_grows_by_a_packet_or_is_halved() {
        assert!((RULE.next_window(10.0, 0.0) - 11.0).abs() < 1e-9);
        assert!((RULE.next_window(10.0, 1.0) - 5.0).abs() < 1e-9);
        // 0.9^10 = 0.3487: 0.3487 · 11 + 0.6513 · 5.
        assert!((RULE.next_window(10.0, 0.1) - 7.092).abs() < 1e-3);
    }

    #[test]
    fn loss_makes_the_same_queue_longer() {
        let rounds = |in_flight, loss_rate| {
            RULE.rounds(&PathView { in_flight, loss_rate, ..path() }, 1000.0)
        };
        assert_eq!([rounds(9_000.0, 0.1), rounds(9_001.0, 0.1)], [0.0, 1.0]);
        // 20 more packets: rounds of 11 and 12 without loss, of 7.1, 5.9 and 5.3 and 5.0 with it.
        assert_eq!([rounds(29_000.0, 0.0), rounds(29_000.0, 0.1)], [2.0, 4.0]);
        assert!(rounds(1e6, 1.0) > 900.0);
    }

    #[test]
    fn a_long_path_takes_over_when_the_short_one_needs_a_round_more() {
        let mut rule = RULE;
        let long = PathView { srtt: 0.25, ..path() };
        let short = |in_flight| PathView { in_flight, ..path() };
        assert_eq!(rule.choose(&ask(&[short(9_000.0), long], &[])), Some(0));
        assert_eq!(rule.choose(&ask(&[short(9_500.0), long], &[])), Some(1));
    }
}
