//! The first round trips of a path: from nothing to its rate.
//! Source: slow start (RFC 5681, 3.1); packet trains (Dovrolis et al., INFOCOM 2001); the rest own.
//! Inputs: acknowledgements with the peer's receiving times, the queue's delay. Outputs: window in bytes,
//! pace in bytes/s. O(1).
//! Deviations: the first burst is taken for a train, and half of the rate that it shows is used at once
//! (docs/algorithms-link.md#start).
//! Limits: `TRAIN_GAIN`.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

/// First window: what TCP sends at first (RFC 6928), beside a train of seven packets.
const WINDOW: f64 = 24_000.0;
/// What a train must hold at least: shorter ones measure the grain of the path.
const TRAIN: f64 = 7_000.0;
/// Packets of one burst are sent within this time.
const BURST: Duration = Duration::from_millis(5);
/// A train counts if the path has spread it by so much: else it shows our own rate.
const SPREAD: f64 = 1.5;
/// Part of a rate that a train shows, or that is remembered, that is used before it is proven.
const TRUST: f64 = 0.5;
/// A train makes the window so much larger at most, whatever it shows.
const TRAIN_GAIN: f64 = 16.0;
/// Part of the window that must be in flight for it to grow.
const USED: f64 = 0.5;
/// The window leaves in half a round trip: it doubles in each.
const PACE_GAIN: f64 = 2.0;
/// A queue of half the round trip, within bounds in seconds, ends the start.
const QUEUE: (f64, f64, f64) = (0.5, 0.005, 0.030);

/// A packet of which both times are known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    /// Bytes sent up to and with it.
    pub(super) sent: Size,
    /// When it was sent.
    pub(super) sent_at: Time,
    /// When it came, microseconds of the peer's clock.
    pub(super) received_at: u64,
}

/// The state of a start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    window: f64,
    /// A rate of earlier, until the round trip shows what window that is.
    remembered: Option<Rate>,
    rtt: Option<f64>,
    /// First known packet of the present burst.
    first: Option<Timed>,
    is_over: bool,
}

impl Start {
    /// Begins, with part of the rate of earlier if there is one.
    pub(super) fn new(remembered: Option<Rate>) -> Self {
        Start { window: WINDOW, remembered, rtt: None, first: None, is_over: false }
    }

    /// Whether the rate controller decides from now on.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Bytes that may be unacknowledged.
    pub(super) fn window(&self) -> f64 {
        self.window
    }

    /// Bytes/s; zero for none.
    pub(super) fn pace(&self) -> Rate {
        match (self.rtt, self.remembered) {
            (Some(rtt), _) => Rate::new(PACE_GAIN * self.window / rtt),
            (None, Some(rate)) => rate.times(TRUST),
            (None, None) => Rate::ZERO,
        }
    }

    /// So many bytes were acknowledged, of which `newest` was the last packet; `before` were in flight
    /// until now. The window grows only where it is used.
    pub(super) fn acked(
        &mut self,
        bytes: Size,
        before: Size,
        newest: Option<Timed>,
        rtt: Duration,
        queue: f64,
    ) {
        let rtt = rtt.as_secs_f64().max(1e-4);
        self.rtt = Some(rtt);
        if let Some(rate) = self.remembered.take() {
            self.window = self.window.max(TRUST * rate.as_f64() * rtt);
        }
        if before.as_f64() > USED * self.window {
            self.window += bytes.as_f64();
        }
        if let Some(rate) = newest.and_then(|newest| self.train(newest)) {
            let shown = TRUST * rate * rtt;
            self.window = self.window.max(shown.min(TRAIN_GAIN * self.window));
        }
        if queue > (QUEUE.0 * rtt).clamp(QUEUE.1, QUEUE.2) {
            self.is_over = true;
        }
    }

    /// Packets were lost, and a queue explains it.
    pub(super) fn congested(&mut self) {
        self.is_over = true;
    }

    /// The rate that the present burst shows, bytes/s.
    fn train(&mut self, newest: Timed) -> Option<f64> {
        let first = *self.first.get_or_insert(newest);
        if newest.sent_at.since(first.sent_at) > BURST {
            self.first = Some(newest);
            return None;
        }
        let bytes = newest.sent.saturating_sub(first.sent).as_f64();
        let came = newest.received_at.checked_sub(first.received_at)? as f64 / 1e6;
        let left = newest.sent_at.since(first.sent_at).as_secs_f64();
        (bytes >= TRAIN && came > SPREAD * left).then(|| bytes / came)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn timed(sent: u64, received_at: u64) -> Option<Timed> {
        Some(Timed { sent: Size(sent), sent_at: Time::ZERO, received_at })
    }

    #[test]
    fn the_window_doubles_in_a_round_trip_where_it_is_used() {
        let mut start = Start::new(None);
        start.acked(Size(24_000), Size(24_000), None, RTT, 0.0);
        assert!((start.window() - 48_000.0).abs() < 1.0);
        assert!((start.pace().as_f64() - 960_000.0).abs() < 1.0);
        start.acked(Size(10_000), Size(10_000), None, RTT, 0.0);
        assert!((start.window() - 48_000.0).abs() < 1.0);
    }

    #[test]
    fn a_train_shows_the_rate_and_half_of_it_is_used_at_once() {
        let mut start = Start::new(None);
        // 10 KB within 10 ms: 1 MB/s, of which half is 50 KB a round trip.
        start.acked(Size(1000), Size(1000), timed(1000, 500_000), RTT, 0.0);
        start.acked(Size(5000), Size(1000), timed(6000, 505_000), RTT, 0.0);
        assert!((start.window() - 24_000.0).abs() < 1.0, "too short to tell");
        start.acked(Size(5000), Size(1000), timed(11_000, 510_000), RTT, 0.0);
        assert!((start.window() - 50_000.0).abs() < 1.0, "{}", start.window());
    }

    #[test]
    fn a_train_that_comes_in_a_lump_shows_no_more_than_sixteen_windows() {
        let mut start = Start::new(None);
        start.acked(Size(1000), Size(1000), timed(1000, 500_000), RTT, 0.0);
        start.acked(Size(9000), Size(1000), timed(11_000, 500_001), RTT, 0.0);
        assert!((start.window() - 16.0 * 24_000.0).abs() < 1.0);
        start.acked(Size(9000), Size(1000), timed(21_000, 499_999), RTT, 0.0);
        assert!((start.window() - 16.0 * 24_000.0).abs() < 1.0, "time that runs backwards");
    }

    #[test]
    fn half_of_a_rate_of_earlier_is_used_at_once() {
        let mut start = Start::new(Some(Rate::new(4e6)));
        assert!((start.pace().as_f64() - 2e6).abs() < 1.0);
        start.acked(Size(1000), Size(1000), None, RTT, 0.0);
        assert!((start.window() - 200_000.0).abs() < 1.0);
    }

    #[test]
    fn a_queue_ends_it() {
        let mut start = Start::new(None);
        start.acked(Size(1000), Size(1000), None, RTT, 0.029);
        assert!(!start.is_over());
        start.acked(Size(1000), Size(1000), None, RTT, 0.031);
        assert!(start.is_over());
        let mut short = Start::new(None);
        short.acked(Size(1000), Size(1000), None, Duration::from_millis(20), 0.011);
        assert!(short.is_over());
    }
}
