//! Holds our part of a link beside somebody who fills its queue until packets are lost.
//! Source: own; that a queue which never empties is somebody else's is the test of Copa (NSDI 2018, section 2.2).
//! Inputs: acknowledgements, the queue, what came. Outputs: bytes/s to hold.
//! Deviations: none.
//! Limits: constant memory, O(1) an acknowledgement.
//!
//! A queue that stands although our window follows the rate, on a link that lost packets of a long queue lately, may be a rival's.
//! A dip tells: for most of a round trip the window is shorter by what would take all of the queue if that were ours, and by half at
//! most. Nearly all of that went: the queue was ours. Else it is a rival's, and the window is a part of what the link carries alone times the whole round trip: a constant rate.
//!
//! A rival that yields in the moment of a dip looks like nobody, so only two dips in succession prove that there is none. While
//! there is one a dip now and then asks again; one that takes nothing of the queue shows a longer path.

use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::Ack;

/// Part of the link that is held. Two that take each other for a rival hold less than the link carries, so their queue goes.
const PART: f64 = 0.47;
/// Growth to it a round trip, while what comes is at least this part of what is held.
const GROWTH: (f64, f64) = (1.2, 0.7);
/// What a round trip with a loss leaves.
const CUT: f64 = 0.85;
/// Time for which an overflow is a proof, and for which one who was here may be back.
const PROOF: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(60));
/// The queue that overflowed, times this and some seconds more, is longer than a rival's.
const TOO_LONG: (f64, f64) = (1.5, 0.05);
/// Time between two dips, and round trips beside it.
const DIP_PERIOD: (Duration, u32) = (Duration::from_secs(6), 8);
/// The most that a dip takes of the window.
const DEPTH: f64 = 0.5;
/// For so much of a round trip a dip lasts; bytes sent this late in it show what it took.
const DIP: (f64, f64) = (0.8, 0.7);
/// With so much of our window gone a rival's queue is shorter by this part of the round trip at least, and a longer path is not. Where
/// we hold too little for that, nothing is concluded.
const LEAST: f64 = 0.05;
/// Of a queue that is ours alone a dip takes at least this part of what it can take; and so many of them in succession prove it.
const ALONE: (f64, u32) = (0.85, 2);
/// Part of the window that must be under way, or a dip proves nothing.
const FULL: f64 = 0.7;
/// Round trips without a rival after one that was none; round trips from a loss, when a rival yields, to the first dip; and after
/// which it is given up.
const ROUNDS: (u32, u32, u32) = (4, 2, 12);

/// What an acknowledgement says of the rival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rivalry {
    Lasts,
    /// The queue is empty, or longer than a rival's, or it seems ours.
    Over,
    /// The queue was ours, and the link carries so many bytes/s.
    Alone(f64),
    /// The path became longer, and there is none.
    LongerPath,
}

/// What is seen of the path with an acknowledgement: seconds and bytes/s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) path: f64,
    pub(super) queue: f64,
    pub(super) target: f64,
    /// What came of late.
    pub(super) rate: f64,
    /// What the link carries when it is ours.
    pub(super) carried: f64,
}

/// The rival of one uplink, if there is one.
#[derive(Debug, Default)]
pub(super) struct Rival {
    contest: Option<Contest>,
    /// When a queue overflowed, and how long it was.
    overflow: Option<(Time, f64)>,
    /// When there was one last.
    seen_at: Option<Time>,
    lost_at: Time,
    dipped_at: Time,
    /// Dips in succession that took the whole queue.
    alone: u32,
    /// Until then nobody is taken for one.
    refused_until: Time,
}

/// A queue that is perhaps not ours.
#[derive(Clone, Copy, Debug)]
struct Contest {
    since: Time,
    /// Bytes/s that we hold.
    held: f64,
    /// A dip has shown that the queue is not ours.
    is_proven: bool,
    /// After a cut, for a round trip.
    rests_until: Time,
    grown_at: Time,
    dip: Option<Dip>,
}

/// The window is shorter, and restored before it is known what that took.
#[derive(Clone, Copy, Debug)]
struct Dip {
    until: Time,
    /// Part of the window.
    depth: f64,
    /// Bytes sent from then on show it.
    shown_from: Time,
    /// The queue before, seconds, and what came, bytes/s.
    queue: f64,
    rate: f64,
}

fn span(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

impl Rival {
    /// Bytes/s to hold beside it.
    pub(super) fn held(&self) -> Option<f64> {
        self.contest.map(|contest| contest.held)
    }

    /// The part of the window that a dip takes now.
    pub(super) fn dip(&self, now: Time) -> f64 {
        let dip = self.contest.and_then(|contest| contest.dip);
        dip.filter(|dip| now < dip.until).map_or(0.0, |dip| dip.depth)
    }

    /// A queue of so many seconds overflowed.
    pub(super) fn overflowed(&mut self, now: Time, queue: f64) {
        let before = self.overflow.filter(|(at, _)| *at + PROOF.0 > now);
        self.overflow = Some((now, before.map_or(queue, |(_, most)| most.max(queue))));
    }

    /// Whether there was one a moment ago.
    pub(super) fn was_here(&self, now: Time) -> bool {
        self.seen_at.is_some_and(|at| at + PROOF.1 > now)
    }

    /// Whether a queue that stands, and that should not, may be a rival's.
    pub(super) fn is_likely(&self, now: Time) -> bool {
        self.refused_until <= now
            && (self.overflow.is_some_and(|(at, _)| at + PROOF.0 > now) || self.was_here(now))
    }

    /// A queue stands, and so many bytes/s come: whose it is will show, unless one was here a moment ago.
    pub(super) fn comes(&mut self, now: Time, rate: f64, carried: f64) {
        let is_proven = self.was_here(now) && self.alone == 0;
        let held = if is_proven { rate.max(PART * carried) } else { rate };
        self.contest = Some(Contest {
            since: now,
            held,
            is_proven,
            rests_until: now,
            grown_at: now,
            dip: None,
        });
    }

    /// Takes an acknowledgement while there is one.
    pub(super) fn acked(&mut self, now: Time, ack: &Ack, seen: Seen) -> Rivalry {
        let Some(contest) = &mut self.contest else { return Rivalry::Over };
        let round = span(seen.path + seen.queue);
        if contest.is_proven {
            self.seen_at = Some(now);
        }
        let most = self.overflow.map_or(f64::MAX, |(_, most)| TOO_LONG.0 * most + TOO_LONG.1);
        let is_given_up = !contest.is_proven && contest.since + round * ROUNDS.2 <= now;
        if is_given_up || seen.queue > most {
            return self.ends(now + round * ROUNDS.0, Rivalry::Over);
        }
        if seen.queue <= seen.target && contest.dip.is_none() {
            return self.ends(now, Rivalry::Over);
        }
        if ack.lost > Size::ZERO && !ack.is_timeout {
            self.lost_at = now;
            if now >= contest.rests_until {
                contest.held *= if contest.is_proven { CUT } else { 1.0 };
                contest.rests_until = now + round;
            }
        } else if contest.dip.is_none()
            && now >= contest.rests_until
            && contest.grown_at + round <= now
        {
            contest.grown_at = now;
            let most = PART * seen.carried;
            if contest.is_proven && seen.rate > GROWTH.1 * contest.held && contest.held < most {
                contest.held = (contest.held * GROWTH.0).min(most);
            }
        }
        self.dips(now, ack, seen)
    }

    fn ends(&mut self, refused_until: Time, how: Rivalry) -> Rivalry {
        (self.contest, self.refused_until) = (None, refused_until);
        how
    }

    fn dips(&mut self, now: Time, ack: &Ack, seen: Seen) -> Rivalry {
        let Seen { path, queue, rate, .. } = seen;
        let (Some(contest), round) = (&mut self.contest, span(path + queue)) else {
            return Rivalry::Over;
        };
        let Some(dip) = contest.dip else {
            let due = match contest.is_proven {
                true => self.dipped_at + DIP_PERIOD.0 + round * DIP_PERIOD.1,
                false => self.lost_at + round * ROUNDS.1,
            };
            let is_full = ack.in_flight.as_f64() >= FULL * contest.held * (path + queue);
            if due <= now && is_full && !ack.app_limited {
                let [until, shown_from] =
                    [DIP.0, DIP.1].map(|part| now + span(part * (path + queue)));
                let depth = (queue / (path + queue)).min(DEPTH);
                contest.dip = Some(Dip { until, depth, shown_from, queue, rate });
            }
            return Rivalry::Lasts;
        };
        if ack.sent_at < dip.shown_from {
            return Rivalry::Lasts;
        }
        (contest.dip, self.dipped_at) = (None, now);
        // What the dip can take of a queue that is ours.
        let most = dip.depth * (path + dip.queue);
        let part = (dip.queue - queue) / most;
        if part > ALONE.0 {
            self.alone += 1;
            let how = if self.alone >= ALONE.1 { Rivalry::Alone(dip.rate) } else { Rivalry::Over };
            if self.alone >= ALONE.1 {
                self.forget();
            }
            return self.ends(now + round * ROUNDS.0, how);
        }
        self.alone = 0;
        let expected = contest.held * dip.depth / seen.carried;
        if contest.is_proven && expected > 2.0 * LEAST && part * most < LEAST * (path + dip.queue) {
            self.forget();
            return self.ends(now, Rivalry::LongerPath);
        }
        if !contest.is_proven {
            (contest.is_proven, contest.held) = (true, contest.held.max(PART * seen.carried));
        }
        Rivalry::Lasts
    }

    fn forget(&mut self) {
        (self.overflow, self.seen_at, self.alone) = (None, None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARRIED: f64 = 1e6;

    fn seconds(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    /// Acknowledgements of a packet each 10 ms over some seconds: queue and rate are what the closure says of what is held.
    fn play(
        rival: &mut Rival,
        [from, until]: [u64; 2],
        lost: u64,
        seen: impl Fn(f64) -> (f64, f64),
    ) -> Rivalry {
        let mut last = Rivalry::Lasts;
        for turn in from * 100..until * 100 {
            let now = Time::from_millis(turn * 10);
            let part = 1.0 - rival.dip(now);
            let (queue, rate) = seen(part * rival.held().unwrap_or_default());
            let ack = Ack {
                rtt: Duration::from_secs_f64(0.1 + queue),
                // What is seen now is what bytes of now meet.
                sent_at: now,
                delivered_at_send: Size::ZERO,
                reached_at: Time::ZERO,
                delivered: Size(1),
                newly: Size(1),
                in_flight: Size(1 << 30),
                lost: Size(lost),
                is_timeout: false,
                app_limited: false,
            };
            let seen = Seen { path: 0.1, queue, target: 0.015, rate, carried: CARRIED };
            last = rival.acked(now, &ack, seen);
            if last != Rivalry::Lasts {
                break;
            }
        }
        last
    }

    fn likely() -> Rival {
        let mut rival = Rival::default();
        assert!(!rival.is_likely(seconds(1)));
        rival.overflowed(seconds(2), 0.2);
        assert!(rival.is_likely(seconds(2)) && !rival.is_likely(seconds(23)));
        rival.comes(seconds(2), 1e5, CARRIED);
        assert_eq!(rival.held(), Some(1e5), "what came, until a dip has shown whose queue it is");
        rival
    }

    /// The first dip is over, and the queue was not ours.
    fn met() -> Rival {
        let mut rival = likely();
        assert_eq!(play(&mut rival, [2, 3], 0, |_| (0.14, 1e5)), Rivalry::Lasts);
        rival
    }

    #[test]
    fn a_part_of_what_the_link_carried_is_held() {
        let mut rival = met();
        let elastic = |held| (0.05 + held * 2e-7, held);
        assert_eq!(play(&mut rival, [3, 5], 0, elastic), Rivalry::Lasts);
        assert_eq!(rival.held(), Some(PART * CARRIED));
        play(&mut rival, [5, 7], 1, elastic);
        assert!(rival.held().unwrap() < PART * CARRIED * 0.5, "{rival:?}");
        play(&mut rival, [7, 12], 0, elastic);
        assert_eq!(rival.held(), Some(PART * CARRIED), "it grows to it again, and no further");
        assert!(rival.is_likely(seconds(60)), "it may be back");
    }

    #[test]
    fn it_ends_with_the_queue_and_one_who_was_here_needs_no_dip_to_be_back() {
        let mut rival = met();
        assert_eq!(play(&mut rival, [3, 10], 0, |held| (0.01, held)), Rivalry::Over);
        rival.comes(seconds(10), 1e5, CARRIED);
        assert_eq!(rival.held(), Some(PART * CARRIED));
        assert_eq!(play(&mut rival, [10, 20], 0, |held| (0.36, held)), Rivalry::Over, "too long");
        assert!(!rival.is_likely(seconds(10)) && rival.is_likely(seconds(13)), "not at once again");
    }

    #[test]
    fn two_dips_that_take_the_queue_prove_that_it_is_ours() {
        // The link carries 1e5 bytes/s, and nobody else is there.
        let ours = |held: f64| ((0.3 * held / 1e5 - 0.1).max(0.02), 1e5);
        let mut rival = likely();
        assert_eq!(play(&mut rival, [2, 6], 0, ours), Rivalry::Over);
        assert!(rival.is_likely(seconds(8)), "one may be by chance");
        rival.comes(seconds(8), 1e5, CARRIED);
        assert_eq!(play(&mut rival, [8, 14], 0, ours), Rivalry::Alone(1e5));
        assert!(!rival.is_likely(seconds(16)), "before the next overflow");
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
