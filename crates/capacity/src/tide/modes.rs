//! What `tide` does about a queue that lasts, and how it looks for a shorter path.
//! Source: own (docs/ALGORITHMS.md#tide).
//! Inputs: acknowledgements. Outputs: the mode of `tide`.
//! Deviations: none.
//! Limits: constant memory, O(1) an acknowledgement.

use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::{Mode, Tide};
use crate::Ack;
use crate::controller::RateController;
use crate::route_change::RouteChange;

/// Time between two looks for a shorter path.
const LOOK_PERIOD: Duration = Duration::from_secs(5);
/// A look that shortens the path by more than this part is worth another.
const LOOK_AGAIN: f64 = 0.98;
/// For how long a look lasts while a backlog is sent; less than `UNPROVEN_PERIOD`.
const PATIENT_PERIOD: Duration = Duration::from_secs(8);
/// Round trips between two such looks: a queue stands and proves the rate.
const PATIENT_ROUNDS: u32 = 4;
/// A queue above this part of the target, left over when ours is gone, is not ours.
const LEFT_OVER: f64 = 0.5;

impl Tide {
    pub(crate) fn change_mode(&mut self, now: Time, ack: &Ack) {
        let is_too_long = self.standing.is_too_long(now, self.rounds(1));
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
        let is_left = doubt.least() - path > LEFT_OVER * self.target();
        if is_left {
            if !doubt.is_over(now) {
                self.mode = Mode::Doubt(doubt);
                return;
            }
            // The queue is not ours, or the path became longer: either way it takes so long now. If it is
            // the path, the rate fell for want of a window; if the link was silent, it did fall.
            let sound = self.standing.rate_before().unwrap_or(self.sound_rate);
            let rate = if doubt.is_agreed(path) { sound } else { 0.0 };
            if self.swing.is_restless() {
                self.target.drained_in_vain(doubt.least() - path);
            }
            self.trips.restart(doubt.least());
            self.rate.restart(now, rate.max(self.rate.get()));
        }
        self.settled(now);
    }

    /// The path is as long as we think.
    pub(crate) fn settled(&mut self, now: Time) {
        self.standing.clear();
        self.mode = Mode::Steady;
        self.looked_at = now;
        self.rest(now);
    }
}
