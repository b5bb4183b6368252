//! The arrival delay of a path: how long packets take to the peer, but for a constant that is the same
//! on every path.
//! Source: papers/fd-mvqs.txt, §4.2, Eq. 14; the prediction is one of `crates/link/src/predict/`.
//! Inputs: sending times by our clock, receiving times by the peer's. Outputs: seconds. O(1) amortised, but for
//! the prediction.
//! Deviations: evenly spaced cells of 10 ms, predicted at the age of feedback (docs/algorithms-link.md#delay).
//! Limits: `WINDOW`, `CELLS_MAX`.

use std::time::Duration;

use tidegate_capacity::window_filter::{Extreme, WindowFilter};
use tidegate_types::units::Time;

use super::predict::{Predictor, PredictorName, Series};

/// Length of a cell in nanoseconds: delays of one cell are one value of the series.
const CELL: u64 = 10_000_000;
/// Cells ahead that are predicted at most.
const CELLS_MAX: u128 = 64;
/// Time over which the least delay counts: clocks drift apart by less than a millisecond meanwhile, and
/// a rate controller drains the path more often.
const WINDOW: Duration = Duration::from_secs(15);

/// Delays of one path, in seconds of two clocks that run alike but began at different times.
#[derive(Debug)]
pub struct ArrivalDelay {
    last: Option<f64>,
    name: PredictorName,
    predictor: Box<dyn Predictor>,
    /// Delays beyond the first one: clocks may differ by so much that nothing else would be left.
    series: Series,
    first: f64,
    /// What the predictor said at the beginning of the present cell.
    said: f64,
    least: WindowFilter,
    /// Least of round trip - arrival delay: what the way back takes, on the same two clocks.
    back: WindowFilter,
}

impl ArrivalDelay {
    /// Nothing has been measured.
    pub fn new(name: PredictorName) -> Self {
        ArrivalDelay {
            last: None,
            name,
            predictor: name.build(),
            series: Series::default(),
            first: 0.0,
            said: 0.0,
            least: WindowFilter::new(Extreme::Min),
            back: WindowFilter::new(Extreme::Min),
        }
    }

    /// A packet was sent at `sent_at`, came at `received_at` (microseconds of the peer's clock), and was
    /// acknowledged now after a round trip of `rtt`, Eq. 14.
    pub fn push(&mut self, now: Time, sent_at: Time, received_at: u64, rtt: Duration) {
        // The difference of two clocks may have either sign; a peer may say anything.
        let micros = received_at.wrapping_sub(sent_at.as_nanos() / 1000) as i64;
        let delay = micros as f64 / 1e6;
        self.last = Some(delay);
        let (place, span) = (now.as_nanos(), WINDOW.as_nanos() as u64);
        self.least.push(place, span, delay);
        self.back.push(place, span, rtt.as_secs_f64() - delay);
        self.predict(sent_at, delay, rtt);
    }

    /// A packet that is sent now leaves a round trip after the last one that is known of.
    fn predict(&mut self, sent_at: Time, delay: f64, rtt: Duration) {
        if self.name == PredictorName::Last {
            return;
        }
        if self.series.values().len() == 0 {
            self.first = delay;
        }
        if self.series.push(sent_at.as_nanos() / CELL, delay - self.first) {
            let cells = (rtt.as_nanos() / u128::from(CELL)).clamp(1, CELLS_MAX);
            self.said = self.first + self.predictor.predict(&self.series, cells as usize);
        }
    }

    /// The delay of a packet that is sent now, PAD; `None` before the first.
    pub fn predicted(&self) -> Option<f64> {
        if self.name == PredictorName::Last { self.last } else { self.last.map(|_| self.said) }
    }

    /// The last delay that was measured.
    pub fn last(&self) -> Option<f64> {
        self.last
    }

    /// The least delay of late.
    pub fn least(&self) -> Option<f64> {
        self.least.get()
    }

    /// The time that packets stand in queues on the way to the peer, seconds >= 0.
    pub fn queue(&self) -> f64 {
        self.last.zip(self.least()).map_or(0.0, |(last, least)| (last - least).max(0.0))
    }

    /// The round trip without the queues of the way back: what a rate controller should see, for these are
    /// not its own. At least zero.
    pub fn forward_rtt(&self) -> Option<Duration> {
        let seconds = self.last? + self.back.get()?;
        Some(Duration::try_from_secs_f64(seconds.clamp(0.0, 3600.0)).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn clocks_that_began_at_different_times_compare_paths_all_the_same() {
        let millis = Duration::from_millis;
        for offset in [0, 7 * SECOND, 0_u64.wrapping_sub(3 * SECOND)] {
            let [mut near, mut far] = [(); 2].map(|()| ArrivalDelay::new(PredictorName::Last));
            let sent = Time::from_millis(10_000);
            let at = |ms: u64| (10_000_000 + ms * 1000).wrapping_add(offset);
            near.push(sent + millis(140), sent, at(70), millis(140));
            far.push(sent + millis(200), sent, at(130), millis(200));
            let difference = far.predicted().unwrap() - near.predicted().unwrap();
            assert!((difference - 0.060).abs() < 1e-6, "{difference}");
            assert!(near.queue() < 1e-9);
        }
    }

    #[test]
    fn each_predictor_is_asked_for_the_delay_after_a_round_trip() {
        let millis = Duration::from_millis;
        // A wave of 300 ms: 150 ms on, which is a round trip, it stands on the other side.
        let wave = |at: u64| 60.0 + 10.0 * (at as f64 * std::f64::consts::TAU / 300.0).sin();
        let off = |name: PredictorName| {
            let mut delay = ArrivalDelay::new(name);
            for at in (1000..9075).step_by(5) {
                let came = at * 1000 + (wave(at) * 1000.0) as u64 + 77 * SECOND;
                delay.push(Time::from_millis(at + 150), Time::from_millis(at), came, millis(150));
            }
            let now = (wave(9220) + 77_000.0) / 1e3;
            (delay.predicted().unwrap() - now).abs()
        };
        assert!(off(PredictorName::Last) > 0.015, "{}", off(PredictorName::Last));
        for name in [PredictorName::Ar, PredictorName::Chaos, PredictorName::Auto] {
            assert!(off(name) < 0.003, "{}: {}", name.name(), off(name));
        }
        assert_eq!(ArrivalDelay::new(PredictorName::Chaos).predicted(), None);
    }

    #[test]
    fn a_queue_on_the_way_back_is_not_seen_and_one_on_the_way_there_is() {
        let mut delay = ArrivalDelay::new(PredictorName::Last);
        let mut push = |at: u64, there: u64, back: u64| {
            let (sent, rtt) = (Time::from_millis(at), Duration::from_millis(there + back));
            delay.push(sent + rtt, sent, (at + there) * 1000, rtt);
            (delay.queue(), delay.forward_rtt().unwrap())
        };
        assert_eq!(push(0, 50, 50).1, Duration::from_millis(100));
        assert_eq!(push(100, 50, 90).1, Duration::from_millis(100));
        let (queue, rtt) = push(200, 75, 50);
        assert!((queue - 0.025).abs() < 1e-6);
        assert_eq!(rtt, Duration::from_millis(125));
    }
}
