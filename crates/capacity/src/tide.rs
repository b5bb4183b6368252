//! Finds the uplink's rate by keeping a small queue standing below the scheduler, and no more.
//! Source: own; every constant was measured in simulation (docs/ALGORITHMS.md#tide).
//! Inputs: acknowledgements (round trip, bytes). Outputs: rate and pace in bytes/s, window in bytes.
//! Deviations: none.
//! Limits: `WINDOW_MIN`, `WINDOW_MAX`; constant memory, amortised O(1) an acknowledgement.
//!
//! While no queue stands, the delivery rate is a lower bound of the capacity, so the largest one of eight
//! round trips counts. Once a queue has stood for a round trip, the rate at which bytes are acknowledged
//! *is* the capacity, and everything older is forgotten. The window is what the path holds plus a target
//! queue: long enough to keep the wire busy, short enough for an urgent record.
//!
//! A queue that lasts although the window follows the capacity is not ours, or it is a longer path, or the
//! link is nearly silent. Then the window is halved until our bytes have left; the round trips after that
//! tell which.
//!
//! Now and then the window leaves no room for a queue, to see a shorter path. While most of what is sent is a
//! backlog it stays so for seconds: nobody waits for those records, and live ones meet no queue.

use std::time::Duration;

use tidegate_types::limits::CUT_MIN;
use tidegate_types::units::{Rate, Size, Time};

use super::delivery_rate::DeliveryRate;
use super::max_rate::MaxRate;
use super::round_trip::RoundTrips;
use super::route_change::RouteChange;
use super::standing_queue::Standing;
use super::swing::Swing;
use super::target::Target;

use crate::QueueBelow;
use crate::controller::{Ack, Build, RateController};

/// First window: what TCP sends at first (RFC 6928).
const WINDOW_START: f64 = 14_600.0;
/// Two cuts with their framing: one under way and one being acknowledged.
const WINDOW_MIN: f64 = 3_000.0;
/// 128 MiB: 1 Gbit/s over a second.
const WINDOW_MAX: f64 = 128.0 * 1024.0 * 1024.0;
/// Pace over rate: bytes are spread, but the pacer is never the reason for an idle wire; and after a few round trips without
/// a queue, or on a restless path, so that the pacer does not hold up the growth that the window allows.
const PACE_GAIN: (f64, f64) = (1.25, 2.0);
/// Weight of jitter in the target. 0 leaves the wire idle between held acknowledgements; 2 is slow after
/// steps.
const JITTER_GAIN: f64 = 1.0;
/// Round trips without a queue after which the larger one counts.
const CALM_ROUNDS: u32 = 4;
/// The window's growth a round trip while no queue shows, and its bound. Twice as much overshoots.
const BOOST: (f64, f64) = (1.25, 1.5);
/// A queue below this part of the target, jitter apart, is none.
const NO_QUEUE: f64 = 0.1;
/// Time between two looks for a shorter path.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
/// Part of the path's content in flight during a look.
const LOOK_GAIN: f64 = 0.95;
/// A look that shortens the path by more than this part is worth another.
const LOOK_AGAIN: f64 = 0.98;
/// For how long a look lasts while a backlog is sent; less than `UNPROVEN_PERIOD`.
const PATIENT_PERIOD: Duration = Duration::from_secs(8);
/// Round trips between two such looks: a queue stands and proves the rate.
const PATIENT_ROUNDS: u32 = 4;
/// A queue above this part of the target, left over when ours is gone, is not ours.
const LEFT_OVER: f64 = 0.5;
/// Part of the path's content in flight while it is drained.
const DRAIN_GAIN: f64 = 0.5;
/// Time without proof of the rate after which it is halved.
const UNPROVEN_PERIOD: Duration = Duration::from_secs(10);
/// The round trip before the first is known, for periods only.
const UNKNOWN_RTT: f64 = 0.1;

/// Why the window is below what the path holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// It is not.
    Steady,
    /// A look for a shorter path: since when, and the path's length before.
    Look(Time, f64),
    /// Our bytes leave the path, until so many are delivered at the latest.
    Drain(Size),
    /// They have left: bytes sent since then show the path as it is, unless more than so much was under
    /// way again.
    Verify(Time, Size),
    /// The first of them say that it is longer.
    Doubt(RouteChange),
}

/// How one is made.
pub(crate) const ENTRY: Build = |known| Box::new(Tide::new(known.remembered, known.queue));
/// The same of one that drains and paces a restless path less.
pub(crate) const RESTLESS: Build = |known| {
    let tide = Tide::new(known.remembered, known.queue);
    Box::new(Tide { minds_swing: true, ..tide })
};

/// The rate controller's state. Rates are bytes/s, round trips seconds.
#[derive(Debug)]
pub(super) struct Tide {
    rate: MaxRate,
    /// The rate when no queue was left over last.
    sound_rate: f64,
    trips: RoundTrips,
    acked: DeliveryRate,
    standing: Standing,
    target: Target,
    boost: f64,
    boosted_at: Time,
    /// Round trips without a queue.
    calm: u32,
    swing: Swing,
    /// Whether a path that swings is treated as restless.
    minds_swing: bool,
    mode: Mode,
    looked_at: Time,
    /// Whether most of what is sent is a backlog.
    is_patient: bool,
    /// When the rate was last proven, or halved for want of proof.
    proven_at: Time,
}

impl Tide {
    /// A rate controller that knows nothing but perhaps a rate of an earlier run, of which it starts with half.
    pub(super) fn new(remembered: Option<Rate>, queue: QueueBelow) -> Self {
        Tide {
            rate: MaxRate::new(remembered.map_or(0.0, Rate::as_f64) / 2.0),
            sound_rate: 0.0,
            trips: RoundTrips::new(),
            acked: DeliveryRate::default(),
            standing: Standing::default(),
            target: Target::new(queue),
            boost: BOOST.1,
            boosted_at: Time::ZERO,
            calm: 0,
            swing: Swing::default(),
            minds_swing: false,
            mode: Mode::Steady,
            looked_at: Time::ZERO,
            is_patient: false,
            proven_at: Time::ZERO,
        }
    }

    fn is_restless(&self) -> bool {
        self.minds_swing && self.swing.is_restless()
    }

    fn path(&self) -> f64 {
        self.trips.least().unwrap_or(UNKNOWN_RTT)
    }

    fn rounds(&self, count: u32) -> Duration {
        Duration::from_secs_f64(self.path()) * count
    }

    /// The time that so many bytes take at the rate, in seconds; 0 while nothing is known.
    fn time_of(&self, bytes: f64) -> f64 {
        if self.rate.get() > 0.0 { bytes.max(0.0) / self.rate.get() } else { 0.0 }
    }

    /// The time that the target queue takes, in seconds.
    fn target(&self) -> f64 {
        let target = self.target.get(self.path(), self.rate.get(), self.is_restless());
        target + JITTER_GAIN * self.trips.jitter()
    }

    /// Whether no queue shows.
    fn is_dry(&self) -> bool {
        let jitter = self.trips.jitter();
        self.trips.queue() < NO_QUEUE * (self.target() - jitter) + jitter
    }

    /// Grows the window while no queue shows.
    fn probe(&mut self, now: Time) {
        if !self.is_dry() {
            (self.boost, self.calm) = (1.0, 0);
        } else if self.mode == Mode::Steady && self.boosted_at + self.rounds(1) <= now {
            self.boosted_at = now;
            self.boost = (self.boost * BOOST.0).min(BOOST.1);
            self.calm = self.calm.saturating_add(1);
        }
    }

    /// The queue is empty because we drained it: no reason to probe before it can be back.
    fn rest(&mut self, now: Time) {
        (self.boost, self.calm) = (1.0, 0);
        self.boosted_at = now + self.rounds(1) / 2;
    }

    fn change_mode(&mut self, now: Time, ack: &Ack, is_too_long: bool) {
        match self.mode {
            Mode::Steady | Mode::Look(..) if is_too_long => self.drain(ack),
            Mode::Steady if self.looked_at + self.look_period() <= now && !ack.app_limited => {
                self.looked_at = now;
                self.mode = Mode::Look(now, self.path());
            }
            Mode::Look(since, before)
                if since + self.rounds(2) <= now && !self.looks_on(now, since) =>
            {
                self.looked(now, ack, before);
            }
            Mode::Drain(end) if ack.in_flight <= self.window() || ack.delivered >= end => {
                self.mode = Mode::Verify(now, Size(2 * self.window().0));
            }
            // Urgent bytes filled the path meanwhile: what stands is ours.
            Mode::Verify(since, full) if ack.sent_at >= since && ack.ahead() > full => {
                self.settled(now);
            }
            Mode::Verify(since, _) if ack.sent_at >= since => {
                self.verified(now, RouteChange::new(now, since, ack.rtt));
            }
            Mode::Doubt(doubt) if ack.sent_at >= doubt.since => {
                self.verified(now, doubt.with(ack.rtt));
            }
            _ => {}
        }
    }

    /// Time from the end of a look to the next one.
    fn look_period(&self) -> Duration {
        // While no queue shows, the rate may be more than we know.
        let is_known = self.boost <= 1.0;
        if self.is_patient && is_known { self.rounds(PATIENT_ROUNDS) } else { LOOK_PERIOD }
    }

    /// Whether a look that began at `since` goes on for the sake of live records.
    fn looks_on(&self, now: Time, since: Time) -> bool {
        let is_left_over = self.trips.queue() > LEFT_OVER * self.target();
        self.is_patient && !is_left_over && now < since + PATIENT_PERIOD
    }

    /// A look is over: what stands now did not come from us.
    fn looked(&mut self, now: Time, ack: &Ack, before: f64) {
        self.mode = Mode::Steady;
        self.rest(now);
        if self.trips.queue() > LEFT_OVER * self.target() {
            self.drain(ack);
            return;
        }
        self.sound_rate = self.rate.get();
        if self.path() < before * LOOK_AGAIN {
            self.mode = Mode::Look(now, self.path());
        }
    }

    fn drain(&mut self, ack: &Ack) {
        self.mode = Mode::Drain(ack.delivered + ack.in_flight);
    }

    /// Bytes crossed the path while nearly none of ours was on it.
    fn verified(&mut self, now: Time, doubt: RouteChange) {
        let path = self.path();
        if doubt.least() - path > LEFT_OVER * self.target() {
            if !doubt.is_over(now) {
                self.mode = Mode::Doubt(doubt);
                return;
            }
            // The queue is not ours, or the path became longer: either way it takes so long now. If it is
            // the path, the rate fell for want of a window; if the link was silent, it did fall.
            let before = self.standing.rate_before().unwrap_or(self.sound_rate);
            let rate = if doubt.is_agreed(path) { before } else { 0.0 };
            if self.is_restless() {
                self.target.drained_in_vain(doubt.least() - path);
            }
            self.trips.restart(doubt.least());
            self.rate.restart(now, rate.max(self.rate.get()));
        }
        self.settled(now);
    }

    /// The path is as long as we think.
    fn settled(&mut self, now: Time) {
        self.standing.clear();
        self.mode = Mode::Steady;
        self.looked_at = now;
        self.rest(now);
    }
}

impl RateController for Tide {
    fn acked(&mut self, now: Time, ack: &Ack) {
        let held = self.time_of(ack.newly.as_f64() - CUT_MIN.as_f64());
        self.trips.push(now, ack.rtt.as_secs_f64(), held);
        self.acked.push(now, ack.delivered, self.rounds(2));
        let may_only_raise = ack.app_limited || self.mode != Mode::Steady;
        if !may_only_raise {
            self.proven_at = now;
        }
        self.rate.push(now, ack, may_only_raise);
        self.target.age(now);
        let round = self.rounds(1);
        if ack.lost > Size::ZERO {
            self.swing.lost(now + round * 3);
        }
        if self.mode == Mode::Steady
            && !self.is_dry()
            && let Some(rate) = self.acked.rate_over(round)
        {
            // With a queue all the time, what came in a round trip is what the path carries, however little was sent before.
            self.swing.push(now, round, rate);
            if self.is_restless() {
                self.rate.raise(rate);
            }
        }
        self.probe(now);
        let queue_and_target = [self.trips.queue(), self.target()];
        self.standing.push(now, queue_and_target, self.rate.get(), self.is_restless());
        let is_too_long = self.standing.is_too_long(now, round);
        // While little of ours is under way, few bytes come because few were sent.
        let may_fall = !matches!(self.mode, Mode::Doubt(_));
        if may_fall
            && self.standing.is_sure(now, round)
            && let Some(rate) = self.acked.rate_over(round * 2)
        {
            self.rate.restart(now, rate);
        }
        self.change_mode(now, ack, is_too_long);
    }

    fn sent(&mut self, now: Time, bytes: Size, _in_flight: Size) {
        self.target.sent(now, bytes);
    }

    fn patient(&mut self, is_patient: bool) {
        self.is_patient = is_patient;
    }

    fn urgent(&mut self, bound: Option<Duration>) {
        self.target.bound = bound.map(|bound| bound.as_secs_f64());
    }

    fn tick(&mut self, now: Time) {
        if self.proven_at + UNPROVEN_PERIOD <= now {
            self.proven_at = now;
            // What a fresh start would use is never too much.
            let floor = self.rate.get().min(WINDOW_START / self.path());
            self.rate.restart(now, (self.rate.get() / 2.0).max(floor));
        }
    }

    fn rate(&self) -> Rate {
        Rate::new(self.rate.get())
    }

    fn window(&self) -> Size {
        let path = self.path();
        let content = match self.mode {
            Mode::Steady => path * self.boost + self.target(),
            // What the path holds, and a piece on its way to the wire: more would stand below.
            Mode::Look(..) if self.is_patient => path + self.time_of(self.target.piece()),
            Mode::Look(..) => path * LOOK_GAIN,
            Mode::Drain(_) | Mode::Verify(..) | Mode::Doubt(_) => path * DRAIN_GAIN,
        };
        // In the first round trip the rate grows from one packet's to the first window's.
        let least = match self.mode {
            _ if self.rate.is_young() => WINDOW_START,
            // Where the least window is larger than what the path seems to hold, it must grow as well.
            Mode::Steady => WINDOW_MIN * self.boost,
            _ => WINDOW_MIN,
        };
        Size((self.rate.get() * content).clamp(least, WINDOW_MAX) as u64)
    }

    fn pace(&self) -> Rate {
        if self.rate.get() <= 0.0 {
            return Rate::ZERO;
        }
        // A small window may leave in one round trip, or a low estimate would never be corrected.
        let least = WINDOW_MIN / (self.path() + self.target());
        let is_held = self.calm < CALM_ROUNDS && !self.is_restless();
        let gain = if is_held { PACE_GAIN.0 } else { PACE_GAIN.1 };
        Rate::new(gain * self.rate.get().max(least))
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.trips.least().map(Duration::from_secs_f64)
    }

    fn next_timeout(&self) -> Option<Time> {
        (self.rate.get() > 0.0).then_some(self.proven_at + UNPROVEN_PERIOD)
    }
}
