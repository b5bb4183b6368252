//! What lost bytes say: how long the buffer below is, and that lumps of acknowledgements are no rate.
//! Source: own (docs/ALGORITHMS.md#tide).
//! Inputs: acknowledgements, the rate. Outputs: overflows, the most that the rate may be.
//! Deviations: none.
//! Limits: constant memory, O(1) an acknowledgement.

use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::Ack;
use super::target::WINDOW_START;
use super::window_filter::{Extreme, WindowFilter};

/// Round trips over which the longest queue before a loss is sought.
const PEAK_ROUNDS: u32 = 2;
/// A loss after a queue of so many targets is an overflow; else it is the path's.
const OVERFLOW: f64 = 1.5;
/// A silence of so many round trips before it is a timeout's, which proves nothing.
const SILENCE: f64 = 2.0;
/// Part of a buffer that overflowed which is used afterwards, and for how long.
const ROOM: (f64, Duration) = (0.7, Duration::from_secs(30));
/// Round trips after a loss in which the rate grows by no more than this in each. What comes in order waits for what was lost and
/// is acknowledged in a lump, which on an uplink of two paths looks like a multiple of the rate.
const LIMITED: (u32, f64) = (2, 1.05);
/// Round trips after which it ends although packets are still lost, and for which it does not begin again: where they are lost all
/// the time a link that became faster is found as well.
const LIMITED_MOST: u32 = 8;

/// The rate of before a loss, which it exceeds slowly.
#[derive(Clone, Copy, Debug)]
struct Limit {
    since: Time,
    until: Time,
    most: f64,
    /// What a fresh start sends is never too much.
    least: f64,
    grown_at: Time,
}

/// Losses of one uplink.
#[derive(Debug)]
pub(super) struct Losses {
    heard_at: Time,
    /// Queues of late, seconds.
    peak: WindowFilter,
    /// When a buffer overflowed, and how long it was, seconds.
    buffer: Option<(Time, f64)>,
    limit: Option<Limit>,
    /// Until then no loss limits the rate.
    free_until: Time,
}

/// What one acknowledgement says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard<'a> {
    pub(super) ack: &'a Ack,
    /// The shortest round trip, seconds.
    pub(super) path: f64,
    /// How long a queue should stand, seconds.
    pub(super) target: f64,
    /// The rate before it, bytes/s.
    pub(super) rate: f64,
}

impl Losses {
    pub(super) fn new() -> Self {
        let peak = WindowFilter::new(Extreme::Max);
        Losses { heard_at: Time::ZERO, peak, buffer: None, limit: None, free_until: Time::ZERO }
    }

    /// Takes an acknowledgement; answers with the queue in seconds, if it overflowed.
    pub(super) fn push(&mut self, now: Time, heard: Heard) -> Option<f64> {
        let Heard { ack, path, target, rate } = heard;
        let silence = now.since(self.heard_at).as_secs_f64();
        self.heard_at = now;
        let span = |seconds: f64| Duration::from_secs_f64(seconds);
        if self.buffer.is_some_and(|(at, _)| at + ROOM.1 < now) {
            self.buffer = None;
        }
        if ack.lost == Size::ZERO {
            let queue = ack.rtt.as_secs_f64() - path;
            self.peak.push(
                now.as_nanos(),
                span(path * f64::from(PEAK_ROUNDS)).as_nanos() as u64,
                queue,
            );
            return None;
        }
        if ack.is_timeout {
            return None;
        }
        self.limits(now, span(path), rate.max(WINDOW_START / path), WINDOW_START / path);
        let peak = self.peak.get().filter(|peak| silence < SILENCE * (path + peak))?;
        (peak > OVERFLOW * target).then(|| {
            self.buffer = Some((now, peak));
            peak
        })
    }

    /// A loss limits the rate for some round trips: to so much at first, and never to less than `least`.
    fn limits(&mut self, now: Time, path: Duration, most: f64, least: f64) {
        let until = now + path * LIMITED.0;
        self.limit = self.limit.filter(|limit| limit.until >= now);
        match &mut self.limit {
            Some(limit) if limit.since + path * LIMITED_MOST <= now => {
                self.free_until = until + path * LIMITED_MOST;
            }
            Some(limit) => limit.until = until,
            None if self.free_until > now => {}
            None => self.limit = Some(Limit { since: now, until, most, least, grown_at: now }),
        }
    }

    /// The most that a rate may be now, which is so many bytes/s.
    pub(super) fn most(&mut self, now: Time, round: Duration, rate: f64) -> f64 {
        let Some(limit) = self.limit.as_mut().filter(|limit| limit.until >= now) else {
            self.limit = None;
            return f64::MAX;
        };
        if limit.grown_at + round <= now {
            let most = rate.min(limit.most) * LIMITED.1;
            (limit.grown_at, limit.most) = (now, most.max(limit.least));
        }
        limit.most
    }

    /// Whether bytes were lost a moment ago.
    pub(super) fn is_limiting(&self) -> bool {
        self.limit.is_some()
    }

    /// The queue that may stand in a buffer that overflowed lately, seconds.
    pub(super) fn room(&self) -> Option<f64> {
        self.buffer.map(|(_, peak)| peak * ROOM.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(rtt: u64, lost: u64) -> Ack {
        Ack {
            rtt: Duration::from_millis(rtt),
            sent_at: Time::ZERO,
            delivered_at_send: Size::ZERO,
            reached_at: Time::ZERO,
            delivered: Size(1),
            newly: Size(1),
            in_flight: Size(1),
            lost: Size(lost),
            marked: Size::ZERO,
            is_timeout: false,
            app_limited: false,
        }
    }

    fn push(losses: &mut Losses, millis: u64, ack: Ack) -> Option<f64> {
        push_at(losses, millis, ack, 1e6)
    }

    fn push_at(losses: &mut Losses, millis: u64, ack: Ack, rate: f64) -> Option<f64> {
        let heard = Heard { ack: &ack, path: 0.1, target: 0.02, rate };
        losses.push(Time::from_millis(millis), heard)
    }

    #[test]
    fn a_loss_after_a_long_queue_is_an_overflow_unless_a_timer_found_it() {
        let mut losses = Losses::new();
        push(&mut losses, 1000, ack(120, 0));
        assert_eq!(push(&mut losses, 1010, ack(120, 1)), None, "the path loses packets");
        push(&mut losses, 1020, ack(150, 0));
        let timeout = Ack { is_timeout: true, ..ack(150, 1) };
        assert_eq!((push(&mut losses, 1030, timeout), losses.room()), (None, None));
        let found = push(&mut losses, 1040, ack(120, 1)).unwrap();
        assert!((found - 0.05).abs() < 1e-9 && (losses.room().unwrap() - 0.035).abs() < 1e-9);
        push(&mut losses, 31_050, ack(120, 0));
        assert_eq!(losses.room(), None, "it is forgotten");
    }

    #[test]
    fn after_a_loss_the_rate_grows_slowly_for_two_round_trips() {
        let mut losses = Losses::new();
        let round = Duration::from_millis(100);
        let most =
            |losses: &mut Losses, millis, rate| losses.most(Time::from_millis(millis), round, rate);
        assert!(most(&mut losses, 0, 1e6) > 1e9);
        push(&mut losses, 1000, ack(100, 1));
        assert!((most(&mut losses, 1050, 9e6) - 1e6).abs() < 1e-3);
        assert!((most(&mut losses, 1100, 9e6) - 1.05e6).abs() < 1e-3);
        assert!(most(&mut losses, 1201, 1.05e6) > 1e9);
    }

    #[test]
    fn losses_without_end_limit_the_rate_for_half_of_the_time() {
        let mut losses = Losses::new();
        let round = Duration::from_millis(100);
        let mut limited = [0, 0];
        for turn in 10..210 {
            push(&mut losses, turn * 100, ack(100, 1));
            let most = losses.most(Time::from_millis(turn * 100), round, 1e6);
            limited[usize::from(most < 1e9)] += 1;
        }
        assert!(limited.iter().all(|turns| *turns > 60), "{limited:?}");
    }

    #[test]
    fn a_loss_before_any_rate_is_known_does_not_hold_the_rate_at_nothing() {
        let mut losses = Losses::new();
        push_at(&mut losses, 1000, ack(100, 1), 0.0);
        let round = Duration::from_millis(100);
        for millis in [1050, 1100, 1200] {
            assert!(losses.most(Time::from_millis(millis), round, 0.0) >= WINDOW_START / 0.1);
        }
    }
}
