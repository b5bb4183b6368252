//! Queues that keep themselves short, by marks where a packet can bear one: CoDel, and the coupled dual queue.
//! Source: RFC 8289, section 5 (CoDel); RFC 9332, appendix A (DualPI2); codepoints by RFC 3168 and RFC 9331.
//! Inputs: times at which packets came and leave. Outputs: whether a packet bears a signal of congestion. O(1) a packet.
//! Deviations: of the schedulers that RFC 9332 leaves open it is the time-shifted FIFO; nothing is done about senders that do
//! not answer, but for the bound in bytes.
//! Limits: constant memory.

use std::time::Duration;

use tidegate_types::units::Time;

/// The two bits of a packet that say whether it can be marked, and whether it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// It cannot: a signal is its loss.
    #[default]
    NotEct,
    /// A mark is as much as a loss.
    Ect0,
    /// The sender's answer is scalable (L4S): marks are many and each is little.
    Ect1,
    /// Marked.
    Ce,
}

/// What a queue reads of a packet, and writes on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// Its codepoint.
    pub ecn: Ecn,
    /// How long it waited until the wire was its own.
    pub waited: Duration,
}

/// CoDel's longest acceptable queue, and the time in which it must be seen.
const CODEL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
/// A queue of one packet is none.
const MTU: u64 = 1500;
/// Target of the classic queue, and the time between two updates of its probability.
const TARGET: Duration = Duration::from_millis(15);
/// Gains of PI², a second: 0.1 of an update over the square of the longest round trip, 100 ms, and 0.3 over that.
const GAINS: (f64, f64) = (0.15, 3.0);
/// What L4S packets are marked with, over the base probability; classic ones with its square.
const COUPLING: f64 = 2.0;
/// The ramp of the L4S queue: nothing is marked below the first, all from the second on.
const RAMP: (f64, f64) = (0.0008, 0.0012);
/// Head start of L4S packets before classic ones.
const SHIFT: Duration = Duration::from_millis(30);

/// The state of CoDel.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CoDel {
    first_above: Option<Time>,
    next: Time,
    count: u32,
    last_count: u32,
    is_dropping: bool,
}

impl CoDel {
    /// Whether the packet that leaves now bears a signal; so many bytes wait behind it.
    pub(super) fn signals(&mut self, now: Time, waited: Duration, behind: u64) -> bool {
        if waited < CODEL.0 || behind <= MTU {
            (self.first_above, self.is_dropping) = (None, false);
            return false;
        }
        if *self.first_above.get_or_insert(now + CODEL.1) > now {
            self.is_dropping = false;
            return false;
        }
        if self.is_dropping && now < self.next {
            return false;
        }
        if self.is_dropping {
            self.count += 1;
        } else {
            let more = self.count - self.last_count;
            let is_recent = self.next + CODEL.1 * 16 > now;
            self.count = if more > 1 && is_recent { more } else { 1 };
            (self.last_count, self.next, self.is_dropping) = (self.count, now, true);
        }
        self.next += CODEL.1.div_f64(f64::from(self.count).sqrt());
        true
    }
}

/// The state of the coupled dual queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Coupled {
    /// The base probability, and the delay at the last update.
    base: f64,
    before: f64,
    updated: Time,
    /// What is left of the probabilities of packets that bore no signal: classic, L4S.
    left: [f64; 2],
}

impl Coupled {
    /// Updates the base probability; `heads`: since when the first packet of each queue waits.
    pub(super) fn update(&mut self, now: Time, heads: [Option<Time>; 2]) {
        while self.updated + TARGET <= now {
            self.updated += TARGET;
            let waits = heads.iter().flatten().map(|since| self.updated.since(*since));
            let queue = waits.max().unwrap_or_default().as_secs_f64();
            let change = GAINS.0 * (queue - TARGET.as_secs_f64()) + GAINS.1 * (queue - self.before);
            self.base = (self.base + change).clamp(0.0, 1.0 / COUPLING);
            self.before = queue;
        }
    }

    /// The queue that is served now: 1 for that of L4S.
    pub(super) fn turn(heads: [Option<Time>; 2]) -> usize {
        match heads {
            [Some(classic), Some(low)] => usize::from(low <= classic + SHIFT),
            [_, low] => usize::from(low.is_some()),
        }
    }

    /// Whether the packet that leaves the queue `lane` bears a signal; `is_last`: nothing is behind it there.
    pub(super) fn signals(&mut self, waited: Duration, lane: usize, is_last: bool) -> bool {
        let ramp = (waited.as_secs_f64() - RAMP.0) / (RAMP.1 - RAMP.0);
        let native = if is_last { 0.0 } else { ramp.clamp(0.0, 1.0) };
        let probability =
            if lane == 0 { self.base.powi(2) } else { native.max(COUPLING * self.base) };
        self.left[lane] += probability;
        let signals = self.left[lane] > 1.0;
        self.left[lane] -= f64::from(u8::from(signals));
        signals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn codel_waits_for_an_interval_and_signals_ever_faster() {
        let mut codel = CoDel::default();
        let at = |millis: u64| Time::from_millis(1000 + millis);
        let signals = (0..=400).filter(|&t| codel.signals(at(t), ms(6), 9000)).collect::<Vec<_>>();
        // 100, then 100 over the roots of 1, 2, 3, 4 later.
        assert_eq!(signals, [100, 200, 271, 329, 379]);
        assert!(!codel.signals(at(401), ms(4), 9000) && !codel.signals(at(900), ms(6), 9000));
        assert!(!codel.signals(at(901), ms(6), 1500), "one packet is no queue");
    }

    #[test]
    fn the_dual_queue_marks_by_its_ramp_and_twice_the_base_and_drops_by_the_square() {
        let mut coupled = Coupled::default();
        let count = |coupled: &mut Coupled, micros, lane, is_last| {
            let waited = Duration::from_micros(micros);
            (0..1000).filter(|_| coupled.signals(waited, lane, is_last)).count()
        };
        assert_eq!(count(&mut coupled, 700, 1, false), 0);
        assert!((499..=501).contains(&count(&mut coupled, 1000, 1, false)));
        assert!(count(&mut coupled, 1300, 1, false) >= 999);
        assert_eq!(count(&mut coupled, 5000, 1, true), 0, "a packet alone is no queue");
        coupled.base = 0.1;
        assert!((199..=201).contains(&count(&mut coupled, 0, 1, true)));
        assert!((9..=11).contains(&count(&mut coupled, 0, 0, false)));
    }

    #[test]
    fn the_base_follows_the_longer_queue() {
        let mut coupled = Coupled::default();
        // A queue of 35 ms appears: 3 Hz of 35 ms, and 0.15 Hz of 20 ms at each update.
        coupled.update(Time::from_millis(15), [None, None]);
        assert_eq!(coupled.base, 0.0);
        let stands = |millis: u64| Some(Time::from_millis(millis));
        coupled.update(Time::from_millis(3000), [stands(2965), None]);
        coupled.update(Time::from_millis(3015), [stands(2980), stands(3014)]);
        assert!((coupled.base - (0.105 + 0.003 + 0.003)).abs() < 0.001, "{}", coupled.base);
        assert_eq!(Coupled::turn([stands(0), stands(20)]), 1);
        assert_eq!(Coupled::turn([stands(0), stands(40)]), 0);
        assert_eq!([Coupled::turn([None, stands(0)]), Coupled::turn([stands(0), None])], [1, 0]);
    }
}
