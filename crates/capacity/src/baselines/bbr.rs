//! BBR: paces at the bottleneck's rate and keeps two bandwidth-delay products in flight at most.
//! Source: Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016, and
//! draft-cardwell-iccrg-bbr-congestion-control-00 (version 1).
//! Inputs: acknowledgements. Outputs: rate and pace in bytes/s, window in bytes. O(1) an acknowledgement.
//! Deviations: no packet conservation after loss, no long-term (policer) sampling, no send quantum: the
//! node's pacer cuts by time; the gain cycle begins at its first phase, not at a random one.
//! Limits: `WINDOW_MIN`.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use crate::controller::{Ack, Build, RateController};
use crate::window_filter::{Extreme, WindowFilter};

/// Fills a pipe of any size in the fewest round trips: 2 / ln 2.
const HIGH_GAIN: f64 = 2.885;
/// The gain cycle of `ProbeBandwidth`, a phase each round trip.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// In flight over the bandwidth-delay product.
const WINDOW_GAIN: f64 = 2.0;
/// Four packets.
const WINDOW_MIN: f64 = 4.0 * 1460.0;
/// RFC 6928.
const WINDOW_START: f64 = 14_600.0;
/// Round trips over which the largest delivery rate counts.
const RATE_ROUNDS: u64 = 10;
/// How long the shortest round trip is believed.
const MIN_RTT_PERIOD: Duration = Duration::from_secs(10);
/// How long the window stays minimal to see the path's own round trip.
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
/// The pipe is full when the rate has not grown by a quarter in three round trips.
const FULL: (f64, u32) = (1.25, 3);

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Startup,
    Drain,
    /// Phase of the cycle, and when it began.
    ProbeBandwidth(usize, Time),
    /// When it ends; `None` until the window is down.
    ProbeRtt(Option<Time>),
}

/// How one is made.
pub(crate) const ENTRY: Build = |known| Box::new(Bbr::new(known.remembered));

/// The rate controller's state.
#[derive(Debug)]
struct Bbr {
    state: State,
    rates: WindowFilter,
    round: u64,
    round_end: Size,
    /// The shortest round trip and when it was seen.
    min_rtt: Option<(Duration, Time)>,
    full_rate: f64,
    full_rounds: u32,
}

impl Bbr {
    fn new(remembered: Option<Rate>) -> Self {
        let mut rates = WindowFilter::new(Extreme::Max);
        if let Some(rate) = remembered {
            rates.push(0, RATE_ROUNDS, rate.as_f64() / 2.0);
        }
        Bbr {
            state: State::Startup,
            rates,
            round: 0,
            round_end: Size::ZERO,
            min_rtt: None,
            full_rate: 0.0,
            full_rounds: 0,
        }
    }

    fn bottleneck(&self) -> f64 {
        self.rates.get().unwrap_or(0.0)
    }

    /// Bytes in flight that fill the path `gain` times; `None` while nothing is known.
    fn content(&self, gain: f64) -> Option<f64> {
        let (min_rtt, _) = self.min_rtt?;
        self.rates.get().map(|rate| gain * rate * min_rtt.as_secs_f64())
    }

    fn gains(&self) -> (f64, f64) {
        match self.state {
            State::Startup => (HIGH_GAIN, HIGH_GAIN),
            State::Drain => (1.0 / HIGH_GAIN, HIGH_GAIN),
            State::ProbeBandwidth(phase, _) => (CYCLE[phase], WINDOW_GAIN),
            State::ProbeRtt(_) => (1.0, WINDOW_GAIN),
        }
    }

    fn is_full(&self) -> bool {
        self.full_rounds >= FULL.1
    }

    /// Takes the delivery rate; answers whether a round trip ended.
    fn measure_rate(&mut self, now: Time, ack: &Ack) -> bool {
        let ended = ack.delivered_at_send >= self.round_end;
        if ended {
            self.round += 1;
            self.round_end = ack.delivered;
        }
        if let Some(sample) = ack.delivery_rate(now)
            && (!ack.app_limited || sample >= self.bottleneck())
        {
            self.rates.push(self.round, RATE_ROUNDS, sample);
        }
        ended
    }

    fn check_full(&mut self, ack: &Ack) {
        if self.is_full() || ack.app_limited {
            return;
        }
        if self.bottleneck() >= self.full_rate * FULL.0 {
            self.full_rate = self.bottleneck();
            self.full_rounds = 0;
        } else {
            self.full_rounds += 1;
        }
    }

    /// Takes the round trip; answers whether the shortest one is too old.
    fn measure_rtt(&mut self, now: Time, rtt: Duration) -> bool {
        let is_old = self.min_rtt.is_some_and(|(_, seen)| seen + MIN_RTT_PERIOD < now);
        if is_old || self.min_rtt.is_none_or(|(least, _)| rtt <= least) {
            self.min_rtt = Some((rtt, now));
        }
        is_old
    }

    fn change_state(&mut self, now: Time, ack: &Ack, is_old: bool) {
        let in_flight = ack.in_flight.as_f64();
        let content = self.content(1.0).unwrap_or(f64::MAX);
        let min_rtt = self.min_rtt.map_or(Duration::ZERO, |(least, _)| least);
        match self.state {
            State::ProbeRtt(None) if in_flight <= WINDOW_MIN => {
                self.state = State::ProbeRtt(Some(now + PROBE_RTT_TIME.max(min_rtt)));
            }
            State::ProbeRtt(Some(end)) if end <= now => {
                self.min_rtt = self.min_rtt.map(|(least, _)| (least, now));
                self.state =
                    if self.is_full() { State::ProbeBandwidth(2, now) } else { State::Startup };
            }
            State::ProbeRtt(_) => {}
            _ if is_old => self.state = State::ProbeRtt(None),
            State::Startup if self.is_full() => self.state = State::Drain,
            State::Drain if in_flight <= content => self.state = State::ProbeBandwidth(2, now),
            State::ProbeBandwidth(phase, since) => {
                let gain = CYCLE[phase];
                let is_over = match gain {
                    _ if gain > 1.0 => {
                        since + min_rtt < now && (ack.lost.0 > 0 || in_flight >= gain * content)
                    }
                    _ if gain < 1.0 => since + min_rtt < now || in_flight <= content,
                    _ => since + min_rtt < now,
                };
                if is_over {
                    self.state = State::ProbeBandwidth((phase + 1) % CYCLE.len(), now);
                }
            }
            State::Startup | State::Drain => {}
        }
    }
}

impl RateController for Bbr {
    fn acked(&mut self, now: Time, ack: &Ack) {
        if self.measure_rate(now, ack) {
            self.check_full(ack);
        }
        let is_old = self.measure_rtt(now, ack.rtt);
        self.change_state(now, ack, is_old);
    }

    fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}

    fn tick(&mut self, _now: Time) {}

    fn rate(&self) -> Rate {
        Rate::new(self.bottleneck())
    }

    fn window(&self) -> Size {
        let window = match self.state {
            State::ProbeRtt(_) => WINDOW_MIN,
            _ => self.content(self.gains().1).unwrap_or(WINDOW_START).max(WINDOW_MIN),
        };
        let window = if self.is_full() { window } else { window.max(WINDOW_START) };
        Size(window as u64)
    }

    fn pace(&self) -> Rate {
        Rate::new(self.bottleneck() * self.gains().0)
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.map(|(least, _)| least)
    }
}
