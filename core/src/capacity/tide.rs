//! Finds the uplink's rate by keeping a small queue standing below the scheduler, and no more.
//! Source: own.
//! Inputs: acknowledgements (rtt, delivered bytes). Outputs: rate and pace in bytes/s, window in bytes.
//! Deviations: none.
//! Limits: window between `WINDOW_MIN` and `WINDOW_MAX`; memory constant.
//!
//! While no queue stands, the delivery rate is a lower bound of the capacity, so the largest of 8 round
//! trips counts. Once a queue has stood for a round trip, the rate at which bytes are acknowledged *is*
//! the capacity, and everything older is forgotten. The window is what the path holds, plus a target
//! queue that is long enough to keep the wire busy and short enough for an urgent record.

use std::collections::VecDeque;
use std::time::Duration;

use super::windowed::{Extreme, Windowed};
use super::{Ack, Law};
use crate::limits::CUT_MIN;
use crate::units::{Rate, Size, Time};

/// First window: what TCP sends at first (RFC 6928).
const WINDOW_START: f64 = 14_600.0;
/// Four packets always fit.
const WINDOW_MIN: f64 = 4.0 * 1460.0;
/// 128 MiB: 1 Gbit/s over a second.
const WINDOW_MAX: f64 = 128.0 * 1024.0 * 1024.0;
/// Round trips over which the delivery rate's maximum counts.
const RATE_WINDOW: f64 = 8.0;
/// Pace over rate: bytes are spread, but the pacer is never the reason for an idle wire.
const PACE_GAIN: f64 = 1.25;
/// Bounds of the target queue's time: a quarter of the round trip within these.
const TARGET: (f64, f64) = (0.003, 0.020);
/// A slow link's packet must fit in the target, up to this.
const TARGET_MAX: f64 = 0.050;
/// A queue shorter than this part of the target asks for more.
const PROBE_BELOW: f64 = 0.5;
/// A queue longer than this multiple of the target stands.
const STANDING: f64 = 1.5;
/// The window's growth a round trip while no queue shows, and its bound.
const BOOST: (f64, f64) = (1.25, 1.5);
/// Time between two looks for a shorter path.
const DRAIN_PERIOD: Duration = Duration::from_secs(5);
/// Part of the path's content that is kept in flight during such a look.
const DRAIN_GAIN: f64 = 0.95;
/// Part of the path's content that is kept in flight while a foreign queue drains.
const EMERGENCY_GAIN: f64 = 0.5;
/// Silence that halves the rate.
const IDLE_PERIOD: Duration = Duration::from_secs(10);
/// Weight of jitter in the target. 0: lowest latency, idle wire under held acknowledgements; 2: slow
/// after steps.
const JITTER_GAIN: f64 = 1.0;
/// Points of the acknowledged rate kept: two round trips of half a second, polled each millisecond.
const ACKED_MAX: usize = 1024;

/// Why the window is below what the path holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// It is not.
    Steady,
    /// A look for a shorter path, until then.
    Looking(Time),
    /// More stands than the law would have made: it drains. With the rate to restore if draining does
    /// not help, and since when only the drained window is in flight.
    Emergency(f64, Option<Time>),
}

/// The law's state.
#[derive(Debug)]
pub(super) struct Tide {
    /// Estimated capacity, bytes/s; 0 while unknown.
    rate: f64,
    rates: Windowed,
    min_rtt: Option<f64>,
    recent_rtt: Windowed,
    /// Mean deviation of the round trips, seconds.
    jitter: f64,
    last_rtt: f64,
    boost: f64,
    boosted_at: Time,
    /// Since when a queue stands.
    standing_since: Option<Time>,
    /// Since when far more stands than the law wants.
    swollen_since: Option<Time>,
    mode: Mode,
    looked_at: Time,
    /// Samples of bytes sent earlier are void.
    void_before: Time,
    /// (time, delivered): for the acknowledged rate while a queue stands.
    acked: VecDeque<(Time, u64)>,
    heard_at: Time,
    idle_at: Time,
}

impl Tide {
    /// A law that knows nothing but perhaps a rate remembered from an earlier run, of which it starts
    /// with half.
    pub(super) fn new(remembered: Option<Rate>) -> Self {
        Tide {
            rate: remembered.map_or(0.0, Rate::as_f64) * 0.5,
            rates: Windowed::new(Extreme::Max),
            min_rtt: None,
            recent_rtt: Windowed::new(Extreme::Min),
            jitter: 0.0,
            last_rtt: 0.0,
            boost: BOOST.1,
            boosted_at: Time::ZERO,
            standing_since: None,
            swollen_since: None,
            mode: Mode::Steady,
            looked_at: Time::ZERO,
            void_before: Time::ZERO,
            acked: VecDeque::new(),
            heard_at: Time::ZERO,
            idle_at: Time::ZERO,
        }
    }

    /// The time that the target queue takes, in seconds.
    fn target(&self) -> f64 {
        let by_path = (self.min_rtt.unwrap_or(TARGET.1) / 4.0).clamp(TARGET.0, TARGET.1);
        let packet = if self.rate > 0.0 { 1.5 * CUT_MIN.as_f64() / self.rate } else { 0.0 };
        by_path.max(packet.min(TARGET_MAX)) + JITTER_GAIN * self.jitter
    }

    /// Takes the round trip; answers with the queueing delay below, in seconds.
    fn measure_rtt(&mut self, now: Time, rtt: f64) -> f64 {
        let min_rtt = self.min_rtt.map_or(rtt, |least| least.min(rtt));
        self.min_rtt = Some(min_rtt);
        self.recent_rtt.push(now, Duration::from_secs_f64(min_rtt / 2.0), rtt);
        let least = self.recent_rtt.get().unwrap_or(rtt);
        // What swings above the recent least within half a round trip is jitter, not a queue.
        self.jitter += ((rtt - least) - self.jitter) / 16.0;
        self.last_rtt = rtt;
        least - min_rtt
    }

    /// Takes the delivery rate of the newest acknowledged byte.
    fn measure_rate(&mut self, now: Time, ack: &Ack) {
        let span = now.since(ack.sent_at).as_secs_f64();
        if span <= 0.0 || ack.sent_at < self.void_before {
            return;
        }
        let sample = ack.delivered.saturating_sub(ack.delivered_at_send).as_f64() / span;
        // A sample that we limited ourselves is a lower bound, no more.
        let may_only_raise = ack.app_limited || self.mode != Mode::Steady;
        if !may_only_raise || sample > self.rate {
            let window = Duration::from_secs_f64(RATE_WINDOW * self.min_rtt.unwrap_or(0.1));
            self.rates.push(now, window, sample);
            self.rate = self.rates.get().unwrap_or(sample);
        }
    }

    /// A queue stands: what is acknowledged is the capacity.
    fn follow_acked(&mut self, now: Time) {
        let span = Duration::from_secs_f64(2.0 * self.min_rtt.unwrap_or(0.1));
        let Some(&(newest, delivered)) = self.acked.back() else { return };
        let first = self.acked.iter().rev().find(|(at, _)| *at + span <= now);
        let &(oldest, base) = first.unwrap_or(&self.acked[0]);
        let elapsed = newest.since(oldest).as_secs_f64();
        if elapsed > 0.0 {
            self.rate = (delivered - base) as f64 / elapsed;
            self.rates.clear();
            self.rates.push(now, span, self.rate);
            self.void_before = now;
        }
    }

    fn remember_acked(&mut self, now: Time, delivered: Size) {
        self.acked.push_back((now, delivered.0));
        let keep = Duration::from_secs_f64(4.0 * self.min_rtt.unwrap_or(0.1));
        while self.acked.len() > ACKED_MAX || (self.acked.len() > 2 && self.acked[1].0 + keep < now)
        {
            self.acked.pop_front();
        }
    }

    /// Grows the window while no queue shows.
    fn probe(&mut self, now: Time, queue: f64, target: f64) {
        let round = Duration::from_secs_f64(self.min_rtt.unwrap_or(0.1));
        if queue >= PROBE_BELOW * target {
            self.boost = 1.0;
        } else if self.boosted_at + round <= now {
            self.boosted_at = now;
            self.boost = (self.boost * BOOST.0).min(BOOST.1);
        }
    }

    /// Notices queues that stand, that are not ours, and paths that became longer or shorter.
    fn watch(&mut self, now: Time, queue: f64, target: f64, ack: &Ack) {
        let round = Duration::from_secs_f64(self.min_rtt.unwrap_or(0.1));
        let since = |flag: bool, since: Option<Time>| flag.then(|| since.unwrap_or(now));
        self.standing_since = since(queue > STANDING * target, self.standing_since);
        let swollen = queue > 2.0 * target.min(0.030) + 0.010;
        self.swollen_since = since(swollen, self.swollen_since);
        if self.standing_since.is_some_and(|at| at + round <= now) {
            self.follow_acked(now);
        }
        match self.mode {
            Mode::Steady if self.swollen_since.is_some_and(|at| at + round * 2 <= now) => {
                self.mode = Mode::Emergency(self.rate, None);
            }
            Mode::Steady if self.looked_at + DRAIN_PERIOD <= now => {
                self.looked_at = now;
                self.mode = Mode::Looking(now + round);
            }
            Mode::Looking(until) if until <= now => self.mode = Mode::Steady,
            Mode::Emergency(..) if queue < target => self.mode = Mode::Steady,
            Mode::Emergency(rate, None) if ack.in_flight <= self.window() => {
                self.mode = Mode::Emergency(rate, Some(now));
            }
            Mode::Emergency(rate, Some(drained_at)) if ack.sent_at >= drained_at => {
                // This byte met none of ours, and still it took long: the path itself is longer now.
                self.min_rtt = self.recent_rtt.get();
                self.rate = self.rate.max(rate);
                self.rates.push(now, round, self.rate);
                (self.swollen_since, self.standing_since) = (None, None);
                self.mode = Mode::Steady;
            }
            _ => {}
        }
    }
}

impl Law for Tide {
    fn acked(&mut self, now: Time, ack: &Ack) {
        (self.heard_at, self.idle_at) = (now, now);
        let queue = self.measure_rtt(now, ack.rtt.as_secs_f64());
        self.remember_acked(now, ack.delivered);
        self.measure_rate(now, ack);
        let target = self.target();
        self.probe(now, queue, target);
        self.watch(now, queue, target, ack);
    }

    fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}

    fn tick(&mut self, now: Time) {
        if self.rate > 0.0 && self.idle_at + IDLE_PERIOD <= now {
            self.idle_at = now;
            self.rate /= 2.0;
            self.rates.clear();
        }
    }

    fn rate(&self) -> Rate {
        Rate::new(self.rate)
    }

    fn window(&self) -> Size {
        let Some(min_rtt) = self.min_rtt.filter(|_| self.rate > 0.0) else {
            return Size(WINDOW_START as u64);
        };
        let content = match self.mode {
            Mode::Steady => min_rtt * self.boost + self.target(),
            Mode::Looking(_) => min_rtt * DRAIN_GAIN,
            Mode::Emergency(..) => min_rtt * EMERGENCY_GAIN,
        };
        Size((self.rate * content).clamp(WINDOW_MIN, WINDOW_MAX) as u64)
    }

    fn pace(&self) -> Rate {
        // Nothing is known yet: the first window goes at once.
        Rate::new(self.rate * PACE_GAIN)
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.map(Duration::from_secs_f64)
    }

    fn next_timeout(&self) -> Option<Time> {
        (self.rate > 0.0).then_some(self.idle_at + IDLE_PERIOD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of one rate and one delay with an endless FIFO, kept full to the law's window.
    struct Path {
        law: Tide,
        now: Time,
        /// (handed, leaves the queue, delivered when handed, bytes)
        flying: VecDeque<(Time, Time, u64, u64)>,
        free_at: Time,
        delivered: u64,
        in_flight: u64,
    }

    impl Path {
        fn new() -> Self {
            let (law, flying) = (Tide::new(None), VecDeque::new());
            let (now, free_at) = (Time::ZERO, Time::ZERO);
            Path { law, now, flying, free_at, delivered: 0, in_flight: 0 }
        }

        /// Runs for a while; answers with the longest queue below, in seconds.
        fn run(&mut self, seconds: f64, rate: f64, round_trip: Duration) -> f64 {
            let end = self.now + Duration::from_secs_f64(seconds);
            let mut longest = 0.0f64;
            while self.now < end {
                let packet = 1400;
                while self.in_flight + packet <= self.law.window().0 {
                    let span = Duration::from_secs_f64(packet as f64 / rate);
                    self.free_at = self.free_at.max(self.now) + span;
                    longest = longest.max(self.free_at.since(self.now).as_secs_f64());
                    let acked_at = self.free_at + round_trip;
                    self.flying.push_back((self.now, acked_at, self.delivered, packet));
                    self.in_flight += packet;
                }
                let (handed, at, before, bytes) =
                    self.flying.pop_front().expect("a window is never 0");
                self.now = self.now.max(at);
                self.delivered += bytes;
                self.in_flight -= bytes;
                let ack = Ack {
                    rtt: self.now.since(handed),
                    sent_at: handed,
                    delivered_at_send: Size(before),
                    delivered: Size(self.delivered),
                    newly: Size(bytes),
                    in_flight: Size(self.in_flight),
                    unsent: Size::ZERO,
                    lost: Size::ZERO,
                    app_limited: false,
                };
                self.law.acked(self.now, &ack);
            }
            longest
        }
    }

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    #[test]
    fn the_rate_is_found_and_the_queue_stays_short() {
        for rate in [50_000.0, 250_000.0, 5e6] {
            let mut path = Path::new();
            path.run(3.0, rate, ROUND_TRIP);
            let queue = path.run(10.0, rate, ROUND_TRIP);
            let found = path.law.rate().as_f64() / rate;
            assert!((0.95..1.1).contains(&found), "found {found} of {rate}");
            // Half a round trip of boost, the target, and a slow packet or two.
            assert!(queue < 0.130, "{queue} s stood below at {rate}");
        }
    }

    #[test]
    fn a_drop_of_the_rate_drains_and_is_not_taken_for_a_longer_path() {
        let mut path = Path::new();
        path.run(10.0, 1e6, ROUND_TRIP);
        path.run(1.5, 125e3, ROUND_TRIP);
        let queue = path.run(10.0, 125e3, ROUND_TRIP);
        // The same bound: nothing of the drop is left.
        assert!(queue < 0.150, "{queue} s stood below");
        let min_rtt = path.law.min_rtt().expect("it was measured");
        assert!(min_rtt < Duration::from_millis(130), "{min_rtt:?}");
    }

    #[test]
    fn a_longer_path_is_accepted_after_a_drain_that_did_not_help() {
        let mut path = Path::new();
        path.run(10.0, 1e6, ROUND_TRIP);
        path.run(5.0, 1e6, ROUND_TRIP * 2);
        assert!(path.law.min_rtt().expect("it was measured") > Duration::from_millis(190));
        let before = path.delivered;
        path.run(5.0, 1e6, ROUND_TRIP * 2);
        let share = (path.delivered - before) as f64 / 5e6;
        assert!(share > 0.9, "{share} of the rate");
    }

    #[test]
    fn what_we_limit_ourselves_never_lowers_the_rate() {
        let mut path = Path::new();
        path.run(5.0, 1e6, ROUND_TRIP);
        let rate = path.law.rate();
        let quiet = Ack {
            rtt: ROUND_TRIP,
            sent_at: path.now,
            delivered_at_send: Size(path.delivered),
            delivered: Size(path.delivered + 100),
            newly: Size(100),
            in_flight: Size::ZERO,
            unsent: Size::ZERO,
            lost: Size::ZERO,
            app_limited: true,
        };
        path.law.acked(path.now + ROUND_TRIP, &quiet);
        assert_eq!(path.law.rate(), rate);
    }

    #[test]
    fn silence_halves_the_rate() {
        let mut path = Path::new();
        path.run(5.0, 1e6, ROUND_TRIP);
        let (rate, at) = (path.law.rate(), path.law.next_timeout().expect("it waits"));
        path.law.tick(at);
        assert_eq!(path.law.rate(), rate.times(0.5));
        assert_eq!(path.law.next_timeout(), Some(at + IDLE_PERIOD));
    }
}
