//! Holds our part of a link beside somebody who fills its queue until packets are lost.
//! Source: own; that a queue which never empties is somebody else's is the test of Copa (NSDI 2018, section 2.2).
//! Inputs: acknowledgements, the queue, what came. Outputs: bytes/s to hold.
//! Deviations: none.
//! Limits: constant memory, O(1) an acknowledgement.
//!
//! A queue that stands although our window follows the rate, on a link that lost packets of a long queue lately, is a rival's. Then
//! the window is a part of what the link carried times the whole round trip: a constant rate.
//!
//! It begins with a dip, and there is another now and then: half of the window for a round trip. How much shorter the queue is then
//! tells whose it was: nearly all of it ours and nobody is there, nothing of it and the path is longer.

use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::Ack;

const PACKET: f64 = 1460.0;
/// Part of the link that is held: at first, and how far it grows fast. Two that take each other for a rival hold no more than the
/// link carries.
const PART: (f64, f64) = (0.45, 0.5);
/// Growth a round trip while what comes is at least this part of what is held; a packet a round trip beyond that part.
const GROWTH: (f64, f64) = (1.2, 0.7);
/// What a round trip with a loss leaves.
const CUT: f64 = 0.85;
/// Time for which an overflow is a proof, and for which one who was here may be back.
const PROOF: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(60));
/// The queue that overflowed, times this and some seconds more, is longer than a rival's.
const TOO_LONG: (f64, f64) = (1.5, 0.05);
/// Time over which what the link carried is forgotten.
const FORGOTTEN: f64 = 60.0;
/// Time between two dips, and round trips beside it: with half of our window gone a rival's queue is shorter by this part of the
/// round trip at least, and a longer path is not. Where we hold too little for that, nothing is concluded.
const DIP: (Duration, u32, f64) = (Duration::from_secs(10), 4, 0.05);
/// Of a queue that is ours alone a dip takes at least this part of what it can take.
const ALONE: f64 = 0.85;
/// Part of the window that must be under way, or a dip proves nothing.
const FULL: f64 = 0.7;
/// Round trips without a rival after one that was none.
const REFUSED_ROUNDS: u32 = 4;

/// What an acknowledgement says of the rival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rivalry {
    Lasts,
    /// The queue is empty, or longer than a rival's, or it was ours.
    Over,
    /// The path became longer, and there is none.
    LongerPath,
}

/// What is seen of the path with an acknowledgement: seconds, and bytes/s that came of late.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) path: f64,
    pub(super) queue: f64,
    pub(super) target: f64,
    pub(super) rate: f64,
}

/// The rival of one uplink, if there is one.
#[derive(Debug, Default)]
pub(super) struct Rival {
    /// Whether a queue is ever taken for a rival's.
    is_sought: bool,
    /// Bytes/s that we hold; `None` without a rival.
    held: Option<f64>,
    /// What the link carried when it was ours, bytes/s, and when that was last true.
    capacity: (f64, Time),
    /// When a queue overflowed, and how long it was.
    overflow: Option<(Time, f64)>,
    /// When there was one last.
    seen_at: Option<Time>,
    /// After a cut, for a round trip.
    rests_until: Time,
    grown_at: Time,
    dip: Option<Dip>,
    dipped_at: Time,
    /// A dip has shown that the queue is not ours.
    is_proven: bool,
    /// Until then nobody is taken for one.
    refused_until: Time,
}

/// The window is halved.
#[derive(Clone, Copy, Debug)]
struct Dip {
    since: Time,
    /// The queue before, seconds, and what came, bytes/s.
    queue: f64,
    rate: f64,
}

impl Rival {
    /// None is known yet.
    pub(super) fn sought() -> Rival {
        Rival { is_sought: true, ..Rival::default() }
    }

    /// Nobody is ever taken for one.
    pub(super) fn unsought() -> Rival {
        Rival::default()
    }

    /// Whether a queue is ever taken for a rival's.
    pub(super) fn is_sought(&self) -> bool {
        self.is_sought
    }

    /// Bytes/s to hold beside it.
    pub(super) fn held(&self) -> Option<f64> {
        self.held.map(|held| if self.dip.is_some() { held / 2.0 } else { held })
    }

    /// What the link carried without one, bytes/s.
    pub(super) fn capacity(&self) -> f64 {
        self.capacity.0
    }

    /// No queue stands that is not ours, and the link carries so much.
    pub(super) fn is_absent(&mut self, now: Time, rate: f64) {
        let (capacity, at) = self.capacity;
        let part = (now.since(at).as_secs_f64() / FORGOTTEN).min(1.0);
        self.capacity = (rate.max(capacity + (rate - capacity) * part), now);
    }

    /// A queue of so many seconds overflowed.
    pub(super) fn overflowed(&mut self, now: Time, queue: f64) {
        let before = self.overflow.filter(|(at, _)| *at + PROOF.0 > now);
        self.overflow = Some((now, before.map_or(queue, |(_, most)| most.max(queue))));
    }

    /// Whether a queue that stands, and that should not, would be a rival's.
    pub(super) fn is_likely(&self, now: Time) -> bool {
        self.is_sought
            && self.refused_until <= now
            && (self.overflow.is_some_and(|(at, _)| at + PROOF.0 > now)
                || self.seen_at.is_some_and(|at| at + PROOF.1 > now))
    }

    /// A queue of so many seconds stands, and so many bytes/s come: a dip shows whose it is.
    pub(super) fn comes(&mut self, now: Time, queue: f64, rate: f64) {
        self.held = Some(rate);
        self.dip = Some(Dip { since: now, queue, rate });
        (self.grown_at, self.is_proven) = (now, false);
    }

    /// Takes an acknowledgement while there is one.
    pub(super) fn acked(&mut self, now: Time, ack: &Ack, seen: Seen) -> Rivalry {
        let Seen { path, queue, target, rate } = seen;
        let Some(held) = &mut self.held else { return Rivalry::Over };
        self.capacity.1 = now;
        if self.is_proven {
            self.seen_at = Some(now);
        }
        let round = Duration::from_secs_f64(path + queue);
        let is_too_long =
            self.overflow.is_some_and(|(_, most)| queue > TOO_LONG.0 * most + TOO_LONG.1);
        if is_too_long || queue <= target && self.dip.is_none() {
            return self.ends(now, round);
        }
        if ack.lost > Size::ZERO && !ack.is_timeout {
            if now >= self.rests_until {
                *held *= CUT;
                self.rests_until = now + round;
            }
        } else if self.dip.is_none() && now >= self.rests_until && self.grown_at + round <= now {
            self.grown_at = now;
            let most = PART.1 * self.capacity.0;
            if rate > GROWTH.1 * *held && *held < most {
                *held = (*held * GROWTH.0).min(most);
            } else if rate > GROWTH.1 * *held {
                *held += PACKET / round.as_secs_f64();
            }
        }
        self.dips(now, ack, seen)
    }

    fn ends(&mut self, now: Time, round: Duration) -> Rivalry {
        (self.held, self.dip) = (None, None);
        self.refused_until = now + round * REFUSED_ROUNDS;
        Rivalry::Over
    }

    fn dips(&mut self, now: Time, ack: &Ack, seen: Seen) -> Rivalry {
        let Seen { path, queue, rate, .. } = seen;
        let round = Duration::from_secs_f64(path + queue);
        let held = self.held.unwrap_or_default();
        let Some(dip) = self.dip else {
            let is_full = ack.in_flight.as_f64() >= FULL * held * (path + queue);
            if self.dipped_at + DIP.0 + round * DIP.1 <= now && is_full && !ack.app_limited {
                self.dip = Some(Dip { since: now, queue, rate });
            }
            return Rivalry::Lasts;
        };
        if ack.sent_at < dip.since + Duration::from_secs_f64(path + dip.queue) {
            return Rivalry::Lasts;
        }
        (self.dip, self.dipped_at) = (None, now);
        // What half of the window can take of a queue that is ours.
        let most = ((path + dip.queue) / 2.0).min(dip.queue);
        let part = (dip.queue - queue) / most;
        if part > ALONE {
            self.capacity.0 = dip.rate;
            (self.overflow, self.seen_at) = (None, None);
            return self.ends(now, round);
        }
        let expected = held / 2.0 / self.capacity.0;
        if self.is_proven && expected > 2.0 * DIP.2 && part * most < DIP.2 * (path + dip.queue) {
            self.held = None;
            (self.overflow, self.seen_at) = (None, None);
            return Rivalry::LongerPath;
        }
        if !self.is_proven {
            self.is_proven = true;
            self.held = Some(held.max(PART.0 * self.capacity.0));
        }
        Rivalry::Lasts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    /// Acknowledgements of a packet each 10 ms over some seconds: what is said of the queue, which the closure knows from what is held.
    fn play(
        rival: &mut Rival,
        [from, until]: [u64; 2],
        lost: u64,
        seen: impl Fn(f64) -> (f64, f64),
    ) -> Rivalry {
        let mut last = Rivalry::Lasts;
        for turn in from * 100..until * 100 {
            let now = Time::from_millis(turn * 10);
            let (queue, rate) = seen(rival.held().unwrap_or_default());
            let ack = Ack {
                rtt: Duration::from_secs_f64(0.1 + queue),
                sent_at: now - Duration::from_secs_f64(0.1 + queue),
                delivered_at_send: Size::ZERO,
                reached_at: Time::ZERO,
                delivered: Size(1),
                newly: Size(1),
                in_flight: Size(1 << 30),
                lost: Size(lost),
                is_timeout: false,
                app_limited: false,
            };
            last = rival.acked(now, &ack, Seen { path: 0.1, queue, target: 0.015, rate });
            if last != Rivalry::Lasts {
                break;
            }
        }
        last
    }

    fn likely() -> Rival {
        let mut rival = Rival::sought();
        rival.is_absent(seconds(1), 1e6);
        assert!(!rival.is_likely(seconds(1)));
        rival.overflowed(seconds(2), 0.2);
        assert!(rival.is_likely(seconds(2)) && !rival.is_likely(seconds(23)));
        rival.comes(seconds(2), 0.15, 1e5);
        rival
    }

    /// The first dip is over, and the queue was not ours.
    fn met() -> Rival {
        let mut rival = likely();
        assert_eq!(rival.held(), Some(0.5e5), "a dip");
        assert_eq!(play(&mut rival, [2, 3], 0, |_| (0.14, 1e5)), Rivalry::Lasts);
        rival
    }

    #[test]
    fn a_part_of_what_the_link_carried_is_held_and_a_little_more_while_it_comes() {
        let mut rival = met();
        let held = rival.held().unwrap();
        assert!((0.45e6..0.51e6).contains(&held), "{held}");
        let elastic = |held| (0.15, held);
        assert_eq!(play(&mut rival, [3, 5], 0, elastic), Rivalry::Lasts);
        let held = rival.held().unwrap();
        assert!((5e5..6e5).contains(&held), "{held}");
        play(&mut rival, [5, 7], 1, elastic);
        assert!(rival.held().unwrap() < held * 0.5, "{rival:?}");
        assert!(rival.is_likely(seconds(60)), "it may be back");
    }

    #[test]
    fn it_ends_with_the_queue_and_with_one_that_is_longer_than_a_rival_could_make_it() {
        assert_eq!(play(&mut met(), [3, 10], 0, |held| (0.01, held)), Rivalry::Over);
        let mut rival = met();
        assert_eq!(play(&mut rival, [3, 10], 0, |held| (0.36, held)), Rivalry::Over);
        assert!(!rival.is_likely(seconds(3)) && rival.is_likely(seconds(6)), "not at once again");
    }

    #[test]
    fn a_queue_that_goes_with_half_of_our_window_is_ours_and_what_came_is_what_the_link_carries() {
        let mut rival = likely();
        // The link carries 1e5 bytes/s, and nobody else is there.
        assert_eq!(
            play(&mut rival, [2, 4], 0, |held| (0.3 * held / 1e5 - 0.13, 1e5)),
            Rivalry::Over
        );
        assert_eq!((rival.held(), rival.capacity()), (None, 1e5));
        assert!(!rival.is_likely(seconds(5)), "before the next overflow");
    }

    #[test]
    fn a_queue_that_half_of_our_window_does_not_change_is_a_longer_path() {
        let mut rival = met();
        assert_eq!(play(&mut rival, [3, 30], 0, |held| (0.1, held)), Rivalry::LongerPath);
        assert!(!rival.is_likely(seconds(30)));
        // Of a rival's queue some was ours.
        assert_eq!(play(&mut met(), [3, 30], 0, |held| (0.05 + held * 1e-7, held)), Rivalry::Lasts);
        // Half of next to nothing changes no queue.
        let little = |_: f64| (0.1, 1e4);
        let mut rival = met();
        play(&mut rival, [3, 6], 1, little);
        assert_eq!(play(&mut rival, [6, 30], 0, little), Rivalry::Lasts);
    }
}
