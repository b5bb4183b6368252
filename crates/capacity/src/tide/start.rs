//! The first round trips of `tide`: from nothing to the first queue.
//! Source: slow start (RFC 5681, 3.1); packet trains (Dovrolis et al., INFOCOM 2001); the rest own
//! (docs/ALGORITHMS.md#tide, docs/decisions/0159).
//! Inputs: what is sent, acknowledgements. Outputs: the rate that a train came with and the pace, bytes/s; seconds beyond the path
//! that the window holds.
//! Deviations: a train is the begin of what a round trip carries in any case, and its rate is used at once.
//! Limits: constant memory, O(1) an acknowledgement.

use std::time::Duration;

use tidegate_types::units::{Size, Time};

use crate::Ack;
use crate::target::WINDOW_START;

/// Seconds of queue that the start may make before the first word of it.
const QUEUE: f64 = 0.08;
/// On a longer path than this the window could by far not double; seconds. On one of 80 ms whose queue marks, trains bring the
/// first mark before the rate is found, and 0.78 of 100 Mbit/s were used in place of 0.87 (`lab sim node-l4s`).
const LONG: f64 = 0.09;
/// Pace over rate on a shorter one, where the window doubles.
const SHORT_PACE: f64 = 2.5;
/// On a long path what may queue goes at this pace over the rate, as a train, at the begin of each round trip; the rest goes at
/// the rate. So it shows up to four times the rate, and over 20 ms: four samples of a kernel that is asked each 5 ms.
const TRAIN_PACE: f64 = 4.0;
/// A train that came at less than this part of the pace at which it went was spread by the path: that is what the path carries.
const SPREAD: f64 = 0.75;
/// A train that takes longer to send is none.
const SENT_MOST: Duration = Duration::from_millis(60);
/// A train of which one acknowledgement tells more than this part is not measured: what comes in lumps shows no rate.
const LUMP: f64 = 0.6;
/// Shortest time over which a train is measured, seconds.
const MEASURED: f64 = 0.004;
/// The first train: bytes, its pace, and that of the rest of the first window, bytes/s. On 1 Mbit/s it is a queue of 78 ms, and the
/// rest adds nothing.
const FIRST: (f64, f64, f64) = (11_200.0, 1e6, 125e3);
/// Round trips without a growth of this part that end the start: what holds the rate is somebody's limit and no queue.
const GROWN: (u32, f64) = (3, 1.25);
/// A queue above this part of the target ends the start. Round trips of sparse pieces, seen when somebody looks, differ by less.
const QUEUED: f64 = 0.5;

/// What goes at once at the begin of a round trip.
#[derive(Clone, Copy, Debug)]
struct Train {
    /// When its first piece went, and its last.
    went: [Time; 2],
    sent: f64,
    /// The largest piece, bytes.
    piece: f64,
    /// Bytes that still belong to it.
    left: f64,
    /// The first and the last acknowledgement of it: when, and what was delivered then.
    heard: Option<[(Time, Size); 2]>,
    /// The most that one acknowledgement told, bytes.
    lump: f64,
}

impl Train {
    /// Bytes/s with which it came, and whether the path spread it; `None` where it passed too fast.
    fn shown(&self) -> Option<(f64, bool)> {
        let [first, last] = self.heard?;
        let came_in = last.0.since(first.0).as_secs_f64();
        if came_in < MEASURED || self.lump > LUMP * self.sent {
            return None;
        }
        let bytes = last.1.saturating_sub(first.1).as_f64();
        let went_in = self.went[1].since(self.went[0]).as_secs_f64().max(1e-4);
        let went = (self.sent - self.piece) / went_in;
        // Where it is cut for measuring a piece more or less is chance.
        Some((
            ((bytes - self.piece) / came_in).min(went),
            (bytes + self.piece) / came_in < SPREAD * went,
        ))
    }
}

/// The state of a start.
#[derive(Debug)]
pub(super) struct Start {
    is_on: bool,
    /// Whether it sends trains. Whoever has a start of its own finds the rate by that, and needs none.
    has_trains: bool,
    /// No train has come yet.
    is_first: bool,
    train: Option<Train>,
    /// The rate when it grew last, and round trips since then.
    grown: (f64, u32),
}

impl Start {
    pub(super) fn new(has_trains: bool) -> Self {
        Start { is_on: true, has_trains, is_first: has_trains, train: None, grown: (0.0, 0) }
    }

    /// Whether no queue was seen yet.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Something like a queue of so many seconds shows; `target`: the one that should stand.
    pub(super) fn queued(&mut self, queue: f64, target: f64) {
        self.is_on &= self.has_trains && queue < QUEUED * target;
    }

    /// Bytes were lost; a timer that finds them proves nothing.
    pub(super) fn lost(&mut self, is_timeout: bool) {
        self.is_on &= is_timeout;
    }

    /// Whether a buffer overflowed.
    pub(super) fn overflowed(&mut self, is_overflow: bool) {
        self.is_on &= !is_overflow;
    }

    /// A round trip without a queue, at so many bytes/s.
    pub(super) fn calm_round(&mut self, rate: f64, is_app_limited: bool) {
        if rate >= GROWN.1 * self.grown.0 {
            self.grown = (rate, 0);
        } else if !is_app_limited {
            self.grown.1 += 1;
            self.is_on &= self.grown.1 < GROWN.0;
        }
    }

    /// The rate was halved to so many bytes/s: a start that grows again from there is not at its end.
    pub(super) fn grows_from(&mut self, rate: f64) {
        self.grown = (rate, 0);
    }

    /// A piece goes, at a rate of so many bytes/s.
    pub(super) fn sent(&mut self, now: Time, bytes: Size, rate: f64) {
        if !self.is_on || !self.has_trains {
            return;
        }
        let bytes = bytes.as_f64();
        let left = if self.is_first { FIRST.0 } else { QUEUE * rate };
        let train = Train { went: [now; 2], sent: 0.0, piece: 0.0, left, heard: None, lump: 0.0 };
        let train = match &mut self.train {
            // We had too little to send: it is a train no more.
            Some(old) if old.left > 0.0 && old.went[0] + SENT_MOST < now && !self.is_first => {
                *old = train;
                old
            }
            old => old.get_or_insert(train),
        };
        if train.left > 0.0 {
            train.left -= bytes;
            train.sent += bytes;
            train.piece = train.piece.max(bytes);
            train.went[1] = now;
        }
    }

    /// Takes an acknowledgement; answers with the bytes/s with which a train came, on a path of so many seconds.
    pub(super) fn acked(&mut self, now: Time, ack: &Ack, path: f64) -> Option<f64> {
        let train = self.train.as_mut().filter(|train| ack.sent_at >= train.went[0])?;
        let point = (now, ack.delivered);
        if train.left > 0.0 || ack.sent_at <= train.went[1] {
            train.lump = train.lump.max(ack.newly.as_f64());
            train.heard = Some([train.heard.map_or(point, |[first, _]| first), point]);
        }
        if train.left > 0.0 || ack.sent_at < train.went[1] {
            return None;
        }
        let train = self.train.take()?;
        self.is_first = false;
        let (rate, is_spread) = train.shown().filter(|_| path > LONG)?;
        self.is_on &= !is_spread;
        Some(rate)
    }

    /// Seconds beyond a path of so many that the window holds; `target`: the queue that should stand.
    pub(super) fn beyond(&self, path: f64, target: f64) -> f64 {
        match path > LONG {
            true if self.has_trains => QUEUE,
            // Without trains a start that grew less than half as much each round trip would take too long.
            true => QUEUE.max(path / 2.0) + target,
            false => path.min(QUEUE) + target,
        }
    }

    /// Bytes/s at which pieces go; `None` where the start does not say.
    pub(super) fn pace(&self, rate: f64, path: f64) -> Option<f64> {
        let is_train = self.train.is_none_or(|train| train.left > 0.0);
        if self.is_on && (self.is_first || rate <= 0.0) {
            return Some(if is_train { FIRST.1 } else { FIRST.2 });
        }
        // A first window that the path holds as a whole shows nothing by leaving faster.
        if !self.is_on || rate * path <= WINDOW_START {
            return None;
        }
        let long = if is_train { TRAIN_PACE } else { 1.0 };
        Some(rate * if path > LONG && self.has_trains { long } else { SHORT_PACE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: f64 = 0.2;

    /// An acknowledgement of what was sent at `sent`.
    fn ack(sent: Time, delivered: u64, newly: u64) -> Ack {
        Ack {
            rtt: Duration::from_millis(200),
            sent_at: sent,
            delivered_at_send: Size::ZERO,
            reached_at: Time::ZERO,
            delivered: Size(delivered),
            newly: Size(newly),
            in_flight: Size::ZERO,
            lost: Size::ZERO,
            marked: Size::ZERO,
            is_timeout: false,
            app_limited: false,
        }
    }

    /// Eight pieces of 1400 bytes, one each so many milliseconds; they come one each so many.
    fn play(start: &mut Start, went: u64, came: u64) -> Option<f64> {
        let sent = |piece: u64| Time::from_millis(1000 + piece * went);
        (0..8).for_each(|piece| start.sent(sent(piece), Size(1400), 1.0));
        let mut shown = None;
        for piece in 0..8 {
            let now = Time::from_millis(1200 + piece * came);
            let heard = ack(sent(piece), (piece + 1) * 1400, 1400);
            shown = shown.or(start.acked(now, &heard, PATH));
        }
        shown
    }

    #[test]
    fn a_train_shows_what_the_path_carries_less_a_piece() {
        let mut start = Start::new(true);
        let shown = play(&mut start, 2, 11).expect("a train");
        assert!((shown - 6.0 * 1400.0 / 0.077).abs() < 1.0, "{shown}");
        assert!(!start.is_on(), "the path spread it");
    }

    #[test]
    fn a_train_that_was_not_spread_shows_its_own_pace_at_most_and_the_start_goes_on() {
        let mut start = Start::new(true);
        let shown = play(&mut start, 2, 1).expect("a train");
        assert!((shown - 1400.0 / 0.002).abs() < 1.0 && start.is_on(), "{shown}");
    }

    #[test]
    fn a_train_in_lumps_or_on_a_short_path_shows_nothing() {
        let mut start = Start::new(true);
        let sent = |piece: u64| Time::from_millis(1000 + piece);
        (0..8).for_each(|piece| start.sent(sent(piece), Size(1400), 1.0));
        let heard = [(0, 1), (6, 6), (7, 1)].map(|(piece, newly)| {
            let now = Time::from_millis(1200 + piece);
            start.acked(now, &ack(sent(piece), (piece + 1) * 1400, newly * 1400), PATH)
        });
        assert!(heard.iter().all(Option::is_none) && start.is_on(), "{heard:?}");
        let mut start = Start::new(true);
        (0..8).for_each(|piece| start.sent(sent(piece), Size(1400), 1.0));
        let heard = (0..8).map(|piece| {
            let now = Time::from_millis(1000 + 20 * piece);
            start.acked(now, &ack(sent(piece), (piece + 1) * 1400, 1400), 0.05)
        });
        assert!(heard.collect::<Vec<_>>().iter().all(Option::is_none) && start.is_on());
    }

    #[test]
    fn what_takes_long_to_send_is_no_train() {
        let mut start = Start::new(true);
        play(&mut start, 2, 1);
        start.sent(Time::from_millis(2000), Size(1400), 1e5);
        start.sent(Time::from_millis(2100), Size(1400), 1e5);
        let train = start.train.expect("another one");
        assert_eq!((train.went[0], train.sent), (Time::from_millis(2100), 1400.0));
    }
}
