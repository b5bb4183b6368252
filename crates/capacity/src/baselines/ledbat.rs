//! LEDBAT: steers the window towards a fixed queueing delay.
//! Source: RFC 6817, section 2.4.2.
//! Inputs: acknowledgements. Outputs: rate in bytes/s, window in bytes, no pace. O(1) an acknowledgement.
//! Deviations: round trips instead of one-way delays (our feedback has no far clock); `TARGET` is 25 ms,
//! where the RFC allows up to 100 ms; slow start up to the first queue, which the RFC leaves open.
//! Limits: `WINDOW_MIN`.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use crate::controller::{Ack, Build, RateController};
use crate::window_filter::{Extreme, WindowFilter};

const PACKET: f64 = 1460.0;
/// The queueing delay to keep, seconds.
const TARGET: f64 = 0.025;
const GAIN: f64 = 1.0;
const WINDOW_START: f64 = 10.0 * PACKET;
const WINDOW_MIN: f64 = 2.0 * PACKET;
/// How long a base delay is believed (BASE_HISTORY).
const BASE_PERIOD: Duration = Duration::from_secs(600);
/// Slow start ends at this part of the target.
const SLOW_START_END: f64 = 0.75;
/// Packets by which the window may exceed what is in flight (ALLOWED_INCREASE).
const ALLOWED_INCREASE: f64 = 1.0;

/// How one is made.
pub(crate) const ENTRY: Build = |known| Box::new(Ledbat::new(known.remembered));

/// The rate controller's state. The window is in bytes.
#[derive(Debug)]
struct Ledbat {
    window: f64,
    base: WindowFilter,
    /// Smallest round trip of the last half one (CURRENT_FILTER).
    current: WindowFilter,
    is_slow_start: bool,
    cut_at: Time,
}

impl Ledbat {
    fn new(remembered: Option<Rate>) -> Self {
        // The round trip is not known yet: 100 ms of half the remembered rate.
        let window = remembered.map_or(WINDOW_START, |rate| rate.as_f64() * 0.05);
        Ledbat {
            window: window.max(WINDOW_START),
            base: WindowFilter::new(Extreme::Min),
            current: WindowFilter::new(Extreme::Min),
            is_slow_start: true,
            cut_at: Time::ZERO,
        }
    }
}

impl RateController for Ledbat {
    fn acked(&mut self, now: Time, ack: &Ack) {
        let rtt = ack.rtt.as_secs_f64();
        let place = now.as_nanos();
        self.base.push(place, BASE_PERIOD.as_nanos() as u64, rtt);
        let base = self.base.get().unwrap_or(rtt);
        self.current.push(place, (base / 2.0 * 1e9) as u64, rtt);
        let queue = self.current.get().unwrap_or(rtt) - base;
        let newly = ack.newly.as_f64();
        if ack.lost.0 > 0 && self.cut_at + ack.rtt <= now {
            self.cut_at = now;
            self.is_slow_start = false;
            self.window = (self.window / 2.0).max(WINDOW_MIN);
            return;
        }
        let used = ack.in_flight.as_f64() + newly + ALLOWED_INCREASE * PACKET;
        let is_used = used >= self.window;
        if self.is_slow_start && queue < SLOW_START_END * TARGET {
            self.window += if is_used { newly } else { 0.0 };
            return;
        }
        self.is_slow_start = false;
        let off_target = ((TARGET - queue) / TARGET).max(-1.0);
        let step = GAIN * off_target * newly * PACKET / self.window;
        if step < 0.0 || is_used {
            self.window = (self.window + step).max(WINDOW_MIN);
        }
    }

    fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}

    fn tick(&mut self, _now: Time) {}

    fn rate(&self) -> Rate {
        match self.current.get() {
            Some(rtt) if rtt > 0.0 => Rate::new(self.window / rtt),
            _ => Rate::ZERO,
        }
    }

    fn window(&self) -> Size {
        Size(self.window as u64)
    }

    fn pace(&self) -> Rate {
        Rate::ZERO
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.base.get().map(Duration::from_secs_f64)
    }
}
