//! A slower path only if what it holds leaves the fastest enough of the peer's window.
//! Source: Ferlin et al., "BLEST: Blocking Estimation-based MPTCP Scheduler for Heterogeneous Networks", IFIP
//! Networking 2016, by the formulas of its authors' code for Linux (multipath-tcp.org, v0.96). With f the fastest
//! path, s the fastest that has room and r the rounds of f while a piece is on s,
//! `X = λ (W_f + (r - 1) / 2) r`: wait if `X > rwnd - q_s - piece`. λ rises by 0.04 a round trip in which the window
//! was full, falls by 0.01 in others, and stays in 1.0..=1.3.
//! Inputs: round trips, windows, the peer's window. Outputs: a path, or none. O(paths).
//! Deviations: a record that may not begin is the sign of a full window; the time on s is its smoothed round trip
//! (docs/algorithms-link.md#blest).
//! Limits: none.

use std::time::Duration;

use tidegate_types::units::Time;

use crate::path_scheduler::scheduler::{Build, PathScheduler, PathView, PieceView};

/// λ at first, and its bounds.
const LAMBDA: (f64, f64, f64) = (1.2, 1.0, 1.3);
/// What it rises and falls by.
const STEPS: (f64, f64) = (0.04, 0.01);

/// How one is made.
pub(crate) const ENTRY: Build = |_| Box::new(Blest::default());

/// The rule.
#[derive(Debug)]
struct Blest {
    lambda: f64,
    was_blocked: bool,
    next_step: Time,
}

impl Default for Blest {
    fn default() -> Self {
        Blest { lambda: LAMBDA.0, was_blocked: false, next_step: Time::ZERO }
    }
}

impl Blest {
    /// Once a round trip of the slower path.
    fn adjust(&mut self, choice: &PieceView<'_>, slow: &PathView) {
        self.was_blocked |= choice.is_blocked;
        if choice.now < self.next_step {
            return;
        }
        let step = if self.was_blocked { STEPS.0 } else { -STEPS.1 };
        self.lambda = (self.lambda + step).clamp(LAMBDA.1, LAMBDA.2);
        self.was_blocked = false;
        self.next_step = choice.now + Duration::from_secs_f64(slow.srtt.clamp(0.0, 10.0));
    }

    /// What the fastest path sends while a piece is on the slower one, X: bytes.
    fn expected(&self, fast: &PathView, slow: &PathView, piece: f64) -> f64 {
        let rounds = (slow.srtt / fast.srtt.max(1e-4)).floor() + 1.0;
        self.lambda * (fast.window + (rounds - 1.0) / 2.0 * piece) * rounds
    }
}

impl PathScheduler for Blest {
    fn choose(&mut self, choice: &PieceView<'_>) -> Option<usize> {
        let fast = choice.fastest();
        let place = choice.fastest_with_room()?;
        let slow = &choice.open[place];
        if slow.path == fast.path || fast.has_room(choice.piece) {
            return Some(place);
        }
        self.adjust(choice, slow);
        let room = (choice.peer_window - slow.ahead(choice.piece)).max(0.0);
        (self.expected(fast, slow, choice.piece) <= room).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path_scheduler::tests::{ask, path};

    fn fast() -> PathView {
        PathView { path: 1, srtt: 0.040, in_flight: 10_000.0, ..path() }
    }

    #[test]
    fn it_waits_where_the_slower_path_would_leave_too_little_of_the_window() {
        // 100 / 40 ms are 3 rounds: X = 1.2 · (10,000 + 1000) · 3 = 39,600, with λ one step lower 39,270.
        let (slow, full) = ([path()], [fast()]);
        let of = |peer_window| PieceView { peer_window, ..ask(&slow, &full) };
        assert_eq!(Blest::default().choose(&of(40_269.0)), None);
        assert_eq!(Blest::default().choose(&of(40_271.0)), Some(0));
    }

    #[test]
    fn lambda_moves_once_a_round_trip_within_its_bounds() {
        let mut rule = Blest::default();
        let (slow, full) = ([path()], [fast()]);
        let mut at = |millis, is_blocked| {
            let now = Time::from_millis(millis);
            rule.choose(&PieceView { now, is_blocked, ..ask(&slow, &full) });
            rule.lambda
        };
        assert!((at(0, false) - 1.19).abs() < 1e-9);
        assert!((at(99, true) - 1.19).abs() < 1e-9);
        assert!((at(100, false) - 1.23).abs() < 1e-9, "what was blocked meanwhile counts");
        let rising = (2..20).map(|round| at(round * 100, true)).last();
        assert_eq!(rising, Some(1.3));
        let falling = (20..80).map(|round| at(round * 100, false)).last();
        assert_eq!(falling, Some(1.0));
    }

    #[test]
    fn the_fastest_is_taken_where_it_has_room() {
        let idle = PathView { in_flight: 0.0, ..fast() };
        let choice = [path(), idle];
        let little = PieceView { peer_window: 0.0, ..ask(&choice, &[]) };
        assert_eq!(Blest::default().choose(&little), Some(1));
    }
}
