//! The ways to encode a frame: the smallest bytes for each accuracy, corrected by what frames really took.
//! Source: papers/mez.txt, §IV-B (its table of knob settings), kept as a Pareto front.
//! Inputs: rungs with bytes, accuracy and cost; bytes of encoded frames. Outputs: the rung for a budget. O(log n).
//! Deviations: bytes are corrected while running; the paper's table is fixed (docs/algorithms-frames.md#ladder).
//! Limits: `RUNGS_MAX`.

use std::time::Duration;

use super::knobs::Knobs;

/// Most rungs of a ladder: finer steps than these are below what frames of one scene differ by.
pub const RUNGS_MAX: usize = 64;
/// Weight of a new frame in the content's factor: a new scene is learned within three frames.
const CONTENT_GAIN: f64 = 0.4;
/// Weight in a rung's own factor, which changes with the camera and not with the scene.
const RUNG_GAIN: f64 = 0.05;
/// Bounds of both factors: an absurd frame must not stop a camera for long.
const FACTOR: (f64, f64) = (0.1, 10.0);

/// One quality setting of a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rung {
    /// Width and height, in eighths of the source's: the scales that a DCT can be decoded at.
    pub eighths: u8,
    /// JPEG quality, 1 to 100.
    pub quality: u8,
    /// Without its chroma.
    pub is_gray: bool,
    /// What only the Mez paper does to a picture.
    pub knobs: Knobs,
    /// Mean bytes of a frame; above 0.
    pub bytes: f64,
    /// Accuracy of a detector on it over that on the source, 0 to 1.
    pub accuracy: f64,
    /// Lower end of its 95 % confidence interval.
    pub accuracy_low: f64,
    /// Processor time to make it of a source frame; zero where the source is passed through.
    pub cost: Duration,
}

/// Why rungs are no ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LadderError {
    /// Nothing to choose from.
    #[error("a ladder needs at least one rung")]
    Empty,
    /// More than [`RUNGS_MAX`].
    #[error("a ladder has at most {RUNGS_MAX} rungs, this one has {0}")]
    TooMany(usize),
    /// A number that cannot be.
    #[error(
        "rung {place}: bytes must be above 0, scale 1 to 8 eighths, quality 1 to 100, and \
             0 <= accuracy_low <= accuracy <= 1"
    )]
    Rung {
        /// Which, from 1.
        place: usize,
    },
}

/// Rungs that nothing beats in both bytes and accuracy, by rising bytes.
#[derive(Clone, Debug)]
pub struct Ladder {
    rungs: Vec<Rung>,
    /// Actual over mean bytes of recent frames, whatever the rung: how much there is to see.
    content: f64,
    /// The same of each rung, once the content is taken out.
    own: Vec<f64>,
}

impl Ladder {
    /// A ladder of these rungs, in any order; those that another one beats are left out.
    ///
    /// # Errors
    /// None, too many, or one with a number that cannot be.
    pub fn new(mut rungs: Vec<Rung>) -> Result<Self, LadderError> {
        if rungs.is_empty() {
            return Err(LadderError::Empty);
        }
        if rungs.len() > RUNGS_MAX {
            return Err(LadderError::TooMany(rungs.len()));
        }
        if let Some(at) = rungs.iter().position(|rung| !rung.is_sound()) {
            return Err(LadderError::Rung { place: at + 1 });
        }
        let by_bytes = |a: &Rung, b: &Rung| {
            a.bytes.total_cmp(&b.bytes).then(b.accuracy.total_cmp(&a.accuracy))
        };
        rungs.sort_by(by_bytes);
        let mut best = f64::NEG_INFINITY;
        rungs.retain(|rung| {
            let is_better = rung.accuracy > best;
            best = best.max(rung.accuracy);
            is_better
        });
        let own = vec![1.0; rungs.len()];
        Ok(Ladder { rungs, content: 1.0, own })
    }

    /// The rungs, by rising bytes and accuracy; never empty.
    pub fn rungs(&self) -> &[Rung] {
        &self.rungs
    }

    /// Bytes that a frame of a rung is expected to have now.
    ///
    /// # Panics
    /// No such rung.
    pub fn expected(&self, rung: usize) -> f64 {
        self.rungs[rung].bytes * self.content * self.own[rung]
    }

    /// A frame was encoded to a rung and has so many bytes.
    ///
    /// # Panics
    /// No such rung.
    pub fn encoded(&mut self, rung: usize, bytes: u64) {
        let factor = |actual: f64| actual.clamp(FACTOR.0, FACTOR.1);
        let ratio = factor(bytes as f64 / self.rungs[rung].bytes);
        let own = self.own[rung];
        self.content = factor(self.content + CONTENT_GAIN * (ratio / own - self.content));
        self.own[rung] = factor(own + RUNG_GAIN * (ratio / self.content - own));
    }

    /// The best rung of which a frame is expected to fit in so many bytes.
    pub fn largest_within(&self, budget: f64) -> Option<usize> {
        // What is learned of single rungs can put neighbours out of order: all are looked at.
        (0..self.rungs.len()).rev().find(|&rung| self.expected(rung) <= budget)
    }

    /// The smallest rung of at least this accuracy, 0 to 1.
    pub fn least_of(&self, accuracy: f64) -> Option<usize> {
        let at = self.rungs.partition_point(|rung| rung.accuracy < accuracy);
        (at < self.rungs.len()).then_some(at)
    }
}

impl Rung {
    fn is_sound(&self) -> bool {
        self.bytes.is_finite()
            && self.bytes > 0.0
            && (1..=8).contains(&self.eighths)
            && (1..=100).contains(&self.quality)
            && 0.0 <= self.accuracy_low
            && self.accuracy_low <= self.accuracy
            && self.accuracy <= 1.0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A rung of these bytes and accuracy.
    pub(crate) fn rung(bytes: f64, accuracy: f64) -> Rung {
        Rung {
            eighths: 8,
            quality: 60,
            is_gray: false,
            knobs: Knobs::default(),
            bytes,
            accuracy,
            accuracy_low: accuracy,
            cost: Duration::ZERO,
        }
    }

    /// Rungs of 10, 20, 40 and 80 kB.
    pub(crate) fn four() -> Ladder {
        let rungs = [(1e4, 0.80), (2e4, 0.90), (4e4, 0.96), (8e4, 0.99)];
        Ladder::new(rungs.map(|(bytes, accuracy)| rung(bytes, accuracy)).to_vec()).unwrap()
    }

    #[test]
    fn what_another_rung_beats_is_left_out() {
        let rungs = vec![rung(4e4, 0.96), rung(5e4, 0.95), rung(1e4, 0.8), rung(1e4, 0.7)];
        let ladder = Ladder::new(rungs).unwrap();
        let bytes: Vec<f64> = ladder.rungs().iter().map(|rung| rung.bytes).collect();
        assert_eq!(bytes, [1e4, 4e4]);
    }

    #[test]
    fn wrong_rungs_are_named() {
        assert_eq!(Ladder::new(vec![]).unwrap_err(), LadderError::Empty);
        let many = vec![rung(1.0, 0.5); RUNGS_MAX + 1];
        assert_eq!(Ladder::new(many).unwrap_err(), LadderError::TooMany(65));
        for wrong in [rung(0.0, 0.5), rung(f64::NAN, 0.5), rung(1.0, 1.1), rung(1.0, f64::NAN)] {
            let error = Ladder::new(vec![rung(1.0, 0.5), wrong]).unwrap_err();
            assert_eq!(error, LadderError::Rung { place: 2 });
        }
    }

    #[test]
    fn a_budget_and_a_floor_find_their_rungs() {
        let ladder = four();
        let fits = [9_999.0, 1e4, 3.9e4, 1e9].map(|budget| ladder.largest_within(budget));
        assert_eq!(fits, [None, Some(0), Some(1), Some(3)]);
        assert_eq!(
            [0.0, 0.9, 0.95, 0.999].map(|a| ladder.least_of(a)),
            [Some(0), Some(1), Some(2), None]
        );
    }

    #[test]
    fn a_busier_scene_is_learned_for_every_rung() {
        let mut ladder = four();
        for _ in 0..10 {
            ladder.encoded(1, 30_000);
        }
        for (rung, mean) in [(0, 1e4), (1, 2e4), (3, 8e4)] {
            let ratio = ladder.expected(rung) / mean;
            assert!((1.2..1.55).contains(&ratio), "{rung}: {ratio}");
        }
        assert!((ladder.expected(1) - 3e4).abs() < 500.0, "{}", ladder.expected(1));
    }

    proptest! {
        #[test]
        fn what_is_chosen_is_expected_to_fit(
            frames in prop::collection::vec((0_usize..4, 0_u64..10_000_000), 0..50),
            budget in 0.0..1e6f64,
        ) {
            let mut ladder = four();
            for (rung, bytes) in frames {
                ladder.encoded(rung, bytes);
            }
            match ladder.largest_within(budget) {
                Some(rung) => prop_assert!(ladder.expected(rung) <= budget),
                None => prop_assert!((0..4).all(|rung| ladder.expected(rung) > budget)),
            }
        }
    }
}
