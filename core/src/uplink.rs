//! One uplink: its law of capacity, its pacer, and the exact count of bytes below the scheduler.

use std::collections::VecDeque;
use std::time::Duration;

use crate::capacity::{Ack, Law, LawName};
use crate::io::PathSample;
use crate::limits::{CUT_MAX, CUT_MIN};
use crate::pace::{Pacer, cut_size};
use crate::units::{Rate, Size, Time};

/// How far back the delivered bytes are remembered: longer than any round trip that can be used.
const HISTORY: Duration = Duration::from_secs(10);
/// Bound on the remembered points: one each 2 ms.
const HISTORY_MAX: usize = 5000;

/// Bytes of one path.
#[derive(Clone, Copy, Debug, Default)]
struct PathBytes {
    /// Picked and not yet reported as handed to the path.
    picked: Size,
    /// Handed to the path and not acknowledged.
    below: Size,
    /// Acknowledged since the path came up.
    delivered: Size,
    lost: Size,
    unsent: Size,
}

/// The state of one uplink.
#[derive(Debug)]
pub struct Uplink {
    law: Box<dyn Law>,
    /// No network below: nothing acknowledges bytes, so bytes handed over are gone.
    is_local: bool,
    pacer: Pacer,
    paths: Vec<PathBytes>,
    delivered: Size,
    /// Acknowledged and found lost since the law was last told: a sample without a round trip is not
    /// told, and must not take these with it.
    newly: Size,
    lost: Size,
    /// (time, delivered) points, oldest first: to find what was delivered when a byte was sent.
    history: VecDeque<(Time, Size)>,
    /// Acknowledgements up to here were sent while there was nothing more to send.
    limited_upto: Size,
    rtt: Option<Duration>,
}

impl Uplink {
    /// An uplink with this law and so many paths.
    pub fn new(name: LawName, law: Box<dyn Law>, paths: usize) -> Self {
        Uplink {
            law,
            is_local: name == LawName::Unlimited,
            pacer: Pacer::default(),
            paths: vec![PathBytes::default(); paths],
            delivered: Size::ZERO,
            newly: Size::ZERO,
            lost: Size::ZERO,
            history: VecDeque::new(),
            limited_upto: Size::ZERO,
            rtt: None,
        }
    }

    /// Bytes below the scheduler.
    pub fn in_flight(&self) -> Size {
        self.paths.iter().map(|path| path.picked + path.below).sum()
    }

    /// Bytes picked for a path and not yet reported as handed over.
    pub fn picked(&self, path: usize) -> Size {
        self.paths[path].picked
    }

    /// The size of one cut at the present rate.
    pub fn cut(&self) -> Size {
        // Where there is no network below, there is no wire that a large cut could hold up.
        if self.is_local { CUT_MAX } else { cut_size(self.law.rate()) }
    }

    /// Whether a piece may go now. An urgent one may overdraw the window by a cut and skips the pacer:
    /// it would wait longer here than below.
    pub fn is_free(&self, now: Time, piece: Size, is_urgent: bool) -> bool {
        let in_flight = self.in_flight();
        if in_flight == Size::ZERO {
            // Whatever the window is, one piece at a time always passes.
            return is_urgent || self.pacer.next_free(now, self.law.pace()) <= now;
        }
        let window = self.law.window();
        if is_urgent {
            return in_flight + piece <= window + self.cut();
        }
        in_flight + piece <= window && self.pacer.next_free(now, self.law.pace()) <= now
    }

    /// When the pacer lets the next piece go; `None` where the window is closed, for then only an
    /// acknowledgement helps.
    pub fn next_free(&self, now: Time, piece: Size) -> Option<Time> {
        let in_flight = self.in_flight();
        let is_open = in_flight == Size::ZERO || in_flight + piece <= self.law.window();
        is_open.then(|| self.pacer.next_free(now, self.law.pace()))
    }

    /// A piece was picked for a path.
    pub fn picked_for(&mut self, now: Time, path: usize, piece: Size) {
        self.paths[path].picked += piece;
        self.pacer.spend(now, self.law.pace(), piece);
        let in_flight = self.in_flight();
        self.law.sent(now, piece, in_flight);
    }

    /// The driver handed a piece to the path as so many bytes.
    pub fn handed(&mut self, path: usize, piece: Size, bytes: Size) {
        let path = &mut self.paths[path];
        path.picked = path.picked.saturating_sub(piece);
        if !self.is_local {
            path.below += bytes;
        }
    }

    /// Byte-level feedback of a path.
    pub fn sample(&mut self, now: Time, path: usize, sample: &PathSample) {
        let bytes = &mut self.paths[path];
        let newly = sample.delivered.saturating_sub(bytes.delivered);
        let lost = sample.lost.saturating_sub(bytes.lost);
        bytes.delivered = bytes.delivered.max(sample.delivered);
        bytes.lost = bytes.lost.max(sample.lost);
        bytes.below = sample.in_flight;
        bytes.unsent = sample.unsent;
        self.delivered += newly;
        self.newly += newly;
        self.lost += lost;
        let Some(rtt) = sample.rtt else { return };
        self.rtt = Some(rtt);
        let sent_at = now - rtt;
        let ack = Ack {
            rtt,
            sent_at,
            delivered_at_send: self.delivered_at(sent_at),
            delivered: self.delivered,
            newly: std::mem::take(&mut self.newly),
            in_flight: self.in_flight(),
            unsent: self.paths.iter().map(|path| path.unsent).sum(),
            lost: std::mem::take(&mut self.lost),
            app_limited: self.delivered <= self.limited_upto,
        };
        self.remember(now);
        self.law.acked(now, &ack);
    }

    /// There is nothing to send. Where there is room below, what is in flight measures us and not the
    /// uplink.
    pub fn idle(&mut self) {
        let in_flight = self.in_flight();
        if in_flight + CUT_MIN <= self.law.window() {
            self.limited_upto = self.delivered + in_flight;
        }
    }

    /// A path went down: nothing of it is below any more.
    pub fn path_down(&mut self, path: usize) {
        self.paths[path] = PathBytes::default();
    }

    /// Time passes.
    pub fn tick(&mut self, now: Time) {
        if self.law.next_timeout().is_some_and(|at| at <= now) {
            self.law.tick(now);
        }
    }

    /// When `tick` must be called next.
    pub fn next_timeout(&self) -> Option<Time> {
        self.law.next_timeout()
    }

    /// The estimated capacity; zero while unknown.
    pub fn capacity(&self) -> Rate {
        self.law.rate()
    }

    /// The rate at which bytes may be handed over; zero where nothing but the window holds them back.
    pub fn pace(&self) -> Rate {
        self.law.pace()
    }

    /// Bytes that may be below the scheduler.
    pub fn window(&self) -> Size {
        self.law.window()
    }

    /// The smallest round trip seen on the present path.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.law.min_rtt()
    }

    /// The newest round trip.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    fn remember(&mut self, now: Time) {
        self.history.push_back((now, self.delivered));
        let is_old = |&(at, _): &(Time, Size)| at + HISTORY < now;
        while self.history.len() > HISTORY_MAX || self.history.front().is_some_and(is_old) {
            self.history.pop_front();
        }
    }

    fn delivered_at(&self, time: Time) -> Size {
        match self.history.partition_point(|&(at, _)| at <= time) {
            0 => self.history.front().map_or(Size::ZERO, |&(_, delivered)| delivered),
            after => self.history[after - 1].1,
        }
    }
}
