//! How long the queue is that should stand: short for an urgent record, long enough that the wire is never idle.

use std::time::Duration;

use tidegate_types::limits::CUT_MIN;
use tidegate_types::units::{Size, Time};

use super::window_filter::{Extreme, WindowFilter};

/// The target queue is this part of the round trip, within bounds in seconds. A fixed one would overflow
/// the queues of fast short links.
const BY_PATH: (f64, f64, f64) = (0.15, 0.003, 0.020);
/// The upper bound where nothing that was sent lately has a bound on latency below the first number, on a restless path: nobody
/// waits, and such a path carries more.
const RELAXED: (f64, f64) = (0.5, 0.035);
/// What a drain leaves is added: such a path has queues or delays that are not ours, and draining for them costs more than it
/// shows. The most, and the time after which a third of it is left, in seconds.
const VAIN: (f64, f64) = (0.050, 20.0);
/// One and a half of our largest pieces must fit in the target, which grows to this at most: otherwise a
/// slow or short path is idle while a piece waits for room.
const BY_PIECES_MAX: f64 = 0.050;
/// Time over which a piece counts as the largest.
const PIECE_PERIOD: Duration = Duration::from_millis(500);

/// First window: what TCP sends at first (RFC 6928).
pub(super) const WINDOW_START: f64 = 14_600.0;

/// How long a queue stands below the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueBelow {
    /// A part of the round trip, within bounds; more where the path swings and nobody waits.
    #[default]
    Auto,
    /// So long, and jitter.
    Fixed(Duration),
}

/// The target, without jitter.
#[derive(Debug)]
pub(super) struct Target {
    queue: QueueBelow,
    /// The tightest bound of what was sent lately, seconds.
    pub(super) bound: Option<f64>,
    /// Seconds that drains in vain have added, and when that was last true.
    vain: (f64, Time),
    /// The largest piece of the last half second, bytes.
    pieces: WindowFilter,
}

impl Target {
    pub(super) fn new(queue: QueueBelow) -> Self {
        let pieces = WindowFilter::new(Extreme::Max);
        Target { queue, bound: None, vain: (0.0, Time::ZERO), pieces }
    }

    /// A piece was sent.
    pub(super) fn sent(&mut self, now: Time, bytes: Size) {
        let period = PIECE_PERIOD.as_nanos() as u64;
        self.pieces.push(now.as_nanos(), period, bytes.as_f64());
    }

    /// The largest piece of late, bytes.
    pub(super) fn piece(&self) -> f64 {
        self.pieces.get().unwrap_or_default()
    }

    /// Time passes.
    pub(super) fn age(&mut self, now: Time) {
        let (seconds, since) = self.vain;
        self.vain = (seconds * (-now.since(since).as_secs_f64() / VAIN.1).exp(), now);
    }

    /// A drain left a queue of so many seconds.
    pub(super) fn drained_in_vain(&mut self, left: f64) {
        self.vain.0 = self.vain.0.max(left.min(VAIN.0));
    }

    /// The target in seconds, on a path of so many, at a rate of bytes/s.
    pub(super) fn get(&self, path: f64, rate: f64, is_restless: bool) -> f64 {
        let by_path = match self.queue {
            QueueBelow::Auto => {
                let is_wide = self.bound.is_some_and(|bound| bound >= RELAXED.0);
                let vain = if is_restless { self.vain.0 } else { 0.0 };
                let most = if is_wide && is_restless { RELAXED.1 } else { BY_PATH.2 };
                (path * BY_PATH.0).clamp(BY_PATH.1, most) + vain
            }
            QueueBelow::Fixed(span) => span.as_secs_f64(),
        };
        let pieces = 1.5 * self.piece().max(CUT_MIN.as_f64());
        let by_pieces = if rate > 0.0 { (pieces / rate).min(BY_PIECES_MAX) } else { 0.0 };
        by_path.max(by_pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a path of 300 ms, so fast that pieces take no time.
    fn of(target: &Target, is_restless: bool) -> f64 {
        target.get(0.3, 1e9, is_restless)
    }

    #[test]
    fn it_is_long_only_where_nobody_waits_and_the_path_is_restless() {
        let mut target = Target::new(QueueBelow::Auto);
        assert_eq!([of(&target, true), target.get(0.04, 1e9, true)], [0.020, 0.006]);
        target.bound = Some(1.0);
        assert_eq!([of(&target, true), of(&target, false)], [0.035, 0.020]);
        target.bound = Some(0.05);
        assert_eq!(of(&target, true), 0.020);
        target.sent(Time::ZERO, Size(2000));
        assert_eq!(target.get(0.2, 1e5, false), 0.030);
        assert_eq!(Target::new(QueueBelow::Fixed(PIECE_PERIOD)).get(0.2, 1e9, false), 0.5);
    }

    #[test]
    fn a_drain_in_vain_is_remembered_for_a_while() {
        let mut target = Target::new(QueueBelow::Auto);
        target.age(Time::from_millis(1000));
        target.drained_in_vain(0.5);
        target.drained_in_vain(0.01);
        assert_eq!(of(&target, true), 0.020 + VAIN.0);
        target.age(Time::from_millis(121_000));
        assert!(of(&target, true) < 0.021);
    }
}
