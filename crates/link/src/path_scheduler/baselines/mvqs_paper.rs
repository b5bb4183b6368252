//! FD-MVQS as printed, with the repairs only without which it cannot run.
//! Source: papers/fd-mvqs.txt, §4.1 Eq. 1, 2, 4, §4.3 Eq. 21-23, Alg. 2.
//! Inputs: virtual queues, windows, round trips, loss rates. Outputs: a path. O(paths).
//! Deviations: one piece at a time; a ratio of round trips to the least one
//! (docs/algorithms-link.md#mvqs-paper).
//! Limits: none.

use crate::loss_rate::printed_factor;
use crate::path_scheduler::scheduler::{Build, PathScheduler, PathView, PieceView, place_of_least};

/// How one is made.
pub(crate) const ENTRY: Build = |decrease_factor| Box::new(MvqsPaper { decrease_factor });

/// The rule.
#[derive(Debug)]
struct MvqsPaper {
    /// η of Eq. 22.
    pub(crate) decrease_factor: f64,
}

impl MvqsPaper {
    /// What is sent in one round, W. Eq. 22: `(1 - φ) swnd + η φ swnd`.
    fn expected_window(&self, path: &PathView) -> f64 {
        let rtt_ratio = if path.min_rtt > 0.0 { path.srtt / path.min_rtt } else { 1.0 };
        let top = path.window_top.max(1.0);
        let factor = printed_factor(path.loss_rate, rtt_ratio, path.window / top);
        (1.0 - factor) * path.window + self.decrease_factor * factor * path.window
    }

    /// Seconds until a piece arrives, T. Eq. 23, with its jump of one srtt at q = swnd.
    fn time_factor(&self, path: &PathView, piece: f64) -> f64 {
        let queue = path.in_flight + path.queued;
        if queue < path.window {
            return path.predicted_delay;
        }
        let rounds = 1.0 + (queue - path.window) / self.expected_window(path).max(piece);
        path.predicted_delay + rounds * path.srtt
    }
}

impl PathScheduler for MvqsPaper {
    fn choose(&mut self, choice: &PieceView<'_>) -> Option<usize> {
        let time = |path: &PathView| self.time_factor(path, choice.piece);
        Some(place_of_least(choice.open.iter().map(time)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_scheduler::tests::{ask, path};

    const RULE: MvqsPaper = MvqsPaper { decrease_factor: 0.5 };

    #[test]
    fn equation_22_takes_part_of_the_window_even_without_loss() {
        // φ = 0.613 at σ = c = 1 and ρ = 0: W = 0.387 · 10,000 + 0.5 · 0.613 · 10,000.
        let window = RULE.expected_window(&path());
        assert!((window - 6934.0).abs() < 2.0, "{window}");
    }

    #[test]
    fn equation_23_jumps_by_a_round_trip_where_the_window_is_full() {
        let at = |queued: f64| RULE.time_factor(&PathView { queued, ..path() }, 1000.0);
        assert!((at(9_999.0) - 0.050).abs() < 1e-9);
        assert!((at(10_000.0) - 0.150).abs() < 1e-9);
        // Four packets more: 4000 / 6934 of a round.
        assert!((at(14_000.0) - 0.2077).abs() < 1e-4, "{}", at(14_000.0));
    }

    #[test]
    fn below_the_window_loss_costs_nothing() {
        let lossy = PathView { loss_rate: 0.5, ..path() };
        let longer = PathView { predicted_delay: 0.051, ..path() };
        let mut rule = RULE;
        assert_eq!(rule.choose(&ask(&[longer, lossy], &[])), Some(1));
    }
}
