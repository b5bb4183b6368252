//! Seeded randomness: the same seed, the same world.

use tidegate_types::random::SplitMix;

/// A stream of random numbers for one part of a world.
#[derive(Clone, Debug)]
pub struct Random(SplitMix);

impl Random {
    pub fn new(seed: u64, part: u64) -> Self {
        let mut random = SplitMix(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part << 48);
        random.number();
        Random(random)
    }

    /// In [0, 1).
    pub fn share(&mut self) -> f64 {
        self.0.share()
    }

    pub fn happens(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    /// In [from, to].
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.0.number() % (to - from + 1)
    }
}
