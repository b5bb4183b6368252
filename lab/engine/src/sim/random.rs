//! Seeded randomness: the same seed, the same run.

use std::time::Duration;

/// A stream of random numbers. Each part of a world has its own, so that a change of one part does not
/// shift the numbers of the others.
#[derive(Clone, Debug)]
pub struct Random(oorandom::Rand64);

impl Random {
    /// The stream of a part.
    pub fn new(seed: u64, part: u64) -> Self {
        let seed = u128::from(seed) << 64 | u128::from(part);
        let mut random = oorandom::Rand64::new(seed);
        // Seeds that differ in one bit begin alike.
        (0..4).for_each(|_| {
            random.rand_u64();
        });
        Random(random)
    }

    /// In [0, 1).
    pub fn share(&mut self) -> f64 {
        self.0.rand_float()
    }

    /// Whether something of this probability happens.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.share() < probability
    }

    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        if from >= to { from } else { self.0.rand_range(from..to + 1) }
    }

    /// Evenly between two spans.
    pub fn span(&mut self, from: Duration, to: Duration) -> Duration {
        Duration::from_nanos(self.between(from.as_nanos() as u64, to.as_nanos() as u64))
    }

    /// The time to the next of independent arrivals, so many a second.
    pub fn interval(&mut self, per_second: f64) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.share()).ln() / per_second)
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.between(0, of.len() as u64 - 1) as usize]
    }
}
