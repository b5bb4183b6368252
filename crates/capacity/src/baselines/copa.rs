//! Copa: steers the window towards a rate that falls as the queue below grows.
//! Source: Arun and Balakrishnan, "Copa: Practical Delay-Based Congestion Control", NSDI 2018, section 2.
//! Inputs: acknowledgements. Outputs: rate and pace in bytes/s, window in bytes. O(1) an acknowledgement.
//! Deviations: default mode only, so it yields to flows that fill buffers (section 2.2 is left out); the
//! window does not grow while it is not used.
//! Limits: `WINDOW_MIN`, `VELOCITY_MAX`.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use crate::controller::{Ack, Build, RateController};
use crate::window_filter::{Extreme, WindowFilter};

const PACKET: f64 = 1460.0;
/// Price of delay (delta of the paper): 1 / DELTA packets stand in equilibrium.
const DELTA: f64 = 0.5;
const WINDOW_START: f64 = 10.0;
const WINDOW_MIN: f64 = 2.0;
/// Over how long the smallest round trip counts.
const MIN_RTT_PERIOD: Duration = Duration::from_secs(10);
/// Round trips in one direction before the steps double.
const STEADY_ROUNDS: u32 = 3;
/// Bound on the step, so that a long calm cannot make one acknowledgement swing the window.
const VELOCITY_MAX: f64 = 65_536.0;

/// How one is made.
pub(crate) const ENTRY: Build = |known| Box::new(Copa::new(known.remembered));

/// The rate controller's state. The window is in packets, as in the paper.
#[derive(Debug)]
struct Copa {
    window: f64,
    srtt: f64,
    shortest: WindowFilter,
    standing: WindowFilter,
    is_slow_start: bool,
    velocity: f64,
    is_rising: bool,
    steady_rounds: u32,
    window_before: f64,
    round_end: Size,
}

impl Copa {
    fn new(remembered: Option<Rate>) -> Self {
        // The round trip is not known yet: 100 ms of half the remembered rate.
        let window = remembered.map_or(WINDOW_START, |rate| rate.as_f64() * 0.05 / PACKET);
        Copa {
            window: window.max(WINDOW_START),
            srtt: 0.0,
            shortest: WindowFilter::new(Extreme::Min),
            standing: WindowFilter::new(Extreme::Min),
            is_slow_start: true,
            velocity: 1.0,
            is_rising: true,
            steady_rounds: 0,
            window_before: window,
            round_end: Size::ZERO,
        }
    }

    fn standing_rtt(&self) -> f64 {
        self.standing.get().unwrap_or(0.0)
    }

    /// Doubles the step after some round trips in one direction (section 2.1, step 3).
    fn adapt_velocity(&mut self, ack: &Ack) {
        if ack.delivered_at_send < self.round_end {
            return;
        }
        self.round_end = ack.delivered;
        let is_rising = self.window > self.window_before;
        self.steady_rounds = if is_rising == self.is_rising { self.steady_rounds + 1 } else { 0 };
        if self.steady_rounds >= STEADY_ROUNDS {
            self.velocity = (self.velocity * 2.0).min(VELOCITY_MAX);
        } else if self.steady_rounds == 0 {
            self.velocity = 1.0;
        }
        self.is_rising = is_rising;
        self.window_before = self.window;
    }
}

impl RateController for Copa {
    fn acked(&mut self, now: Time, ack: &Ack) {
        let rtt = ack.rtt.as_secs_f64();
        self.srtt = if self.srtt > 0.0 { self.srtt + (rtt - self.srtt) / 8.0 } else { rtt };
        let place = now.as_nanos();
        self.shortest.push(place, MIN_RTT_PERIOD.as_nanos() as u64, rtt);
        self.standing.push(place, (self.srtt / 2.0 * 1e9) as u64, rtt);
        let queue = self.standing_rtt() - self.shortest.get().unwrap_or(rtt);
        let packets = ack.newly.as_f64() / PACKET;
        let rate = self.window / self.standing_rtt().max(1e-6);
        let target = if queue > 0.0 { 1.0 / (DELTA * queue) } else { f64::MAX };
        let is_below = rate <= target;
        if is_below && ack.in_flight.as_f64() / PACKET + packets + 1.0 < self.window {
            return;
        }
        if self.is_slow_start && is_below {
            self.window += packets;
            return;
        }
        self.is_slow_start = false;
        self.adapt_velocity(ack);
        if is_below != self.is_rising && self.velocity > 1.0 {
            self.velocity = 1.0;
        }
        let step = packets * self.velocity / (DELTA * self.window);
        // A lump of acknowledgements moves the window by half of itself at most.
        let step = step.min(self.window / 2.0);
        self.window = (self.window + if is_below { step } else { -step }).max(WINDOW_MIN);
    }

    fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}

    fn tick(&mut self, _now: Time) {}

    fn rate(&self) -> Rate {
        match self.standing.get() {
            Some(rtt) if rtt > 0.0 => Rate::new(self.window * PACKET / rtt),
            _ => Rate::ZERO,
        }
    }

    fn window(&self) -> Size {
        Size((self.window * PACKET) as u64)
    }

    fn pace(&self) -> Rate {
        self.rate().times(2.0)
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.shortest.get().map(Duration::from_secs_f64)
    }
}
