//! MPTCP's windows: each loss halves one, and what acknowledgements add is bounded by what all paths together would add to one.
//! Source: RFC 6356, section 3 (LIA), with Reno's slow start and halving (RFC 5681).
//! Inputs: acknowledgements, and the factor of all paths. Outputs: window in bytes, no pace. O(1) an acknowledgement.
//! Deviations: alone, or before the factor is known, it is Reno. What is lost of packets sent before a cut is of that cut only
//! where it is found within a round trip of it: an acknowledgement names no lost packet.
//! Limits: `WINDOW_MIN`.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use crate::controller::{Ack, Build, RateController};

const PACKET: f64 = 1460.0;
const WINDOW_START: f64 = 10.0 * PACKET;
const WINDOW_MIN: f64 = 2.0 * PACKET;
/// What a loss leaves of the window.
const DECREASE: f64 = 0.5;

/// How one is made.
pub(crate) const ENTRY: Build = |_| Box::new(Coupled::new());

/// The rate controller's state, bytes.
#[derive(Debug)]
struct Coupled {
    window: f64,
    threshold: f64,
    /// α over the sum of all windows; infinite while nothing is said of other paths.
    factor: f64,
    rtt: Option<f64>,
    min_rtt: Option<Duration>,
    cut_at: Time,
}

impl Coupled {
    fn new() -> Self {
        Coupled {
            window: WINDOW_START,
            threshold: f64::INFINITY,
            factor: f64::INFINITY,
            rtt: None,
            min_rtt: None,
            cut_at: Time::ZERO,
        }
    }
}

impl RateController for Coupled {
    fn acked(&mut self, now: Time, ack: &Ack) {
        self.rtt = Some(ack.rtt.as_secs_f64());
        self.min_rtt = Some(self.min_rtt.map_or(ack.rtt, |least| least.min(ack.rtt)));
        if ack.lost.0 > 0 && (self.cut_at == Time::ZERO || self.cut_at + ack.rtt <= now) {
            self.cut_at = now;
            self.window = (self.window * DECREASE).max(WINDOW_MIN);
            self.threshold = self.window;
            if ack.is_timeout {
                self.window = WINDOW_MIN;
            }
            return;
        }
        let newly = ack.newly.as_f64();
        if ack.app_limited && ack.in_flight.as_f64() + newly < self.window / 2.0 {
            return;
        }
        let most = if self.window < self.threshold { 1.0 / PACKET } else { 1.0 / self.window };
        let least = if self.window < self.threshold { most } else { self.factor.min(most) };
        self.window += newly * PACKET * least;
    }

    fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}

    fn tick(&mut self, _now: Time) {}

    fn couple(&mut self, factor: f64) {
        self.factor = factor;
    }

    fn rate(&self) -> Rate {
        self.rtt.filter(|rtt| *rtt > 0.0).map_or(Rate::ZERO, |rtt| Rate::new(self.window / rtt))
    }

    fn window(&self) -> Size {
        Size(self.window as u64)
    }

    fn pace(&self) -> Rate {
        Rate::ZERO
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(newly: f64, lost: u64) -> Ack {
        Ack {
            rtt: Duration::from_millis(100),
            sent_at: Time::ZERO,
            delivered_at_send: Size::ZERO,
            reached_at: Time::ZERO,
            delivered: Size::ZERO,
            newly: Size(newly as u64),
            in_flight: Size::ZERO,
            lost: Size(lost),
            marked: Size::ZERO,
            is_timeout: false,
            app_limited: false,
        }
    }

    #[test]
    fn a_window_is_halved_once_a_round_trip_and_grows_by_a_packet_in_one() {
        let mut law = Coupled::new();
        law.acked(Time::from_millis(1000), &ack(WINDOW_START, 0));
        assert!((law.window - 2.0 * WINDOW_START).abs() < 1.0, "it doubles at first");
        law.acked(Time::from_millis(1100), &ack(0.0, 1));
        law.acked(Time::from_millis(1150), &ack(0.0, 1));
        assert!((law.window - WINDOW_START).abs() < 1.0);
        law.acked(Time::from_millis(1200), &ack(WINDOW_START, 0));
        assert!((law.window - WINDOW_START - PACKET).abs() < 1.0);
    }

    #[test]
    fn two_equal_paths_together_grow_as_one() {
        // α of two equal windows is 1/2, so each packet adds a quarter of what it would alone: 1/2 over twice the window.
        let mut law = Coupled::new();
        law.threshold = 0.0;
        law.couple(0.5 / (2.0 * law.window));
        law.acked(Time::from_millis(1000), &ack(WINDOW_START, 0));
        assert!((law.window - WINDOW_START - PACKET / 4.0).abs() < 1.0, "{}", law.window);
    }
}
