//! What became of a camera's frames at a subscriber.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_frames::Rung;
use tidegate_frames::calibrate::Agreement;

use super::client::Came;

/// As long as frames must arrive in time before a step counts as got over.
const CALM_NS: u64 = 1_000_000_000;

/// A frame that was due, and how it came, if it did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fate {
    pub(super) due_ns: u64,
    pub(super) came: Option<Came>,
}

impl Fate {
    /// Of each frame in turn; of one that comes twice the first counts.
    pub(super) fn all(dues: impl Iterator<Item = u64>, came: &[Came]) -> Vec<Fate> {
        let by_due: BTreeMap<u64, Came> = came.iter().rev().map(|one| (one.due_ns, *one)).collect();
        dues.map(|due_ns| Fate { due_ns, came: by_due.get(&due_ns).copied() }).collect()
    }

    fn latency_ns(&self) -> Option<u64> {
        self.came.map(|came| came.at_ns.saturating_sub(self.due_ns))
    }

    /// Whether it came within the bound.
    pub(super) fn is_in_time(&self, bound: Duration) -> bool {
        self.latency_ns().is_some_and(|latency| u128::from(latency) <= bound.as_nanos())
    }
}

/// Sums of many frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Score {
    /// Frames that were due.
    pub(super) taken: u64,
    /// Of those that came, milliseconds.
    latencies: Vec<f64>,
    in_time: u64,
    accuracy: f64,
    age: f64,
    bytes: f64,
    /// How many came at each rung: eighths and quality.
    rungs: BTreeMap<(u32, u32), u64>,
    /// What a detector found on those that were looked at.
    seen: Option<Agreement>,
}

impl Score {
    pub(super) fn add(&mut self, fates: &[Fate], bound: Duration) {
        for fate in fates {
            self.taken += 1;
            self.in_time += u64::from(fate.is_in_time(bound));
            if let (Some(came), Some(latency)) = (fate.came, fate.latency_ns()) {
                self.latencies.push(latency as f64 / 1e6);
                self.accuracy += came.accuracy;
                self.age += came.age_ns as f64 / 1e6;
                self.bytes += came.bytes as f64;
                *self.rungs.entry(came.rung).or_default() += 1;
            }
        }
    }

    /// Adds what a detector found on a frame.
    pub(super) fn see(&mut self, agreement: Agreement) {
        self.seen = Some(self.seen.into_iter().chain([agreement]).sum());
    }

    /// F1 over all boxes of what a detector found, against what it finds on the frames as they were taken; NaN where
    /// nobody looked.
    pub(super) fn found(&self) -> f64 {
        self.seen.map_or(f64::NAN, |seen| seen.f1())
    }

    /// A quantile of the latency of frames that came, milliseconds; NaN where none did.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (part * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }

    /// Of those that were due, the part that came in time.
    pub(super) fn in_time(&self) -> f64 {
        self.in_time as f64 / self.taken as f64
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.latencies.len() as f64
    }

    /// Mean accuracy of those that came, by the ladder.
    pub(super) fn accuracy(&self) -> f64 {
        self.mean(self.accuracy)
    }

    /// Mean age at which those that came had left their node, milliseconds.
    pub(super) fn age(&self) -> f64 {
        self.mean(self.age)
    }

    /// Mean latency of those that came, milliseconds.
    pub(super) fn latency(&self) -> f64 {
        self.mean(self.latencies.iter().sum())
    }

    /// How many came at each rung, by eighths and quality.
    pub(super) fn rungs(&self) -> &BTreeMap<(u32, u32), u64> {
        &self.rungs
    }

    /// Mean bytes of those that came.
    pub(super) fn bytes(&self) -> f64 {
        self.mean(self.bytes)
    }
}

/// How long a step of the channel troubles: from the step to when the first frame was taken from which on all
/// frames of one second arrive within the bound. `None`: there is no such frame before `end_ns`.
pub(super) fn settled(
    fates: &[Fate],
    step_ns: u64,
    end_ns: u64,
    bound: Duration,
) -> Option<Duration> {
    let after: Vec<&Fate> =
        fates.iter().filter(|fate| (step_ns..end_ns).contains(&fate.due_ns)).collect();
    let is_calm = |first: &&&Fate| {
        let second = first.due_ns..first.due_ns + CALM_NS;
        second.end <= end_ns
            && after
                .iter()
                .filter(|fate| second.contains(&fate.due_ns))
                .all(|fate| fate.is_in_time(bound))
    };
    let first = after.iter().find(is_calm)?;
    Some(Duration::from_nanos(first.due_ns - step_ns))
}

/// How long until the quality is back after a step up: from the step to when a frame arrives within the bound
/// whose rung is at most one below the usual one (the middle one) between `before_ns.0` and `before_ns.1`.
pub(super) fn returned(
    fates: &[Fate],
    ladder: &[Rung],
    before_ns: (u64, u64),
    step_ns: u64,
    bound: Duration,
) -> Option<Duration> {
    // The source itself is above all rungs.
    let place = |came: &Came| {
        let is_it = |rung: &Rung| (rung.eighths.into(), rung.quality.into()) == came.rung;
        ladder.iter().position(is_it).unwrap_or(ladder.len())
    };
    let span = before_ns.0..before_ns.1;
    let before = fates.iter().filter(|fate| span.contains(&fate.due_ns));
    let mut places: Vec<usize> = before.filter_map(|fate| fate.came.as_ref()).map(place).collect();
    places.sort_unstable();
    let usual = *places.get(places.len() / 2)?;
    let back = fates.iter().filter(|fate| fate.due_ns >= step_ns && fate.is_in_time(bound));
    let back = back.filter_map(|fate| fate.came).find(|came| place(came) + 1 >= usual)?;
    Some(Duration::from_nanos(back.at_ns - step_ns))
}

#[cfg(test)]
mod tests {
    use tidegate_frames::knobs::Knobs;

    use super::*;

    const BOUND: Duration = Duration::from_millis(100);
    const MS: u64 = 1_000_000;

    fn fate(due_ms: u64, took_ms: Option<u64>, quality: u32) -> Fate {
        let due_ns = due_ms * MS;
        let came = |took: u64| Came {
            due_ns,
            at_ns: due_ns + took * MS,
            age_ns: 10 * MS,
            bytes: 1000,
            rung: (8, quality),
            accuracy: 0.9,
        };
        Fate { due_ns, came: took_ms.map(came) }
    }

    fn rung(quality: u8) -> Rung {
        let (accuracy, cost) = (0.9, Duration::ZERO);
        let eighths = 8;
        Rung {
            eighths,
            quality,
            is_gray: false,
            knobs: Knobs::default(),
            bytes: 1.0,
            accuracy,
            accuracy_low: 0.9,
            cost,
        }
    }

    #[test]
    fn quantiles_are_of_what_came_and_parts_of_what_was_due() {
        let mut score = Score::default();
        let fates = [(0, Some(50)), (100, Some(150)), (200, None), (300, Some(90))];
        score.add(&fates.map(|(due, took)| fate(due, took, 60)), BOUND);
        assert_eq!([score.quantile(0.5), score.quantile(0.99)], [90.0, 150.0]);
        assert!((score.in_time() - 0.5).abs() < 1e-9);
        assert!((score.latency() - 290.0 / 3.0).abs() < 1e-9);
        assert!((score.accuracy() - 0.9).abs() < 1e-9 && (score.age() - 10.0).abs() < 1e-9);
        assert!(Score::default().quantile(0.5).is_nan());
    }

    #[test]
    fn what_is_found_is_over_all_boxes() {
        let mut score = Score::default();
        assert!(score.found().is_nan(), "nobody looked");
        score.see(Agreement { both: 1, found: 1, truth: 3 });
        score.see(Agreement { both: 5, found: 6, truth: 5 });
        assert!((score.found() - 12.0 / 15.0).abs() < 1e-9);
    }

    #[test]
    fn of_a_frame_that_comes_twice_the_first_counts() {
        let [first, again] = [20, 70].map(|took| fate(5, Some(took), 60).came.unwrap());
        let fates = Fate::all([5 * MS, 9 * MS].into_iter(), &[first, again]);
        assert_eq!(fates, [Fate { due_ns: 5 * MS, came: Some(first) }, fate(9, None, 0)]);
    }

    #[test]
    fn a_step_is_over_where_a_second_of_frames_in_time_begins() {
        let took = |number: u64| match number {
            3 => None,
            4 => Some(300),
            7 => Some(101),
            _ => Some(100),
        };
        let fates: Vec<Fate> = (0..30).map(|one| fate(one * 200, took(one), 60)).collect();
        let end = 30 * 200 * MS;
        // Frame 3 is taken 100 ms after the step; 5 and 6 are in time and 7 is not.
        let over = settled(&fates, 500 * MS, end, BOUND);
        assert_eq!(over, Some(Duration::from_millis(1100)));
        assert_eq!(settled(&fates, 500 * MS, 2000 * MS, BOUND), None, "no second is left");
        assert_eq!(settled(&fates, 1600 * MS, end, BOUND), Some(Duration::ZERO));
    }

    #[test]
    fn quality_is_back_within_one_rung_of_before() {
        let ladder = [20, 40, 60, 80].map(rung);
        let frames = [(0, 80), (1, 80), (2, 60), (3, 20), (4, 40), (5, 60), (6, 80)];
        let fates: Vec<Fate> =
            frames.map(|(at, quality)| fate(at * 100, Some(50), quality)).to_vec();
        let before = (0, 300 * MS);
        let back = returned(&fates, &ladder, before, 300 * MS, BOUND);
        assert_eq!(back, Some(Duration::from_millis(250)), "frame 5 arrives at 550 ms");
        assert_eq!(returned(&fates, &ladder, (0, 0), 300 * MS, BOUND), None);
    }
}
