//! A slower path only if the piece is done there before the fastest could have sent all that waits.
//! Source: Lim et al., "ECF: An MPTCP Path Scheduler to Manage Heterogeneous Paths", CoNEXT 2017, by the formulas
//! of its authors' code for Linux (multipath-tcp.org, v0.96). With f the fastest path, s the fastest that has room,
//! k what waits, `n = max(k, W_f) / W_f`, `δ = max(σ_f, σ_s)`: wait if
//! `(n + 1) srtt_f < (1 + waiting β) (srtt_s + δ)` and `max(k, W_s) / W_s srtt_s >= 2 srtt_f + δ`, otherwise s.
//! Inputs: round trips and their variation, windows, what waits. Outputs: a path, or none. O(paths).
//! Deviations: none.
//! Limits: none.

use crate::path_scheduler::scheduler::{Build, PathScheduler, PieceView};

/// β: how much longer it goes on waiting once it waits.
const HYSTERESIS: f64 = 0.25;

/// How one is made.
pub(crate) const ENTRY: Build = |_| Box::new(Ecf::default());

/// The rule.
#[derive(Debug, Default)]
struct Ecf {
    is_waiting: bool,
}

impl PathScheduler for Ecf {
    fn choose(&mut self, choice: &PieceView<'_>) -> Option<usize> {
        let fast = choice.fastest();
        let place = choice.fastest_with_room()?;
        let slow = &choice.open[place];
        if slow.path == fast.path || fast.has_room(choice.piece) {
            return Some(place);
        }
        let rounds = |window: f64| choice.waiting.max(window) / window.max(choice.piece);
        let margin = fast.rtt_variation.max(slow.rtt_variation);
        let patience = if self.is_waiting { 1.0 + HYSTERESIS } else { 1.0 };
        if (rounds(fast.window) + 1.0) * fast.srtt >= patience * (slow.srtt + margin) {
            self.is_waiting = false;
            return Some(place);
        }
        if rounds(slow.window) * slow.srtt < 2.0 * fast.srtt + margin {
            return Some(place);
        }
        self.is_waiting = true;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_scheduler::PathView;
    use crate::path_scheduler::tests::{ask, path};

    fn fast() -> PathView {
        PathView { path: 1, srtt: 0.020, in_flight: 10_000.0, ..path() }
    }

    #[test]
    fn it_waits_for_the_fastest_until_that_would_take_longer() {
        // By hand: of 10,000 bytes a round of 20 ms, 20,000 take 2 + 1 rounds, 60 ms, before the 100 of the other.
        let mut rule = Ecf::default();
        let slow = [path()];
        let full = [fast()];
        assert_eq!(rule.choose(&ask(&slow, &full)), None);
        // 40,000: 4 + 1 rounds are 100 ms, which is as long. Once it waits, up to 125 are not too long.
        let more = |waiting| PieceView { waiting, ..ask(&slow, &full) };
        assert_eq!(rule.choose(&more(40_000.0)), None);
        assert_eq!(rule.choose(&more(53_000.0)), Some(0));
        assert_eq!(rule.choose(&more(40_000.0)), Some(0), "it waits no more");
    }

    #[test]
    fn it_takes_the_slower_path_where_that_is_done_within_two_rounds_of_the_fastest() {
        // 39 ms are less than two times 20.
        let slow = [PathView { srtt: 0.039, window: 20_000.0, ..path() }];
        let full = [fast()];
        let little = PieceView { waiting: 2000.0, ..ask(&slow, &full) };
        assert_eq!(Ecf::default().choose(&little), Some(0));
        let slow = [PathView { srtt: 0.041, window: 20_000.0, ..path() }];
        let little = PieceView { waiting: 2000.0, ..ask(&slow, &full) };
        assert_eq!(Ecf::default().choose(&little), None);
    }

    #[test]
    fn the_fastest_is_taken_where_it_has_room_and_nothing_where_none_has() {
        let mut rule = Ecf::default();
        let idle = PathView { in_flight: 0.0, ..fast() };
        assert_eq!(rule.choose(&ask(&[path(), idle], &[])), Some(1));
        assert_eq!(rule.choose(&ask(&[fast()], &[])), None);
    }
}
