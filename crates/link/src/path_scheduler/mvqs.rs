//! The path on which a piece is expected to arrive first, failures included: FD-MVQS as corrected.
//! Source: papers/fd-mvqs.txt, §4.3, Eq. 21-23, Alg. 2.
//! Inputs: what is ahead of a piece on each path, windows, delays, loss rates. Outputs: a path. O(paths).
//! Deviations: no jump where the window is full; what is in flight counts; a price for loss; one piece at
//! a time (docs/algorithms-link.md#mvqs).
//! Limits: none.

use crate::path_scheduler::scheduler::{Build, PathScheduler, PathView, PieceView, place_of_least};

/// Loss at which a path is as good as none.
const LOSS_MAX: f64 = 0.9;

/// A wait counts so many times: who waits makes those behind it wait as well, and a path that each piece by
/// itself would rather wait for ends up with a queue as long as the difference to the next one.
const CROWDING: f64 = 3.0;
/// A window may be used so far without a price: what is beyond fills the path, and delays all that follows.
const USED_FREE: f64 = 0.5;
/// Round trips that the rest of a window costs for each window of it. Without, `round-robin`, which fills no
/// path, had the better p99 at half of the sum (docs/algorithms-link.md#mvqs).
const USED_PRICE: f64 = 2.0;

/// Delays that vary are so much of their mean deviation longer: who is late once makes a record late.
const VARIATION: f64 = 1.0;

/// How one is made.
pub(crate) const ENTRY: Build = |_| Box::new(Mvqs);

/// The rule.
#[derive(Debug)]
struct Mvqs;

/// What it costs in seconds to send a piece of so many bytes by this path if it does not fail: T of Eq. 23, as
/// `PAD + k · max(0, q - swnd) / W · srtt` with k = `CROWDING`, where q counts what is in flight and the
/// piece, and W is swnd, for no loss makes our window smaller. The pace may hold it up longer than the window
/// does. To this comes the price of the window that is used, `price` round trips for each window of it.
fn arrival(path: &PathView, piece: f64, price: f64) -> f64 {
    let window = path.window.max(piece);
    let over = (path.ahead(piece) - path.window).max(0.0);
    let by_window = over / window * path.srtt;
    let by_pace = if path.pace > 0.0 { path.queued / path.pace } else { 0.0 };
    let used = (path.ahead(piece) / window - USED_FREE).max(0.0);
    path.predicted_delay
        + VARIATION * path.rtt_variation
        + CROWDING * by_window.max(by_pace)
        + price * used * path.srtt
}

impl PathScheduler for Mvqs {
    fn choose(&mut self, choice: &PieceView<'_>) -> Option<usize> {
        let paths = choice.open;
        // Where the peer's window is short a longer way keeps more of it, and no path is ever full.
        let price = if choice.is_blocked { 0.0 } else { USED_PRICE };
        let arrival = |path: &PathView| arrival(path, choice.piece, price);
        // The two that are first: to every path the best of the others is one of them.
        let (mut first, mut second) = ((0, f64::INFINITY), f64::INFINITY);
        for (place, time) in paths.iter().map(arrival).enumerate() {
            if time < first.1 {
                (second, first) = (first.1, (place, time));
            } else {
                second = second.min(time);
            }
        }
        let total = |(place, path): (usize, &PathView)| {
            // A failed piece goes again, by the best of the other paths, once the failure is known.
            let time = arrival(path);
            let again = if place == first.0 { second } else { first.1 };
            let again = if again.is_finite() { again } else { time };
            let loss = path.loss_rate.min(LOSS_MAX);
            time + loss / (1.0 - loss) * (path.detection + again.max(0.0))
        };
        Some(place_of_least(paths.iter().enumerate().map(total)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ask, path};
    use super::*;

    #[test]
    fn the_wait_begins_where_the_window_ends_and_without_a_jump() {
        // By hand: 50 ms up to half of the window of 10 packets of 1000 bytes, then 20 ms a packet for its use,
        // and beyond the window 30 ms a packet more, for the tenth of 100 ms that Eq. 23 counts.
        let at = |ahead: f64| arrival(&PathView { in_flight: ahead, ..path() }, 1000.0, USED_PRICE);
        for (ahead, seconds) in [
            (4_000.0, 0.050),
            (5_000.0, 0.070),
            (9_000.0, 0.150),
            (10_000.0, 0.200),
            (14_000.0, 0.400),
        ] {
            assert!((at(ahead) - seconds).abs() < 1e-9, "{ahead}: {}", at(ahead));
        }
    }

    #[test]
    fn a_long_path_takes_over_before_the_short_one_is_full() {
        let long = PathView { predicted_delay: 0.11, ..path() };
        let short = |in_flight| PathView { in_flight, ..path() };
        assert_eq!(Mvqs.choose(&ask(&[short(5_000.0), long], &[])), Some(0));
        assert_eq!(Mvqs.choose(&ask(&[short(8_000.0), long], &[])), Some(1));
    }

    #[test]
    fn while_the_peers_window_is_short_the_short_path_takes_all_that_it_can() {
        let long = PathView { predicted_delay: 0.11, ..path() };
        for (in_flight, place) in [(8_000.0, 0), (12_000.0, 1)] {
            let paths = [PathView { in_flight, ..path() }, long];
            let choice = PieceView { is_blocked: true, ..ask(&paths, &[]) };
            assert_eq!(Mvqs.choose(&choice), Some(place), "{in_flight}");
        }
    }

    #[test]
    fn an_idle_path_that_loses_much_is_dearer_than_a_longer_one() {
        // 0.05 + 1/9 · (0.1 + 0.06) = 0.068 against 0.06.
        let lossy = PathView { loss_rate: 0.1, ..path() };
        let longer = PathView { predicted_delay: 0.06, ..path() };
        assert_eq!(Mvqs.choose(&ask(&[lossy, longer], &[])), Some(1));
        assert_eq!(Mvqs.choose(&ask(&[path(), longer], &[])), Some(0));
    }
}
