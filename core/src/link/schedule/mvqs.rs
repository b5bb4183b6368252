//! The path on which a piece is expected to arrive first, failures included: FD-MVQS as corrected.
//! Source: papers/fd-mvqs.txt, §4.3, Eq. 21-23, Alg. 2.
//! Inputs: what is ahead of a piece on each path, windows, delays, loss rates. Outputs: a path. O(paths).
//! Deviations: no jump where the window is full; what is in flight counts; a price for loss; one piece at
//! a time (docs/algorithms-link.md#mvqs).
//! Limits: none.

use super::{PathView, Scheduler, place_of_least};

/// Loss at which a path is as good as none.
const LOSS_MAX: f64 = 0.9;

/// A wait counts so many times: who waits makes those behind it wait as well, and a path that each piece by
/// itself would rather wait for ends up with a queue as long as the difference to the next one. Of 1, 2, 3, 5
/// and 9 the smaller ones are worse at light loss; beyond 3 nothing is gained.
const CROWDING: f64 = 3.0;

/// The rule.
#[derive(Debug)]
pub(super) struct Mvqs;

/// What it costs in seconds to send a piece of so many bytes by this path if it does not fail: T of Eq. 23, as
/// `PAD + k · max(0, q - swnd) / W · srtt` with k = `CROWDING`, where q counts what is in flight and the piece, and W is swnd, for
/// no loss makes our window smaller. The pace may hold it up longer than the window does.
fn arrival(path: &PathView, piece: f64) -> f64 {
    let over = (path.ahead(piece) - path.window).max(0.0);
    let by_window = over / path.window.max(piece) * path.srtt;
    let by_pace = if path.pace > 0.0 { path.queued / path.pace } else { 0.0 };
    path.predicted_delay + CROWDING * by_window.max(by_pace)
}

impl Scheduler for Mvqs {
    fn choose(&mut self, paths: &[PathView], piece: f64) -> usize {
        let arrivals: Vec<f64> = paths.iter().map(|path| arrival(path, piece)).collect();
        let total = |(place, path): (usize, &PathView)| {
            // A failed piece goes again, by the best of the other paths, once the failure is known.
            let others = arrivals.iter().enumerate().filter(|&(other, _)| other != place);
            let again = others.map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
            let again = if again.is_finite() { again } else { arrivals[place] };
            let loss = path.loss_rate.min(LOSS_MAX);
            arrivals[place] + loss / (1.0 - loss) * (path.detection + again.max(0.0))
        };
        place_of_least(paths.iter().enumerate().map(total))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::path;
    use super::*;

    #[test]
    fn the_wait_begins_where_the_window_ends_and_without_a_jump() {
        // Eq. 23 by hand: 50 ms while 10 packets of 1000 bytes fit, then a tenth of 100 ms a packet, three
        // times.
        let at = |ahead: f64| arrival(&PathView { in_flight: ahead, ..path() }, 1000.0);
        assert!((at(9_000.0) - 0.050).abs() < 1e-9);
        assert!((at(10_000.0) - 0.080).abs() < 1e-9);
        assert!((at(14_000.0) - 0.200).abs() < 1e-9);
    }

    #[test]
    fn a_long_path_takes_over_when_the_queue_of_the_short_one_is_a_third_of_the_difference() {
        let long = PathView { predicted_delay: 0.11, ..path() };
        let short = |queued| PathView { in_flight: 9_000.0, queued, ..path() };
        assert_eq!(Mvqs.choose(&[short(1_000.0), long], 1000.0), 0);
        assert_eq!(Mvqs.choose(&[short(3_000.0), long], 1000.0), 1);
    }

    #[test]
    fn an_idle_path_that_loses_much_is_dearer_than_a_longer_one() {
        // 0.05 + 1/9 · (0.1 + 0.06) = 0.068 against 0.06.
        let lossy = PathView { loss_rate: 0.1, ..path() };
        let longer = PathView { predicted_delay: 0.06, ..path() };
        assert_eq!(Mvqs.choose(&[lossy, longer], 1000.0), 1);
        assert_eq!(Mvqs.choose(&[path(), longer], 1000.0), 0);
    }
}
