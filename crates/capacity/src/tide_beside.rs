//! `tide`, holding a part of the link beside loss-based flows that fill a tail-drop queue.
//! Source: own (docs/ALGORITHMS.md#tide, docs/decisions/0142).
//! Inputs: as `tide`. Outputs: as `tide`.
//! Deviations: none.
//! Limits: as `tide`; three or more on one line keep its queue full (`rival.rs`).

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use super::Ack;
use super::controller::{Build, RateController};
use super::rival::{Rival, Rivalry, Seen};
use super::tide::Tide;

/// Round trips for which a queue stands before it may be a rival's.
const STANDING_ROUNDS: u32 = 2;
/// For so long a path that became longer may turn out to be a rival's queue.
const LONGER_PERIOD: Duration = Duration::from_secs(30);
/// Pace over what is held.
const PACE_GAIN: f64 = 1.25;

/// How one is made.
pub(crate) const ENTRY: Build = |known| {
    let mut tide = Tide::new(known);
    // Beside a rival that is here first nothing else says what the link carries.
    if let Some(rate) = known.remembered {
        tide.carried.found(Time::ZERO, rate.as_f64());
    }
    Box::new(TideBeside::new(tide))
};

/// The rate controller's state.
#[derive(Debug)]
struct TideBeside {
    tide: Tide,
    rival: Rival,
    /// When the path became longer, and how long it was before, seconds.
    longer: Option<(Time, f64)>,
    now: Time,
}

impl TideBeside {
    fn new(tide: Tide) -> Self {
        TideBeside { tide, rival: Rival::default(), longer: None, now: Time::ZERO }
    }

    /// Where a long queue overflowed, what seemed a longer path a moment ago was a rival's queue.
    fn overflowed(&mut self, now: Time, queue: f64) {
        let path = self.tide.path();
        let before = self.longer.filter(|(at, _)| *at + LONGER_PERIOD > now);
        let base = before.map_or(path, |(_, before)| before.min(path));
        self.rival.overflowed(now, queue + path - base);
        if base < path {
            self.longer = None;
            self.tide.restart_path(base);
            self.comes(now);
        }
    }

    fn comes(&mut self, now: Time) {
        self.tide.settled(now);
        self.rival.comes(now, self.tide.rate().as_f64(), self.tide.carried.get());
    }

    /// What a rival makes of an acknowledgement; whether there is one.
    fn contests(&mut self, now: Time, ack: &Ack) -> bool {
        if self.rival.held().is_none() {
            let comes = self.rival.is_likely(now) && self.tide.stands_for(now, STANDING_ROUNDS);
            if comes {
                self.comes(now);
            }
            return comes;
        }
        let (path, queue) = (self.tide.path(), self.tide.queue());
        let rate = self.tide.came_in(Duration::from_secs_f64(path * 2.0 + queue));
        let (target, carried) = (self.tide.whole_target(), self.tide.carried.get());
        self.tide.carried.hidden(now);
        match self.rival.acked(now, ack, Seen { path, queue, target, rate, carried }) {
            Rivalry::Lasts => return true,
            Rivalry::Carries(rate) => {
                self.tide.carried.shared(now, rate);
                return true;
            }
            Rivalry::Over => {}
            Rivalry::Alone(rate) => self.tide.carried.found(now, rate),
            Rivalry::LongerPath => self.tide.restart_path(path + queue),
        }
        self.tide.settled(now);
        false
    }

    /// What `tide` does about a queue that lasts; what may be a rival's is not drained.
    fn change_mode(&mut self, now: Time, ack: &Ack) {
        let is_likely = self.rival.is_likely(now);
        if is_likely && self.tide.is_steady() {
            return;
        }
        let path = self.tide.path();
        self.tide.change_mode(now, ack);
        if self.tide.path() > path && is_likely {
            self.tide.restart_path(path);
        } else if self.tide.path() > path {
            let before = self.longer.filter(|(at, _)| *at + LONGER_PERIOD > now);
            self.longer = Some((now, before.map_or(path, |(_, before)| before.min(path))));
        }
    }
}

impl RateController for TideBeside {
    fn acked(&mut self, now: Time, ack: &Ack) {
        self.now = now;
        let is_likely = self.rival.is_likely(now);
        if let Some(queue) = self.tide.observe(now, ack, is_likely) {
            self.overflowed(now, queue);
        }
        if !self.contests(now, ack) {
            self.tide.learn(now, self.rival.was_here(now));
            self.change_mode(now, ack);
        }
    }

    fn sent(&mut self, now: Time, bytes: Size, in_flight: Size) {
        self.now = now;
        self.tide.sent(now, bytes, in_flight);
    }

    fn tick(&mut self, now: Time) {
        self.tide.tick(now);
    }

    fn patient(&mut self, is_patient: bool) {
        self.tide.patient(is_patient);
    }

    fn urgent(&mut self, bound: Option<Duration>) {
        self.tide.urgent(bound);
    }

    fn rate(&self) -> Rate {
        self.tide.rate()
    }

    fn window(&self) -> Size {
        let Some(held) = self.rival.held() else { return self.tide.window() };
        let part = 1.0 - self.rival.dip(self.now);
        super::tide::bounded(held * part * (self.tide.path() + self.tide.queue()))
    }

    fn pace(&self) -> Rate {
        let held = self.rival.held().unwrap_or_default();
        self.tide.pace().max(Rate::new(PACE_GAIN * held))
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.tide.min_rtt()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.tide.next_timeout()
    }
}
