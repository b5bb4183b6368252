//! Serves each class at the rate that it was given, and no faster.
//! Source: papers/janus.txt, §V-A, "bandwidth allocation will take effect on each queue".
//! Inputs: bytes/s of each class, the next piece of each, bytes sent. Outputs: the class to serve; when one
//! that must wait may go on. O(classes) a pick.
//! Deviations: the paper does not say how a queue is held to its rate; here by a token bucket that may be
//! overdrawn by one piece and saves one interval's worth (docs/ALGORITHMS.md#throttle).
//! Limits: CLASSES_MAX buckets.

use std::time::Duration;

use tidegate_types::class::ClassId;
use tidegate_types::units::{Rate, Size, Time};

use crate::queue::Timing;
use crate::scheduler::{Choice, ClassView};

/// A bucket this empty is full enough: times are whole nanoseconds, levels are not.
const TOLERANCE: f64 = 0.5;

/// Bytes that may go at once, filled at a rate. A piece goes when the ones before it are paid for.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    rate: f64,
    level: f64,
}

impl Bucket {
    fn fill(&mut self, span: Duration, depth: Duration) {
        self.level = (self.level + self.rate * span.as_secs_f64()).min(self.most(depth));
    }

    fn most(&self, depth: Duration) -> f64 {
        self.rate * depth.as_secs_f64()
    }

    fn may_send(&self) -> bool {
        self.rate > 0.0 && self.level >= -TOLERANCE
    }

    /// How long until it may send; `None` without a rate.
    fn wait(&self) -> Option<Duration> {
        (self.rate > 0.0).then(|| {
            let wait = Rate::new(self.rate).time_for(Size((-self.level).max(0.0).ceil() as u64));
            // Rounded up: a timer that fires a nanosecond early would fire twice.
            wait + Duration::from_nanos(1)
        })
    }
}

/// The buckets of an uplink's classes.
#[derive(Debug)]
pub(super) struct Throttle {
    classes: Vec<Bucket>,
    /// Of what any class may use whose own bucket is empty.
    lent: Bucket,
    /// What a bucket saves: so long at its rate.
    depth: Duration,
    filled_at: Time,
    /// The capacity is unknown: nothing is held back.
    is_open: bool,
}

impl Throttle {
    /// For so many classes, holding nothing back until rates are given; `depth` is the interval.
    pub(super) fn new(classes: usize, depth: Duration) -> Self {
        Throttle {
            classes: vec![Bucket::default(); classes],
            lent: Bucket::default(),
            depth,
            filled_at: Time::ZERO,
            is_open: true,
        }
    }

    /// Holds nothing back: the most urgent class goes first.
    pub(super) fn open(&mut self) {
        self.is_open = true;
    }

    /// New rates from now on: of each class and of what is lent, each `gain` times (>= 1). What a bucket
    /// owes it still owes; what it saved is cut to the new rate's worth.
    pub(super) fn set(&mut self, now: Time, rates: &[Rate], lent: Rate, gain: f64) {
        self.fill(now);
        self.is_open = false;
        let rates = rates.iter().chain([&lent]);
        for (bucket, rate) in self.classes.iter_mut().chain([&mut self.lent]).zip(rates) {
            bucket.rate = rate.as_f64() * gain;
            bucket.level = bucket.level.min(bucket.most(self.depth));
        }
    }

    /// The most urgent class that has something and may send.
    pub(super) fn next(&mut self, now: Time, views: &[ClassView]) -> Option<Choice> {
        self.fill(now);
        let may_send = |bucket: &Bucket| self.is_open || bucket.may_send();
        let is_lent = may_send(&self.lent);
        let first = |(bucket, view): (&Bucket, &ClassView)| {
            view.live.is_some() && (is_lent || may_send(bucket))
        };
        let place = self.classes.iter().zip(views).position(first)?;
        Some(Choice { class: ClassId(place as u8), timing: Timing::Live })
    }

    /// A class sent: from its own bucket if that may, else from what is lent.
    pub(super) fn sent(&mut self, now: Time, class: ClassId, bytes: Size) {
        self.fill(now);
        if self.is_open {
            return;
        }
        let own = &mut self.classes[class.index()];
        let is_own = own.may_send() || !self.lent.may_send();
        let bucket = if is_own { own } else { &mut self.lent };
        bucket.level -= bytes.as_f64();
    }

    /// When a class that waits for its bucket may send; `None` where none does, or only new rates help.
    pub(super) fn next_timeout(&self, views: &[ClassView]) -> Option<Time> {
        if self.is_open || self.lent.may_send() {
            return None;
        }
        let classes = self.classes.iter().zip(views);
        let waiting = classes.filter(|(own, view)| view.live.is_some() && !own.may_send());
        let waits = waiting.flat_map(|(own, _)| [own.wait(), self.lent.wait()]);
        waits.flatten().min().map(|wait| self.filled_at + wait)
    }

    fn fill(&mut self, now: Time) {
        let span = now.since(self.filled_at);
        self.filled_at = self.filled_at.max(now);
        for bucket in self.classes.iter_mut().chain([&mut self.lent]) {
            bucket.fill(span, self.depth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NextCut;

    const DEPTH: Duration = Duration::from_millis(50);
    const PIECE: ClassView = ClassView {
        live: Some(NextCut { size: Size(1000), order: 0 }),
        late: None,
        has_live: true,
        has_late: false,
    };
    const NONE: ClassView = ClassView { live: None, late: None, has_live: false, has_late: false };

    fn throttle(rates: [f64; 3], lent: f64) -> Throttle {
        let mut throttle = Throttle::new(3, DEPTH);
        throttle.set(Time::ZERO, &rates.map(Rate::new), Rate::new(lent), 1.0);
        throttle
    }

    /// Bytes that each class gets until `end`, on a wire without bounds.
    fn serve(throttle: &mut Throttle, views: &[ClassView; 3], end: Time) -> [u64; 3] {
        let (mut sent, mut now) = ([0; 3], throttle.filled_at);
        loop {
            match throttle.next(now, views) {
                Some(choice) => {
                    sent[choice.class.index()] += 1000;
                    throttle.sent(now, choice.class, Size(1000));
                }
                None => match throttle.next_timeout(views) {
                    Some(at) if at <= end => {
                        assert!(at > now, "a timeout in the past");
                        now = at;
                    }
                    _ => return sent,
                },
            }
        }
    }

    #[test]
    fn each_class_gets_its_rate_and_nothing_of_the_others() {
        let end = Time::from_millis(10_000);
        let mut buckets = throttle([20_000.0, 10_000.0, 1_000.0], 0.0);
        let got = serve(&mut buckets, &[PIECE; 3], end);
        // At most a piece above its rate: a bucket is overdrawn by one.
        let is_kept = |got: u64, rate: u64| (10 * rate..=10 * rate + 1_000).contains(&got);
        assert!(is_kept(got[0], 20_000) && is_kept(got[1], 10_000) && is_kept(got[2], 1_000));
        let mut buckets = throttle([20_000.0, 10_000.0, 1_000.0], 0.0);
        let got = serve(&mut buckets, &[NONE, NONE, PIECE], end);
        assert!(got[0] == 0 && got[1] == 0 && is_kept(got[2], 1_000), "{got:?}");
    }

    #[test]
    fn what_is_lent_goes_to_the_most_urgent_that_has_something() {
        let end = Time::from_millis(10_000);
        let views = [NONE, PIECE, PIECE];
        let mut buckets = throttle([20_000.0, 10_000.0, 0.0], 5_000.0);
        let got = serve(&mut buckets, &views, end);
        assert_eq!(got[0], 0);
        assert!((149_000..=153_000).contains(&(got[1] + got[2])), "{got:?}");
        assert!(got[1] >= 149_000, "{got:?}");
    }

    #[test]
    fn a_class_without_a_rate_waits_for_a_new_one() {
        let mut buckets = throttle([0.0; 3], 0.0);
        assert_eq!(buckets.next(Time::from_millis(900), &[PIECE; 3]), None);
        assert_eq!(buckets.next_timeout(&[PIECE; 3]), None);
        buckets.set(Time::from_millis(950), &[1.0; 3].map(Rate::new), Rate::ZERO, 1.0);
        let choice = buckets.next(Time::from_millis(950), &[NONE, PIECE, PIECE]).unwrap();
        assert_eq!(choice.class, ClassId(1));
    }

    #[test]
    fn silence_saves_no_more_than_an_interval() {
        let mut buckets = throttle([100_000.0, 0.0, 0.0], 0.0);
        let late = Time::from_millis(60_000);
        assert!(buckets.next(late, &[NONE; 3]).is_none());
        // 50 ms of 100 kB/s are 5 kB: five pieces, and the one that overdraws.
        assert_eq!(serve(&mut buckets, &[PIECE; 3], late), [6_000, 0, 0]);
    }

    #[test]
    fn debts_outlive_new_rates() {
        let mut buckets = throttle([100_000.0, 0.0, 0.0], 0.0);
        let now = Time::from_millis(1);
        buckets.sent(now, ClassId(0), Size(10_100)); // 10 kB are owed
        buckets.set(now, &[1e6, 0.0, 0.0].map(Rate::new), Rate::ZERO, 1.0);
        assert_eq!(buckets.next(now, &[PIECE; 3]), None);
        let at = buckets.next_timeout(&[PIECE; 3]).unwrap();
        assert_eq!(at, now + Duration::from_millis(10) + Duration::from_nanos(1));
        assert!(buckets.next(at, &[PIECE; 3]).is_some());
    }

    #[test]
    fn an_unknown_capacity_holds_nothing_back() {
        let mut buckets = throttle([0.0; 3], 0.0);
        buckets.open();
        for _ in 0..1000 {
            assert_eq!(buckets.next(Time::ZERO, &[NONE, PIECE, PIECE]).unwrap().class, ClassId(1));
            buckets.sent(Time::ZERO, ClassId(1), Size(1000));
        }
        assert_eq!(buckets.next_timeout(&[PIECE; 3]), None);
    }
}
