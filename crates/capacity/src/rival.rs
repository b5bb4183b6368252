//! Holds our part of a link beside somebody who fills its queue until packets are lost.
//! Source: own; that a queue which never empties is somebody else's is the test of Copa (NSDI 2018, section 2.2).
//! Inputs: acknowledgements, the queue, what came. Outputs: bytes/s to hold.
//! Deviations: none.
//! Limits: constant memory, O(1) an acknowledgement. Three or more that take each other for a rival hold more than the link
//! carries together: losses alone hold them back, and the queue stays full.
//!
//! A queue that stands although our window follows the rate, on a link that lost packets of a long queue lately, may be a rival's.
//! A dip tells: for most of a round trip the window is shorter by what would take all of the queue if that were ours, and by half at
//! most. Nearly all of that went: the queue was ours. Else it is a rival's, and the window is a part of what the link carries alone times the whole round trip: a constant rate.
//!
//! A rival that yields in the moment of a dip looks like nobody, so only two dips in succession prove that there is none. While
//! there is one a dip now and then asks again; one that takes nothing of the queue shows a longer path. Of a rival's queue a dip
//! takes our part, so two of them also tell what the link carries, to a node that never had it alone.

use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::Ack;

/// Part of the link that is held. Two that take each other for a rival hold less than the link carries, so their queue goes.
const PART: f64 = 0.47;
/// Growth to it a round trip, while what comes is at least `GROWS_FROM` of what is held.
const GROWTH: f64 = 1.2;
const GROWS_FROM: f64 = 0.7;
/// What a round trip with a loss leaves.
const CUT: f64 = 0.85;
/// Time for which an overflow is a reason to suspect somebody.
const SUSPICION: Duration = Duration::from_secs(20);
/// Time for which one who was here may be back, and for which a dip that took the whole queue counts.
const MEMORY: Duration = Duration::from_secs(60);
/// The queue that overflowed, times this and some seconds more, is longer than a rival's.
const TOO_LONG: (f64, f64) = (1.5, 0.05);
/// Time between two dips, and round trips beside it.
const DIP_PERIOD: (Duration, u32) = (Duration::from_secs(6), 8);
/// The most that a dip takes of the window.
const DEPTH: f64 = 0.5;
/// For so much of a round trip a dip lasts.
const DIP: f64 = 0.8;
/// Bytes sent from so much of a round trip after its beginning on show what it took.
const SHOWN: f64 = 0.7;
/// Round trips after which a dip that showed nothing is void.
const DIP_ROUNDS: u32 = 3;
/// With twice so much of the round trip gone from our window a rival's queue is shorter by this part of it at least, and a longer
/// path is not.
const LEAST: f64 = 0.05;
/// A little more than twice, for a dip that is to tell.
const CLEAR: f64 = 2.1;
/// A dip as deep as that asks takes at most this part of the queue, or it would take a short one whole, whoever fills it.
const OF_QUEUE: f64 = 0.7;
/// Where we hold too little for a dip to tell: so many of them that take nothing in succession are a longer path as well.
const VAGUE: u32 = 3;
/// Of a queue that is ours alone a dip takes at least this part of what it can take; and so many of them in succession prove it.
const WHOLE: f64 = 0.85;
const ALONE: u32 = 2;
/// What is believed of what a first dip, and the lesser of two, say that the link carries: a rival that fills the gap makes it more.
const BELIEVED: (f64, f64) = (0.5, 0.8);
/// Part of the window that must be under way, or a dip proves nothing.
const FULL: f64 = 0.7;
/// Round trips for which nobody is taken for a rival after one that was none.
const REFUSED_ROUNDS: u32 = 4;
/// Round trips from a loss, when a rival yields, to the first dip; and the most from the first suspicion to it.
const FIRST_ROUNDS: (u32, u32) = (2, 6);
/// Round trips after which a suspicion without a proof is given up.
const UNPROVEN_ROUNDS: u32 = 12;

/// What an acknowledgement says of the rival.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rivalry {
    Lasts,
    /// The queue is empty, or longer than a rival's, or it seems ours.
    Over,
    /// It lasts, and the link carries at least so many bytes/s.
    Carries(f64),
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
    /// Dips in succession that took the whole queue, and when the last of them did.
    alone: (u32, Time),
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
    /// Dips in succession that took nothing.
    vague: u32,
    /// What the last dip said that the link carries, bytes/s.
    told: Option<f64>,
}

/// The window is shorter, and restored before it is known what that took.
#[derive(Clone, Copy, Debug)]
struct Dip {
    since: Time,
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
        let before = self.overflow.filter(|(at, _)| *at + SUSPICION > now);
        self.overflow = Some((now, before.map_or(queue, |(_, most)| most.max(queue))));
    }

    /// Whether there was one a moment ago.
    pub(super) fn was_here(&self, now: Time) -> bool {
        self.seen_at.is_some_and(|at| at + MEMORY > now)
    }

    /// Dips of late that took the whole queue, in succession.
    fn alone(&self, now: Time) -> u32 {
        let (count, at) = self.alone;
        if at + MEMORY > now { count } else { 0 }
    }

    /// Whether a queue that stands, and that should not, may be a rival's.
    pub(super) fn is_likely(&self, now: Time) -> bool {
        self.refused_until <= now
            && (self.overflow.is_some_and(|(at, _)| at + SUSPICION > now) || self.was_here(now))
    }

    /// A queue stands, and so many bytes/s come: whose it is will show, unless one was here a moment ago.
    pub(super) fn comes(&mut self, now: Time, rate: f64, carried: f64) {
        let is_proven = self.was_here(now) && self.alone(now) == 0;
        let held = if is_proven { rate.max(PART * carried) } else { rate };
        self.contest = Some(Contest {
            since: now,
            held,
            is_proven,
            rests_until: now,
            grown_at: now,
            dip: None,
            vague: 0,
            told: None,
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
        let is_given_up = !contest.is_proven && contest.since + round * UNPROVEN_ROUNDS <= now;
        if is_given_up || seen.queue > most {
            return self.ends(now + round * REFUSED_ROUNDS, Rivalry::Over);
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
            if contest.is_proven && seen.rate > GROWS_FROM * contest.held && contest.held < most {
                contest.held = (contest.held * GROWTH).min(most);
            }
        }
        self.dips(now, ack, seen)
    }

    fn ends(&mut self, refused_until: Time, how: Rivalry) -> Rivalry {
        (self.contest, self.refused_until) = (None, refused_until);
        how
    }

    fn dips(&mut self, now: Time, ack: &Ack, seen: Seen) -> Rivalry {
        let (Some(contest), round) = (&mut self.contest, span(seen.path + seen.queue)) else {
            return Rivalry::Over;
        };
        let Some(dip) = contest.dip else {
            let due = match contest.is_proven {
                true => self.dipped_at + DIP_PERIOD.0 + round * DIP_PERIOD.1,
                false => (self.lost_at + round * FIRST_ROUNDS.0)
                    .min(contest.since + round * FIRST_ROUNDS.1),
            };
            if due <= now && !ack.app_limited {
                contest.dip = contest.next_dip(now, ack, seen);
            }
            return Rivalry::Lasts;
        };
        if ack.app_limited || dip.since + round * DIP_ROUNDS <= now {
            // We have less to send, so a queue that goes is no proof of anything.
            (contest.dip, self.dipped_at) = (None, now);
            return Rivalry::Lasts;
        }
        if ack.sent_at < dip.shown_from {
            return Rivalry::Lasts;
        }
        (contest.dip, self.dipped_at) = (None, now);
        self.dipped(now, dip, seen)
    }

    /// A dip has shown what it took.
    fn dipped(&mut self, now: Time, dip: Dip, seen: Seen) -> Rivalry {
        let alone = self.alone(now);
        let Some(contest) = &mut self.contest else { return Rivalry::Over };
        let (round, taken) = (seen.path + dip.queue, dip.queue - seen.queue);
        // What it can take of a queue that is ours.
        let most = (dip.depth * round).min(dip.queue);
        if taken > WHOLE * most {
            self.alone = (alone + 1, now);
            let is_sure = alone + 1 >= ALONE;
            let how = if is_sure { Rivalry::Alone(dip.rate) } else { Rivalry::Over };
            if is_sure {
                self.forget();
            }
            return self.ends(now + span(seen.path + seen.queue) * REFUSED_ROUNDS, how);
        }
        self.alone = (0, now);
        if !contest.is_proven {
            (contest.is_proven, contest.held) = (true, contest.held.max(PART * seen.carried));
        } else if taken < LEAST * round {
            contest.vague += 1;
            // A node that does not know what the link carries does not know what to expect.
            let is_clear =
                seen.carried > 0.0 && contest.held * dip.depth > 2.0 * LEAST * seen.carried;
            if is_clear || contest.vague >= VAGUE {
                self.forget();
                return self.ends(now, Rivalry::LongerPath);
            }
        }
        if taken < LEAST * round {
            return Rivalry::Lasts;
        }
        contest.vague = 0;
        // Our part of the queue that went is our part of the link.
        let told = contest.held.min(dip.rate) * dip.depth * round / taken;
        let believed = match contest.told.replace(told) {
            Some(before) => BELIEVED.1 * told.min(before),
            None => BELIEVED.0 * told,
        };
        if believed > seen.carried { Rivalry::Carries(believed) } else { Rivalry::Lasts }
    }

    fn forget(&mut self) {
        (self.overflow, self.seen_at, self.alone) = (None, None, (0, Time::ZERO));
    }
}

impl Contest {
    /// The dip that may begin now; none where too little is under way.
    fn next_dip(&self, now: Time, ack: &Ack, seen: Seen) -> Option<Dip> {
        let Seen { path, queue, rate, carried, .. } = seen;
        let round = path + queue;
        if ack.in_flight.as_f64() < FULL * self.held * round {
            return None;
        }
        let mut depth = queue / round;
        if self.is_proven && CLEAR * LEAST * round < OF_QUEUE * queue {
            // So deep that nothing taken means something.
            depth = depth.max(CLEAR * LEAST * carried / self.held.max(1.0));
        }
        let [until, shown_from] = [DIP, SHOWN].map(|part| now + span(part * round));
        Some(Dip { since: now, until, depth: depth.min(DEPTH), shown_from, queue, rate })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const CARRIED: f64 = 1e6;

    fn seconds(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    /// What acknowledgements say of a path.
    struct Path {
        length: f64,
        carried: f64,
        lost: u64,
        is_idle: bool,
    }

    const PATH: Path = Path { length: 0.1, carried: CARRIED, lost: 0, is_idle: false };

    /// One acknowledgement of a byte that met such a queue, at such a rate.
    fn step(path: &Path, rival: &mut Rival, now: Time, (queue, rate): (f64, f64)) -> Rivalry {
        let rtt = span(path.length + queue);
        let ack = Ack {
            rtt,
            sent_at: now - rtt,
            delivered_at_send: Size::ZERO,
            reached_at: Time::ZERO,
            delivered: Size(1),
            newly: Size(1),
            in_flight: Size(1 << 30),
            lost: Size(path.lost),
            marked: Size::ZERO,
            is_timeout: false,
            app_limited: path.is_idle,
        };
        let (length, carried) = (path.length, path.carried);
        rival.acked(now, &ack, Seen { path: length, queue, target: 0.15 * length, rate, carried })
    }

    /// Acknowledgements of a packet each 10 ms over some seconds: queue and rate are what the closure says of what was held when
    /// the bytes were sent, a round trip before.
    fn play_on(
        path: &mut Path,
        rival: &mut Rival,
        [from, until]: [u64; 2],
        seen: impl Fn(f64) -> (f64, f64),
    ) -> Rivalry {
        let (mut held, mut rtt) = (VecDeque::new(), path.length);
        for turn in from * 100..until * 100 {
            let now = Time::from_millis(turn * 10);
            held.push_back((1.0 - rival.dip(now)) * rival.held().unwrap_or_default());
            while held.len() as f64 > 1.0 + rtt * 100.0 {
                held.pop_front();
            }
            let met = seen(held[0]);
            rtt = path.length + met.0;
            match step(path, rival, now, met) {
                Rivalry::Lasts => {}
                Rivalry::Carries(rate) => path.carried = rate,
                last => return last,
            }
        }
        Rivalry::Lasts
    }

    fn play(
        rival: &mut Rival,
        seconds: [u64; 2],
        lost: u64,
        seen: impl Fn(f64) -> (f64, f64),
    ) -> Rivalry {
        play_on(&mut Path { lost, ..PATH }, rival, seconds, seen)
    }

    fn likely() -> Rival {
        likely_at(1e5)
    }

    fn likely_at(rate: f64) -> Rival {
        let mut rival = Rival::default();
        assert!(!rival.is_likely(seconds(1)));
        rival.overflowed(seconds(2), 0.2);
        assert!(rival.is_likely(seconds(2)) && !rival.is_likely(seconds(23)));
        rival.comes(seconds(2), rate, CARRIED);
        assert_eq!(rival.held(), Some(rate), "what came, until a dip has shown whose queue it is");
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
        let elastic = |held: f64| (0.05 + held * 2e-7, held);
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
    }

    #[test]
    fn a_longer_path_is_noticed_however_little_is_held() {
        // A rival was here; the node is handed over to a path longer by a fifth, where nobody is.
        let mut rival = met();
        rival.contest.as_mut().unwrap().held = PART * CARRIED;
        let path = || Path { length: 0.2, ..PATH };
        let alone = |held: f64| (0.04, held);
        assert_eq!(
            play_on(&mut path(), &mut rival, [3, 15], alone),
            Rivalry::LongerPath,
            "the dip is so deep that it tells"
        );
        assert!(!rival.is_likely(seconds(15)));
        // Losses left next to nothing, of which half changes no queue.
        let mut rival = met();
        rival.contest.as_mut().unwrap().held = 0.02 * CARRIED;
        let little = |_: f64| (0.04, 0.01 * CARRIED);
        assert_eq!(play_on(&mut path(), &mut rival, [3, 18], little), Rivalry::Lasts);
        assert_eq!(play_on(&mut path(), &mut rival, [18, 40], little), Rivalry::LongerPath);
    }

    #[test]
    fn dips_tell_what_the_link_carries_to_one_who_never_had_it_alone() {
        // A fifth of the link is ours, and so is a fifth of its queue; the rest is one who was here first.
        let mut path = Path { carried: 0.0, ..PATH };
        let mut rival = likely_at(0.2 * CARRIED);
        let beside = |held: f64| (0.08 + 0.2 * held / CARRIED, held);
        assert_eq!(play_on(&mut path, &mut rival, [2, 40], beside), Rivalry::Lasts);
        assert!((0.7..1.2).contains(&(path.carried / CARRIED)), "{}", path.carried);
        assert!(rival.held().unwrap() > 0.3 * CARRIED, "{rival:?}");
    }

    #[test]
    fn one_who_has_nothing_more_to_send_proves_nothing_by_it() {
        let mut rival = met();
        let elastic = |held: f64| (0.05 + held * 2e-7, held);
        // The bulk ends within a dip, and the queue with it.
        let (mut path, mut last) = (PATH, Rivalry::Lasts);
        for turn in 300..2000 {
            path.is_idle |= rival.contest.is_some_and(|contest| contest.dip.is_some());
            let queue = elastic(if path.is_idle { -2.5e5 } else { 4e5 });
            last = step(&path, &mut rival, Time::from_millis(turn * 10), queue);
            if last != Rivalry::Lasts {
                break;
            }
        }
        assert!(path.is_idle && last == Rivalry::Over, "{last:?}");
        assert_eq!(rival.alone.0, 0);
    }

    #[test]
    fn a_dip_comes_though_packets_are_lost_all_the_time() {
        let mut rival = likely();
        assert_eq!(play(&mut rival, [2, 6], 1, |_| (0.14, 1e5)), Rivalry::Lasts);
        assert!(rival.contest.is_some_and(|contest| contest.is_proven));
    }
}
