//! How good a way to encode a frame is: what a detector finds on it, beside what it finds on the source.
//! Source: papers/mez.txt, §IV-B: bytes and normalised F1 of each setting, measured offline.
//! Inputs: boxes on sources and on what was made of them, bytes, costs. Outputs: a rung with intervals.
//! Deviations: an interval beside each figure; the paper has none (docs/algorithms-frames.md#calibrate).
//! Limits: `BOXES_MAX`; `DRAWS`.

use std::time::Duration;

use tidegate_types::random::SplitMix;

use super::Rung;

/// Boxes of a frame that are looked at; no detector of scenes finds more of use.
pub const BOXES_MAX: usize = 1000;
/// Intersection over union from which on two boxes are the same.
const SAME: f64 = 0.5;
/// Draws of frames, with replacement, for the intervals.
const DRAWS: usize = 1000;
/// Ends of the 95 % interval.
const ENDS: (f64, f64) = (0.025, 0.975);

/// Something that a detector found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detection {
    /// Left, top, width and height, pixels.
    pub place: [f64; 4],
    /// What it is; only boxes of one label can be the same.
    pub label: u32,
}

/// How many boxes agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// On both.
    pub both: u64,
    /// On what was made of the source.
    pub found: u64,
    /// On the source.
    pub truth: u64,
}

/// One frame, encoded in one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// What was found on it.
    pub agreement: Agreement,
    /// Its bytes.
    pub bytes: u64,
    /// Processor time to make it.
    pub cost: Duration,
}

/// A rung, with what its mean and its lower end do not say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredRung {
    /// As a ladder takes it.
    pub rung: Rung,
    /// Upper end of the accuracy's 95 % interval.
    pub accuracy_high: f64,
    /// Bytes of frames: the 10 %, 50 % and 90 % quantile.
    pub bytes_quantiles: [f64; 3],
}

impl Detection {
    /// The same on an image that is this many times as wide and as high.
    #[must_use]
    pub fn scaled(self, wide: f64, high: f64) -> Self {
        let [left, top, width, height] = self.place;
        Detection { place: [left * wide, top * high, width * wide, height * high], ..self }
    }

    /// Intersection over union, 0 to 1.
    fn overlap(&self, other: &Detection) -> f64 {
        let along = |axis: usize| {
            let (one, two) = (&self.place, &other.place);
            let end = (one[axis] + one[axis + 2]).min(two[axis] + two[axis + 2]);
            (end - one[axis].max(two[axis])).max(0.0)
        };
        let both = along(0) * along(1);
        let area = |found: &Detection| found.place[2] * found.place[3];
        let either = area(self) + area(other) - both;
        if either > 0.0 { both / either } else { 0.0 }
    }
}

impl Agreement {
    /// Compares what was found with the truth, both in the source's pixels: each box counts once.
    pub fn of(truth: &[Detection], found: &[Detection]) -> Self {
        let (truth, found) =
            (&truth[..truth.len().min(BOXES_MAX)], &found[..found.len().min(BOXES_MAX)]);
        let mut left: Vec<&Detection> = found.iter().collect();
        let mut both = 0;
        for one in truth {
            let rivals = left.iter().enumerate().filter(|(_, other)| other.label == one.label);
            let best = rivals
                .map(|(at, other)| (at, one.overlap(other)))
                .max_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((at, overlap)) = best
                && overlap >= SAME
            {
                left.swap_remove(at);
                both += 1;
            }
        }
        Agreement { both, found: found.len() as u64, truth: truth.len() as u64 }
    }

    /// Twice what agrees over all boxes; 1 where there are none.
    pub fn f1(&self) -> f64 {
        match self.found + self.truth {
            0 => 1.0,
            all => 2.0 * self.both as f64 / all as f64,
        }
    }
}

impl std::iter::Sum for Agreement {
    fn sum<I: Iterator<Item = Agreement>>(all: I) -> Self {
        all.fold(Agreement::default(), |sum, one| Agreement {
            both: sum.both + one.both,
            found: sum.found + one.found,
            truth: sum.truth + one.truth,
        })
    }
}

/// The rung that these samples measure. The accuracy is the F1 over all boxes; its interval is of draws of
/// frames, which `seed` repeats, so that all rungs see the same draws. `rung` says how they were made.
///
/// # Panics
/// There are no samples.
pub fn measure(rung: &Rung, samples: &[Sample], seed: u64) -> MeasuredRung {
    assert!(!samples.is_empty(), "a rung is measured on frames");
    let count = samples.len();
    let accuracy = samples.iter().map(|sample| sample.agreement).sum::<Agreement>().f1();
    let mut random = SplitMix(seed);
    let mut drawn: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let draw = (0..count).map(|_| samples[random.below(count)].agreement);
            draw.sum::<Agreement>().f1()
        })
        .collect();
    drawn.sort_by(f64::total_cmp);
    let mut bytes: Vec<f64> = samples.iter().map(|sample| sample.bytes as f64).collect();
    bytes.sort_by(f64::total_cmp);
    let cost = samples.iter().map(|sample| sample.cost).sum::<Duration>() / count as u32;
    MeasuredRung {
        rung: Rung {
            bytes: bytes.iter().sum::<f64>() / count as f64,
            accuracy,
            accuracy_low: quantile(&drawn, ENDS.0).min(accuracy),
            cost,
            ..*rung
        },
        accuracy_high: quantile(&drawn, ENDS.1).max(accuracy),
        bytes_quantiles: [0.1, 0.5, 0.9].map(|part| quantile(&bytes, part)),
    }
}

/// Those that no other beats in both bytes and accuracy, by rising bytes; one that takes fewer bytes and is
/// as good beats.
pub fn front(mut all: Vec<MeasuredRung>) -> Vec<MeasuredRung> {
    all.sort_by(|a, b| {
        let bytes = a.rung.bytes.total_cmp(&b.rung.bytes);
        bytes.then(b.rung.accuracy.total_cmp(&a.rung.accuracy))
    });
    let mut best = f64::NEG_INFINITY;
    all.retain(|one| {
        let is_better = one.rung.accuracy > best;
        best = best.max(one.rung.accuracy);
        is_better
    });
    all
}

/// Of sorted numbers, between neighbours in a straight line.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::super::ladder::tests::rung;
    use super::*;

    fn found(left: f64, width: f64) -> Detection {
        Detection { place: [left, 0.0, width, 10.0], label: 0 }
    }

    #[test]
    fn boxes_that_share_half_are_one() {
        // 10 and 10 wide, 5 shared: 5 of 15. 10 in 20: a half.
        let none = Agreement::of(&[found(0.0, 10.0)], &[found(5.0, 10.0)]);
        assert_eq!(none, Agreement { both: 0, found: 1, truth: 1 });
        let half = Agreement::of(&[found(0.0, 10.0)], &[found(0.0, 20.0)]);
        assert_eq!((half.both, half.f1()), (1, 1.0));
        let other = Detection { label: 1, ..found(0.0, 10.0) };
        assert_eq!(Agreement::of(&[found(0.0, 10.0)], &[other]).both, 0, "another label");
    }

    #[test]
    fn each_box_counts_once() {
        let twice = [found(0.0, 10.0), found(0.0, 10.0)];
        let agreement = Agreement::of(&[found(0.0, 10.0)], &twice);
        assert_eq!(agreement, Agreement { both: 1, found: 2, truth: 1 });
        assert!((agreement.f1() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(Agreement::default().f1(), 1.0, "nothing there, nothing found");
    }

    #[test]
    fn boxes_of_a_smaller_image_are_brought_to_the_sources_pixels() {
        let small = Detection { place: [1.0, 2.0, 3.0, 4.0], label: 7 };
        assert_eq!(small.scaled(2.0, 4.0), Detection { place: [2.0, 8.0, 6.0, 16.0], label: 7 });
    }

    #[test]
    fn no_place_of_a_box_makes_it_panic() {
        let odd = [f64::NAN, f64::INFINITY, -1.0, 0.0];
        let boxes: Vec<Detection> =
            odd.iter().map(|&at| Detection { place: [at, at, at, at], label: 0 }).collect();
        assert_eq!(Agreement::of(&boxes, &boxes).truth, 4);
    }

    #[test]
    fn a_rung_has_means_and_intervals() {
        let sample = |both, bytes| Sample {
            agreement: Agreement { both, found: 10, truth: 10 },
            bytes,
            cost: Duration::from_micros(bytes),
        };
        let samples = [sample(10, 1000), sample(8, 2000), sample(9, 3000)];
        let measured = measure(&rung(1.0, 0.0), &samples, 1);
        assert_eq!(measured, measure(&rung(1.0, 0.0), &samples, 1), "the same each time");
        assert!((measured.rung.accuracy - 0.9).abs() < 1e-12);
        assert!((measured.rung.bytes - 2000.0).abs() < 1e-9);
        assert_eq!(measured.bytes_quantiles, [1200.0, 2000.0, 2800.0]);
        assert_eq!(measured.rung.cost, Duration::from_millis(2));
        let (low, high) = (measured.rung.accuracy_low, measured.accuracy_high);
        assert!((0.79..0.9).contains(&low) && (0.9..=1.0).contains(&high), "{low} {high}");
    }

    #[test]
    fn what_is_beaten_is_no_rung() {
        let one = |bytes, accuracy| MeasuredRung {
            rung: rung(bytes, accuracy),
            accuracy_high: accuracy,
            bytes_quantiles: [bytes; 3],
        };
        let all = vec![one(4e4, 0.96), one(5e4, 0.96), one(1e4, 0.8), one(2e4, 0.7)];
        let bytes: Vec<f64> = front(all).iter().map(|one| one.rung.bytes).collect();
        assert_eq!(bytes, [1e4, 4e4]);
    }
}
