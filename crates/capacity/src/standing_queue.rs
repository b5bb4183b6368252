//! Notices a queue that stands, and one that stands for too long.

use std::time::Duration;

use tidegate_types::units::Time;

/// A queue above this multiple of the target stands; and of a restless path, which else lost its rate to each short fade.
const STANDING: [f64; 2] = [1.5, 2.0];
/// Round trips for which our own standing queue may last.
const STANDING_ROUNDS: u32 = 10;
/// A queue is far too long above this multiple of the target (within a bound) and some seconds more. The
/// bound keeps a collapsed rate, whose pieces take long, from raising it out of reach. Of a restless path it is more: drains,
/// and not too short a queue, were what such paths lost their share to.
const SWOLLEN: [(f64, f64, f64); 2] = [(2.0, 0.030, 0.010), (8.0, 0.200, 0.010)];
/// Round trips for which it may be far too long.
const SWOLLEN_ROUNDS: u32 = 2;

/// Since when.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// A queue stands, and the rate at that time.
    standing: Option<(Time, f64)>,
    /// It is far too long.
    swollen: Option<Time>,
}

impl Standing {
    /// Takes the queue and the target, in seconds, the present rate, and whether the path is restless.
    pub(super) fn push(
        &mut self,
        now: Time,
        [queue, target]: [f64; 2],
        rate: f64,
        is_restless: bool,
    ) {
        let is_standing = queue > STANDING[usize::from(is_restless)] * target;
        self.standing = is_standing.then(|| self.standing.unwrap_or((now, rate)));
        let (times, most, more) = SWOLLEN[usize::from(is_restless)];
        let is_swollen = queue > times * target.min(most) + more;
        self.swollen = is_swollen.then(|| self.swollen.unwrap_or(now));
    }

    /// Whether a queue has stood for a round trip. An in-order stall looks like one, but is shorter.
    pub(super) fn is_sure(&self, now: Time, round: Duration) -> bool {
        self.standing.is_some_and(|(since, _)| since + round <= now)
    }

    /// Whether it has stood for longer than one of ours could.
    pub(super) fn is_too_long(&self, now: Time, round: Duration) -> bool {
        self.swollen.is_some_and(|since| since + round * SWOLLEN_ROUNDS <= now)
            || self.is_sure(now, round * STANDING_ROUNDS)
    }

    /// The rate when the queue began to stand.
    pub(super) fn rate_before(&self) -> Option<f64> {
        self.standing.map(|(_, rate)| rate)
    }

    /// Forgets the queue.
    pub(super) fn clear(&mut self) {
        *self = Standing::default();
    }
}
