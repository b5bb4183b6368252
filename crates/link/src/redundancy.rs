//! How a record is guarded: at once if its deadline leaves no time for a repeat, late if it does.
//! Source: own; the number of repairs is the least for which a binomial tail is small enough.
//! Inputs: time left, arrival on each path, loss rates. Outputs: repairs, copies, or when to hedge. O(paths + repairs²)
//! a record.
//! Deviations: none.
//! Limits: `erasure_code::PIECES_MAX`, `erasure_code::REPAIRS_MAX`; what it may spend (`LinkOptions::guard_share`).

use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::erasure_code;
use super::outgoing_record::Protection;
use super::path_scheduler::PathView;

/// Part of the guarded records that may fail all the same: a fifth of those beyond a p99, for those behind them in
/// their streams are late with them.
const FAILURE: f64 = 0.002;
/// The same for a record of one piece: its repairs cost nothing that counts.
const FAILURE_SMALL: f64 = 0.000_2;
/// Loss below which a path counts as one that loses nothing.
const LOSS_MIN: f64 = 0.000_1;
/// What may be spent in one go, in bytes: a few large records.
const CREDIT_MAX: f64 = 128.0 * 1024.0;
/// Part of what the paths carry that may be spent whatever the records are: small ones want several copies of
/// themselves, and cost nothing that counts.
const FREE: f64 = 0.005;
/// What of that may be saved, in bytes.
const FREE_MAX: f64 = 8.0 * 1024.0;
/// Part of the virtual queues above which only what is free is spent, and nothing goes twice: it would delay all
/// that waits.
const FILLED_MAX: f64 = 0.5;
/// Seconds over which that is smoothed.
const FILLED_SPAN: f64 = 0.5;
/// A loss is known when a packet that went later is acknowledged: so much of the round trip later.
const PATIENCE: f64 = 1.125;
/// An answer is waited for so many mean deviations of round trips beyond the smoothed one, before a record is hedged:
/// where they vary, most of them are late and few are lost (docs/decisions/0042-hedges-wait-for-late-answers.md).
const DEVIATIONS: f64 = 2.0;

tidegate_types::named! {
    /// How far the link may go to keep a deadline.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum RedundancyName: "guard of deadlines" {
        /// What is lost is repeated, no more.
        Off = "off",
        /// Records for whose repeat there is no time go by two paths.
        Copy = "copy",
        /// They go with repairs, as many as their paths lose.
        #[default]
        Code = "code",
    }
}

/// The guard of one link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Redundancy {
    name: RedundancyName,
    /// What may be spent for each byte of a record.
    share: f64,
    /// What was saved and not spent, bytes: of the records' share, and of what is free.
    credit: f64,
    free: f64,
    /// When a record asked last.
    asked_at: Time,
    /// The peer's window has kept a record from beginning within the last round trip: what is lost holds up all that
    /// wait, and the paths have room.
    is_blocked: bool,
    /// Part of the virtual queues that is filled, smoothed, and when that was looked at last.
    filled: f64,
    observed_at: Time,
}

/// Seconds until a part arrives that joins this path's queue now.
pub(super) fn arrival(path: &PathView) -> f64 {
    let wait = if path.pace > 0.0 { path.queued / path.pace } else { 0.0 };
    path.predicted_delay + wait
}

/// Seconds until a part arrives that is lost on this path and sent again by the best of all.
pub(super) fn arrival_after_loss(path: &PathView, paths: &[PathView]) -> f64 {
    let again = paths.iter().map(|other| other.predicted_delay).fold(f64::INFINITY, f64::min);
    let wait = arrival(path) - path.predicted_delay;
    wait + PATIENCE * path.detection + again
}

/// Loss rate of the paths on which a part is in time that has `left` seconds, each as far as it is used.
fn loss_in_time(paths: &[PathView], left: f64) -> f64 {
    let in_time = || paths.iter().filter(|path| arrival(path) <= left);
    let weight = |path: &PathView| path.window.max(1.0);
    let sum: f64 = in_time().map(weight).sum();
    in_time().map(|path| weight(path) * path.loss_rate).sum::<f64>() / sum.max(1.0)
}

/// As many repairs as repeats are to be expected, which they stand for: sent at once they cost little more, and no
/// round trip.
fn expected(pieces: u32, loss: f64) -> u32 {
    let loss = loss.clamp(0.0, 0.5);
    (f64::from(pieces) * loss / (1.0 - loss)).round() as u32
}

/// The least number of repairs, at most `most`, with which more parts than that are lost so rarely.
fn repairs(pieces: u32, loss: f64, most: u32) -> u32 {
    let loss = loss.clamp(0.0, 0.5);
    let failure = if pieces == 1 { FAILURE_SMALL } else { FAILURE };
    (0..most).find(|&repairs| tail(pieces + repairs, repairs, loss) <= failure).unwrap_or(most)
}

/// The probability that of so many packets more than `most` are lost.
fn tail(packets: u32, most: u32, loss: f64) -> f64 {
    let packets = f64::from(packets);
    let mut exactly = (1.0 - loss).powf(packets);
    let mut sum = exactly;
    for lost in 0..most {
        let lost = f64::from(lost);
        exactly *= (packets - lost) / (lost + 1.0) * loss / (1.0 - loss);
        sum += exactly;
    }
    1.0 - sum
}

impl Redundancy {
    /// `share`: what may be spent for each byte of a record.
    pub(super) fn new(name: RedundancyName, share: f64) -> Self {
        Redundancy {
            name,
            share,
            credit: CREDIT_MAX,
            free: FREE_MAX,
            asked_at: Time::ZERO,
            is_blocked: false,
            filled: 0.0,
            observed_at: Time::ZERO,
        }
    }

    /// How a record of so many pieces, of `length` bytes each, is sent that has `left` seconds.
    pub(super) fn protect(
        &mut self,
        now: Time,
        paths: &[PathView],
        left: f64,
        pieces: u32,
        length: f64,
    ) -> Protection {
        let mut protection = Protection::default();
        self.earn(now, paths, f64::from(pieces) * length);
        let first = paths.iter().min_by(|one, other| arrival(one).total_cmp(&arrival(other)));
        let Some(first) = first.filter(|first| arrival(first) <= left) else { return protection };
        let has_time = left >= arrival_after_loss(first, paths);
        let loss = loss_in_time(paths, left);
        if has_time || loss < LOSS_MIN {
            protection.hedge = self.hedge(now, first, paths, left);
        }
        if loss < LOSS_MIN || self.name == RedundancyName::Off {
            return protection;
        }
        let affordable = if self.is_full() { self.free } else { self.free + self.credit };
        let most = ((affordable / length.max(1.0)) as u32).min(erasure_code::REPAIRS_MAX as u32);
        match self.name {
            RedundancyName::Copy if !has_time => {
                protection.is_doubled = f64::from(pieces) * length <= affordable;
                self.spend(if protection.is_doubled { f64::from(pieces) * length } else { 0.0 });
            }
            RedundancyName::Code if pieces as usize <= erasure_code::PIECES_MAX => {
                let repairs = match (has_time && !self.is_blocked, self.is_full()) {
                    (false, _) => repairs(pieces, loss, most),
                    (true, false) => expected(pieces, loss).min(most),
                    (true, true) => 0,
                };
                self.spend(f64::from(repairs) * length);
                protection.repairs = repairs as u8;
            }
            _ => {}
        }
        protection
    }

    /// A record of so many bytes brings its share, and time what is free.
    fn earn(&mut self, now: Time, paths: &[PathView], bytes: f64) {
        let span = now.since(self.asked_at).as_secs_f64().min(1.0);
        let pace: f64 = paths.iter().map(|path| path.pace).sum();
        self.free = (self.free + FREE * pace * span).min(FREE_MAX);
        self.asked_at = now;
        self.credit = (self.credit + self.share * bytes).min(CREDIT_MAX);
    }

    /// When a copy by another path is still in time: as late as can be, but not before the first path could have
    /// answered.
    fn hedge(&self, now: Time, first: &PathView, paths: &[PathView], left: f64) -> Option<Time> {
        let others = paths.iter().filter(|other| other.path != first.path);
        let latest = others.map(|other| left - arrival(other) - other.rtt_variation);
        let latest = latest.fold(f64::NEG_INFINITY, f64::max);
        let late = first.detection + DEVIATIONS * first.rtt_variation;
        let answer = late.max(PATIENCE * first.detection);
        let answered = arrival(first) - first.predicted_delay + answer;
        let is_any = self.name != RedundancyName::Off && latest.is_finite();
        is_any.then(|| now + Duration::from_secs_f64(latest.max(answered)))
    }

    /// Whether a copy of so many bytes may go, which is paid for then.
    pub(super) fn pay(&mut self, bytes: Size) -> bool {
        let is_affordable = !self.is_full() && bytes.as_f64() <= self.free + self.credit;
        self.spend(if is_affordable { bytes.as_f64() } else { 0.0 });
        is_affordable
    }

    /// So much of the virtual queues is filled, in [0, 1].
    pub(super) fn observe(&mut self, now: Time, filled: f64) {
        let span = now.since(self.observed_at).as_secs_f64();
        self.filled += (1.0 - (-span / FILLED_SPAN).exp()) * (filled - self.filled);
        self.observed_at = now;
    }

    /// Whether the peer's window has kept a record from beginning within the last round trip.
    pub(super) fn blocked(&mut self, is_blocked: bool) {
        self.is_blocked = is_blocked;
    }

    /// Whether the paths have no room for anything but records.
    pub(super) fn is_full(&self) -> bool {
        self.filled > FILLED_MAX
    }

    fn spend(&mut self, bytes: f64) {
        let from_free = bytes.min(self.free);
        self.free -= from_free;
        self.credit -= bytes - from_free;
    }
}

#[cfg(test)]
mod tests {
    use super::super::path_scheduler::trial_path;
    use super::*;

    const START: Time = Time::from_millis(1000);

    /// Two paths of 70 and 90 ms one way, which lose a tenth.
    fn paths() -> [PathView; 2] {
        let near = PathView {
            predicted_delay: 0.070,
            srtt: 0.140,
            detection: 0.140,
            loss_rate: 0.1,
            window: 1e6,
            pace: 1e6,
            ..trial_path()
        };
        [near, PathView { path: 1, predicted_delay: 0.090, ..near }]
    }

    fn is_any(protection: Protection) -> bool {
        protection != Protection::default()
    }

    fn protect(name: RedundancyName, left: f64, pieces: u32) -> Protection {
        Redundancy::new(name, 0.45).protect(START, &paths(), left, pieces, 1000.0)
    }

    #[test]
    fn the_tail_of_a_binomial_is_summed() {
        // By hand: 1 - 0.9² and 1 - 0.9³ - 3 · 0.1 · 0.9².
        assert!((tail(2, 0, 0.1) - 0.19).abs() < 1e-12);
        assert!((tail(3, 1, 0.1) - 0.028).abs() < 1e-12);
        assert!(tail(200, 100, 0.0).abs() < 1e-12);
    }

    #[test]
    fn there_are_as_many_repairs_as_a_tail_of_two_thousandths_wants() {
        // One piece: 0.1⁴ is 0.0001. Ten: of 14 more than 4 are lost with 0.0092, of 15 more than 5 with 0.0022,
        // of 16 more than 6 with 0.0005.
        assert_eq!([repairs(1, 0.1, 99), repairs(10, 0.1, 99)], [3, 6]);
        assert_eq!([repairs(1, 0.01, 99), repairs(1, 0.000_19, 99), repairs(1, 0.1, 1)], [1, 0, 1]);
        assert_eq!(repairs(128, 1.0, 128), 128);
    }

    #[test]
    fn a_record_is_guarded_if_it_can_be_in_time_and_its_repeat_cannot() {
        // A loss is known after 9/8 of 140 ms, and its repeat takes 70: 227.5 ms.
        for (left, repairs) in [(0.060, 0), (0.071, 6), (0.227, 6), (0.228, 1), (-1.0, 0)] {
            assert_eq!(protect(RedundancyName::Code, left, 10).repairs, repairs, "{left}");
        }
        let hedge =
            |name, left| protect(name, left, 10).hedge.map(|at| at.since(START).as_millis());
        // 90 ms by the other path; but not before the first could have answered.
        assert_eq!(hedge(RedundancyName::Code, 0.400), Some(310));
        assert_eq!(hedge(RedundancyName::Copy, 0.230), Some(157));
        let vary = paths().map(|path| PathView { rtt_variation: 0.050, ..path });
        let guard = Redundancy::new(RedundancyName::Code, 0.45);
        let late = guard.hedge(START, &vary[0], &vary, 0.230);
        assert_eq!(late.map(|at| at.since(START).as_millis()), Some(240), "140 and twice 50");
        assert_eq!(
            [hedge(RedundancyName::Code, 0.227), hedge(RedundancyName::Off, 0.400)],
            [None, None]
        );
        assert!(protect(RedundancyName::Copy, 0.2, 10).is_doubled);
        assert!(!is_any(protect(RedundancyName::Off, 0.2, 10)));
        assert!(!is_any(protect(RedundancyName::Code, 0.2, 129)));
    }

    #[test]
    fn paths_that_lose_nothing_or_are_full_guard_nothing_but_what_is_small() {
        let mut guard = Redundancy::new(RedundancyName::Code, 0.45);
        let sound = paths().map(|path| PathView { loss_rate: 0.0, ..path });
        let late = guard.protect(START, &sound, 0.2, 10, 1e3);
        assert_eq!((late.repairs, late.hedge.is_some()), (0, true), "an answer may be late");
        guard.observe(START, 0.0);
        guard.observe(START + Duration::from_millis(100), 1.0);
        assert!(!guard.is_full(), "a burst is no load");
        assert!(guard.protect(START, &paths(), 0.2, 100, 1e3).repairs > 20);
        guard.observe(START + Duration::from_secs(1), 1.0);
        assert!(guard.is_full());
        assert!(guard.protect(START + Duration::from_secs(1), &paths(), 0.2, 100, 1e3).repairs < 9);
        let later = START + Duration::from_secs(2);
        assert_eq!(guard.protect(later, &paths(), 0.2, 1, 100.0).repairs, 3);
    }

    #[test]
    fn a_record_with_time_has_the_repairs_that_stand_for_its_repeats() {
        // Of ten packets 1.1 are repeated, of four 0.4, of fifty 5.6.
        assert_eq!([10, 4, 50].map(|pieces| expected(pieces, 0.1)), [1, 0, 6]);
        let mut guard = Redundancy::new(RedundancyName::Code, 0.45);
        assert_eq!(guard.protect(START, &paths(), 2.0, 50, 1e3).repairs, 6);
        guard.blocked(true);
        assert!(guard.protect(START, &paths(), 2.0, 50, 1e3).repairs > 10, "all wait for it");
        guard.blocked(false);
        guard.observe(START + Duration::from_secs(5), 1.0);
        assert_eq!(guard.protect(START, &paths(), 2.0, 50, 1e3).repairs, 0, "full paths");
        assert_eq!(protect(RedundancyName::Copy, 2.0, 50).repairs, 0);
    }

    #[test]
    fn in_the_long_run_no_more_is_spent_than_the_share() {
        for name in [RedundancyName::Code, RedundancyName::Copy] {
            let mut guard = Redundancy::new(name, 0.3);
            // Ten megabytes at once: nothing is earned by time.
            let spent = |_| {
                let protection = guard.protect(START, &paths(), 0.2, 10, 1000.0);
                f64::from(protection.repairs) + if protection.is_doubled { 10.0 } else { 0.0 }
            };
            let spent: f64 = (0..1000).map(spent).sum::<f64>() * 1000.0;
            assert!((0.9..1.05).contains(&((spent - CREDIT_MAX - FREE_MAX) / 3e6)), "{spent}");
        }
    }

    #[test]
    fn what_is_small_is_guarded_whatever_the_share() {
        let mut guard = Redundancy::new(RedundancyName::Code, 0.0);
        let guarded = |n: u64| {
            let at = START + Duration::from_millis(100 * n);
            guard.protect(at, &paths(), 0.2, 1, 100.0).repairs == 3
        };
        assert!((0..2000).all(guarded), "two megabits carry ten alarms a second three times more");
    }

    #[test]
    fn names_are_those_of_the_configuration() {
        for name in RedundancyName::ALL {
            assert_eq!(name.name().parse(), Ok(name));
        }
        assert!("prayer".parse::<RedundancyName>().unwrap_err().contains("code"));
    }
}
