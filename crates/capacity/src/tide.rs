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
//!
//! A path whose rate swings while a queue stands is restless: each fade would start a drain, so it is drained and paced less.

mod modes;
mod start;
#[cfg(test)]
mod tests;

use std::time::Duration;

use tidegate_types::limits::CUT_MIN;
use tidegate_types::units::{Rate, Size, Time};

use super::carried::Carried;
use super::delivery_rate::DeliveryRate;
use super::losses::{Heard, Losses};
use super::max_rate::MaxRate;
use super::peak::Peak;
use super::round_trip::RoundTrips;
use super::route_change::RouteChange;
use super::standing_queue::Standing;
use super::swing::Swing;
use super::target::{Target, WINDOW_START};

use self::start::Start;
use crate::controller::{Ack, Build, KnownRates, RateController};

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
/// Round trips of which the rate is compared with that of those before.
const SWING_ROUNDS: u32 = 3;
/// Part of the path's content in flight during a look.
const LOOK_GAIN: f64 = 0.95;
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

/// A window within its bounds, bytes.
pub(super) fn bounded(bytes: f64) -> Size {
    Size(bytes.clamp(WINDOW_MIN, WINDOW_MAX) as u64)
}

/// How one is made.
pub(crate) const ENTRY: Build = |known| Box::new(Tide::new(known));

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
    peak: Peak,
    losses: Losses,
    pub(super) carried: Carried,
    start: Start,
    mode: Mode,
    looked_at: Time,
    /// Whether most of what is sent is a backlog.
    is_patient: bool,
    /// When the rate was last proven, or halved for want of proof.
    proven_at: Time,
}

impl Tide {
    /// A rate controller that knows nothing but perhaps a rate of an earlier run, of which it starts with half.
    pub(super) fn new(known: KnownRates) -> Self {
        let KnownRates { remembered, queue, has_own_start, .. } = known;
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
            peak: Peak::new(),
            losses: Losses::new(),
            carried: Carried::default(),
            start: Start::new(!has_own_start),
            mode: Mode::Steady,
            looked_at: Time::ZERO,
            is_patient: false,
            proven_at: Time::ZERO,
        }
    }

    /// The shortest round trip, seconds.
    pub(super) fn path(&self) -> f64 {
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
        let target = self.target.get(self.path(), self.rate.get(), self.swing.is_restless());
        target + JITTER_GAIN * self.trips.jitter()
    }

    /// The same without jitter, at the rate that the link had for us alone: a rate that falls must not make it long.
    pub(super) fn whole_target(&self) -> f64 {
        self.target.get(self.path(), self.carried.get(), self.swing.is_restless())
    }

    /// The queue that stands, seconds.
    pub(super) fn queue(&self) -> f64 {
        self.trips.queue()
    }

    /// Bytes/s that came in the last so long.
    pub(super) fn came_in(&self, span: Duration) -> f64 {
        self.acked.rate_over(span).unwrap_or_default()
    }

    /// Whether a queue has stood for so many round trips.
    pub(super) fn stands_for(&self, now: Time, rounds: u32) -> bool {
        self.standing.is_sure(now, self.rounds(rounds))
    }

    /// Whether it neither drains the path nor looks for a shorter one.
    pub(super) fn is_steady(&self) -> bool {
        self.mode == Mode::Steady
    }

    /// The path is so long now, seconds.
    pub(super) fn restart_path(&mut self, path: f64) {
        self.trips.restart(path);
    }

    /// Whether no queue shows.
    fn is_dry(&self) -> bool {
        let jitter = self.trips.jitter();
        self.trips.queue() < NO_QUEUE * (self.target() - jitter) + jitter
    }

    /// Grows the window while no queue shows.
    fn probe(&mut self, now: Time, is_app_limited: bool) {
        if !self.is_dry() {
            (self.boost, self.calm) = (1.0, 0);
            self.start.queued(self.trips.queue(), self.target());
        } else if self.mode == Mode::Steady && self.boosted_at + self.rounds(1) <= now {
            self.boosted_at = now;
            self.boost = (self.boost * BOOST.0).min(BOOST.1);
            self.calm = self.calm.saturating_add(1);
            self.start.calm_round(self.rate.get(), is_app_limited);
        }
    }

    /// The queue is empty because we drained it: no reason to probe before it can be back.
    fn rest(&mut self, now: Time) {
        (self.boost, self.calm) = (1.0, 0);
        self.boosted_at = now + self.rounds(1) / 2;
    }

    /// What lost bytes say; answers with the queue in seconds, if it overflowed.
    fn heed_losses(&mut self, now: Time, ack: &Ack) -> Option<f64> {
        if ack.lost > Size::ZERO {
            self.swing.lost(now + self.rounds(1) * SWING_ROUNDS);
            self.start.lost(ack.is_timeout);
        }
        let (path, rate) = (self.path(), self.rate.get());
        let overflow =
            self.losses.push(now, Heard { ack, path, target: self.whole_target(), rate });
        self.start.overflowed(overflow.is_some());
        overflow
    }

    /// The rate that the window is for: on a restless path that is empty at times also what it carried a moment ago.
    fn wide(&self) -> f64 {
        let rate = self.rate.get();
        let is_wide = self.swing.is_restless() && self.losses.room().is_none();
        if is_wide { rate + self.peak.above(rate) } else { rate }
    }

    /// Takes an acknowledgement, but for what is done about a queue that lasts; answers with the queue in seconds, if it overflowed.
    /// `is_contested`: somebody else may fill the queue, so a rate that fell must not make a longer target.
    pub(super) fn observe(&mut self, now: Time, ack: &Ack, is_contested: bool) -> Option<f64> {
        let held = self.time_of(ack.newly.as_f64() - CUT_MIN.as_f64());
        self.trips.push(now, ack.rtt.as_secs_f64(), held);
        self.acked.push(now, ack.delivered, self.rounds(SWING_ROUNDS + 1));
        let may_only_raise = ack.app_limited || self.mode != Mode::Steady;
        if !may_only_raise {
            self.proven_at = now;
        }
        let round = self.rounds(1);
        let overflow = self.heed_losses(now, ack);
        self.rate.push(now, ack, may_only_raise);
        let most = self.losses.most(now, round, self.rate.get());
        if let Some(rate) = self.start.acked(now, ack, self.path()) {
            self.rate.raise(rate);
        }
        self.rate.limit(most);
        self.target.age(now);
        let is_ours = self.mode == Mode::Steady && !ack.app_limited;
        self.peak.heard(now, is_ours.then(|| self.is_dry()));
        if let Some(rate) = ack.delivery_rate(now) {
            self.peak.push(now, round, rate.min(most));
        }
        if self.mode == Mode::Steady
            && !self.is_dry()
            && let Some(rate) = self.acked.rate_over(round * SWING_ROUNDS)
        {
            // With a queue all the time, what came is what the path carries, however little was sent before.
            self.swing.push(now, round * SWING_ROUNDS, rate);
            if self.swing.is_restless() {
                self.rate.raise(rate);
            }
        }
        self.probe(now, ack.app_limited);
        let target = match is_contested {
            true => self.whole_target() + self.trips.jitter(),
            false => self.target(),
        };
        let queue_and_target = [self.trips.queue(), target];
        self.standing.push(now, queue_and_target, self.rate.get(), self.swing.is_restless());
        // While little of ours is under way, few bytes come because few were sent.
        let may_fall = !matches!(self.mode, Mode::Doubt(_));
        if may_fall
            && self.standing.is_sure(now, round)
            && let Some(rate) = self.acked.rate_over(round * 2)
        {
            self.rate.restart(now, rate.min(most));
        }
        overflow
    }

    /// While no queue stands the rate is what the link carries, or a part where somebody else was here a moment ago. One from lumps
    /// would be too large.
    pub(super) fn learn(&mut self, now: Time, is_shared: bool) {
        if self.standing.is_sure(now, self.rounds(1)) || self.losses.is_limiting() {
            return;
        }
        match is_shared {
            true => self.carried.shared(now, self.rate.get()),
            false => self.carried.alone(now, self.rate.get()),
        }
    }
}

impl RateController for Tide {
    fn acked(&mut self, now: Time, ack: &Ack) {
        self.observe(now, ack, false);
        self.learn(now, false);
        self.change_mode(now, ack);
    }

    fn sent(&mut self, now: Time, bytes: Size, _in_flight: Size) {
        self.target.sent(now, bytes);
        self.start.sent(now, bytes, self.rate.get());
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
            // A start that grows again from there is not at its end.
            self.start.grows_from(self.rate.get());
        }
    }

    fn rate(&self) -> Rate {
        Rate::new(self.rate.get())
    }

    fn window(&self) -> Size {
        let path = self.path();
        let content = match self.mode {
            Mode::Steady if self.start.is_on() => path + self.start.beyond(path, self.target()),
            Mode::Steady => {
                let content = path * self.boost + self.target();
                self.losses.room().map_or(content, |room| content.min(path + room))
            }
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
        let wide = if self.is_steady() { self.wide() * (path + self.target()) } else { 0.0 };
        Size((self.rate.get() * content).max(wide).clamp(least, WINDOW_MAX) as u64)
    }

    fn pace(&self) -> Rate {
        let starts =
            self.start.pace(self.rate.get(), self.path()).filter(|_| self.losses.room().is_none());
        if let Some(pace) = starts {
            return Rate::new(pace);
        }
        // A small window may leave in one round trip, or a low estimate would never be corrected.
        let least = WINDOW_MIN / (self.path() + self.target());
        let is_held = self.calm < CALM_ROUNDS && !self.swing.is_restless();
        let gain = match self.losses.room() {
            None if !is_held => PACE_GAIN.1,
            _ => PACE_GAIN.0,
        };
        Rate::new(gain * self.wide().max(least))
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.trips.least().map(Duration::from_secs_f64)
    }

    fn next_timeout(&self) -> Option<Time> {
        (self.rate.get() > 0.0).then_some(self.proven_at + UNPROVEN_PERIOD)
    }
}
