//! BBR, version 3: as [`bbr`](super::bbr), bounded by what losses showed, and with a probe each few seconds.
//! Source: Cardwell et al., draft-ietf-ccwg-bbr-00, "BBR Congestion Control" (version 3).
//! Inputs: acknowledgements. Outputs: rate and pace in bytes/s, window in bytes. O(1) an acknowledgement.
//! Deviations: no packet conservation or undo, no send quantum (the node's pacer cuts by time), no answer to marks of
//! its own (`marks` answers above every controller), no estimate of aggregation; two probes lie 2.5 s apart where the
//! draft draws 2 to 3 s; a byte's share of loss is that of the round trip in which it was sent.
//! Limits: `WINDOW_MIN`.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use crate::controller::{Ack, Build, RateController};

/// Pace while the pipe is filled: 4 ln 2; and the window over the bandwidth-delay product in every other phase.
const STARTUP: (f64, f64) = (2.77, 2.0);
/// Pace while what startup left behind is drained.
const DRAIN: f64 = 0.35;
/// What is left to others of the measured rate.
const MARGIN: f64 = 0.99;
/// Pace while less, and more, than the pipe's content is sought.
const DOWN: f64 = 0.90;
const UP: f64 = 1.25;
/// The window while more is sought.
const UP_WINDOW: f64 = 2.25;
/// The window over the bandwidth-delay product while the path's own round trip is sought.
const PROBE_RTT_WINDOW: f64 = 0.5;
/// A part of what was in flight; more losses than that are too many.
const LOSS: f64 = 0.02;
/// What is kept after a loss.
const BETA: f64 = 0.7;
/// What is used of the highest safe content between two probes.
const HEADROOM: f64 = 0.85;
/// How far two probes lie apart: so long, or so many round trips, or as many as packets are in flight.
const PROBE_WAIT: (Duration, f64) = (Duration::from_millis(2500), 63.0);
/// How long the shortest round trip is believed, how often it is sought, and for how long.
const MIN_RTT: (Duration, Duration, Duration) =
    (Duration::from_secs(10), Duration::from_secs(5), Duration::from_millis(200));
/// The pipe is full when the rate has not grown by a quarter in three round trips.
const FULL: (f64, u32) = (1.25, 3);
const PACKET: f64 = 1460.0;
const WINDOW_MIN: f64 = 4.0 * PACKET;
/// RFC 6928.
const WINDOW_START: f64 = 14_600.0;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    /// When it ends; `None` until the window is down.
    ProbeRtt(Option<Time>),
}

/// How one is made.
pub(crate) const ENTRY: Build = |known| Box::new(Bbr3::new(known.remembered));

/// The rate controller's state.
#[derive(Debug)]
struct Bbr3 {
    state: State,
    /// The largest delivery rate of this probe's cycle, and of the one before it, bytes/s.
    max_rates: [f64; 2],
    /// What losses since the last probe leave of rate and content; infinite without one.
    low: (f64, f64),
    /// The content of the path that lost nothing.
    high: f64,
    round: Round,
    /// The shortest round trip and when it was seen; when one was sought.
    min_rtt: Option<(Duration, Time)>,
    sought_at: Time,
    /// The rate that the next ones must exceed by a quarter, and for how many round trips none has.
    full: (f64, u32),
    is_full: bool,
    probed_at: Time,
    rounds_since_probe: f64,
    /// Round trips of this probe.
    probing: u32,
}

/// What one round trip showed.
#[derive(Debug, Default)]
struct Round {
    end: Size,
    rate: f64,
    content: f64,
    lost: f64,
}

impl Bbr3 {
    fn new(remembered: Option<Rate>) -> Self {
        Bbr3 {
            state: State::Startup,
            max_rates: [remembered.map_or(0.0, |rate| rate.as_f64() / 2.0), 0.0],
            low: (f64::INFINITY, f64::INFINITY),
            high: f64::INFINITY,
            round: Round::default(),
            min_rtt: None,
            sought_at: Time::ZERO,
            full: (0.0, 0),
            is_full: false,
            probed_at: Time::ZERO,
            rounds_since_probe: 0.0,
            probing: 0,
        }
    }

    fn max_rate(&self) -> f64 {
        self.max_rates[0].max(self.max_rates[1])
    }

    fn bottleneck(&self) -> f64 {
        self.max_rate().min(self.low.0)
    }

    /// Bytes in flight that fill the path `gain` times; `None` while nothing is known.
    fn content(&self, gain: f64) -> Option<f64> {
        let (least, _) = self.min_rtt?;
        let rate = self.bottleneck();
        (rate > 0.0).then_some(gain * rate * least.as_secs_f64())
    }

    fn gain(&self) -> f64 {
        match self.state {
            State::Startup => STARTUP.0,
            State::Drain => DRAIN,
            State::Down => DOWN,
            State::Up => UP,
            State::Cruise | State::Refill | State::ProbeRtt(_) => 1.0,
        }
    }

    fn allowed(&self) -> f64 {
        let gain = match self.state {
            State::ProbeRtt(_) => PROBE_RTT_WINDOW,
            State::Up => UP_WINDOW,
            _ => STARTUP.1,
        };
        let Some(content) = self.content(gain) else { return WINDOW_START };
        let bound = match self.state {
            State::Startup | State::Drain => f64::INFINITY,
            State::Up | State::Refill | State::Down => self.high,
            State::Cruise | State::ProbeRtt(_) => self.with_headroom(),
        };
        let window = content.min(bound).min(self.low.1).max(WINDOW_MIN);
        if self.is_full { window } else { window.max(WINDOW_START) }
    }

    fn with_headroom(&self) -> f64 {
        (self.high * HEADROOM).max(WINDOW_MIN)
    }

    fn is_seeking(&self) -> bool {
        matches!(self.state, State::Startup | State::Refill | State::Up)
    }

    /// Takes what an acknowledgement measured; at the end of a round trip, what that showed.
    fn measure(&mut self, now: Time, ack: &Ack) -> Option<Round> {
        let sample = ack.delivery_rate(now).unwrap_or(0.0);
        self.round.rate = self.round.rate.max(sample);
        self.round.content = self.round.content.max(ack.ahead().as_f64());
        self.round.lost += ack.lost.as_f64();
        if !ack.app_limited || sample >= self.max_rate() {
            self.max_rates[0] = self.max_rates[0].max(sample);
        }
        (ack.delivered_at_send >= self.round.end).then(|| {
            let next = Round { end: ack.delivered, ..Round::default() };
            std::mem::replace(&mut self.round, next)
        })
    }

    /// Whether the rate has ceased to grow.
    fn has_ceased(&mut self, round: &Round, ack: &Ack) -> bool {
        if !ack.app_limited {
            self.full = match round.rate >= self.full.0 * FULL.0 {
                true => (round.rate, 0),
                false => (self.full.0, self.full.1 + 1),
            };
        }
        self.full.1 >= FULL.1
    }

    fn end_round(&mut self, round: &Round, ack: &Ack) {
        self.rounds_since_probe += 1.0;
        let has_ceased = self.has_ceased(round, ack);
        let is_too_much = round.lost > LOSS * round.content;
        match self.state {
            State::Startup if has_ceased || is_too_much => {
                self.is_full = true;
                self.state = State::Drain;
                if is_too_much {
                    self.high = self.content(1.0).unwrap_or(0.0).max(round.content);
                }
            }
            State::Refill => {
                self.state = State::Up;
                self.full = (round.rate, 0);
                self.probing = 0;
            }
            State::Up if is_too_much => {
                self.high = round.content.max(BETA * self.allowed());
                self.go_down();
            }
            // The bound holds it back, and not the path: one packet more in the first round trip, then twice as many in each.
            State::Up if round.content >= self.high - 2.0 * PACKET => {
                self.high += PACKET * f64::from(1u32 << self.probing.min(16));
                self.probing += 1;
                self.full = (round.rate, 0);
            }
            State::Up if has_ceased => self.go_down(),
            _ => {}
        }
        if round.lost > 0.0 && !self.is_seeking() {
            let (rate, content) = self.low;
            let rate = if rate.is_finite() { rate } else { self.max_rate() };
            let content = if content.is_finite() { content } else { self.allowed() };
            self.low = (round.rate.max(BETA * rate), round.content.max(BETA * content));
        }
    }

    fn go_down(&mut self) {
        self.state = State::Down;
        if self.max_rates[0] > 0.0 {
            self.max_rates = [0.0, self.max_rates[0]];
        }
        self.rounds_since_probe = 0.0;
    }

    fn measure_rtt(&mut self, now: Time, rtt: Duration) {
        let is_old = self.min_rtt.is_some_and(|(_, seen)| seen + MIN_RTT.0 < now);
        if is_old || self.min_rtt.is_none_or(|(least, _)| rtt <= least) {
            self.min_rtt = Some((rtt, now));
            self.sought_at = now;
        }
    }

    fn change_state(&mut self, now: Time, ack: &Ack) {
        let in_flight = ack.in_flight.as_f64();
        let content = self.content(1.0).unwrap_or(f64::MAX);
        match self.state {
            State::ProbeRtt(None) if in_flight <= self.allowed() => {
                let least = self.min_rtt.map_or(Duration::ZERO, |(least, _)| least);
                self.state = State::ProbeRtt(Some(now + MIN_RTT.2.max(least)));
            }
            State::ProbeRtt(Some(end)) if end <= now => {
                self.sought_at = now;
                self.probed_at = now;
                self.state = if self.is_full { State::Cruise } else { State::Startup };
            }
            State::ProbeRtt(_) => {}
            _ if self.sought_at + MIN_RTT.1 < now => self.state = State::ProbeRtt(None),
            State::Drain if in_flight <= content => {
                self.go_down();
                self.probed_at = now;
            }
            State::Down if in_flight <= content.min(self.with_headroom()) => {
                self.state = State::Cruise;
            }
            State::Down | State::Cruise => {
                let packets = (content / PACKET).min(PROBE_WAIT.1);
                if self.probed_at + PROBE_WAIT.0 < now || self.rounds_since_probe >= packets {
                    self.state = State::Refill;
                    self.low = (f64::INFINITY, f64::INFINITY);
                    self.probed_at = now;
                    self.round.end = ack.delivered + ack.in_flight;
                }
            }
            State::Startup | State::Drain | State::Refill | State::Up => {}
        }
    }
}

impl RateController for Bbr3 {
    fn acked(&mut self, now: Time, ack: &Ack) {
        self.measure_rtt(now, ack.rtt);
        if let Some(round) = self.measure(now, ack) {
            self.end_round(&round, ack);
        }
        self.change_state(now, ack);
    }

    fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}

    fn tick(&mut self, _now: Time) {}

    fn rate(&self) -> Rate {
        Rate::new(self.bottleneck())
    }

    fn window(&self) -> Size {
        Size(self.allowed() as u64)
    }

    fn pace(&self) -> Rate {
        Rate::new(self.bottleneck() * self.gain() * MARGIN)
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.map(|(least, _)| least)
    }
}
