//! Numbers from a seed, for algorithms that draw: the same on every machine.

/// `SplitMix64`: a counter and three mixing steps (Steele, Lea and Flood, 2014).
#[derive(Clone, Copy, Debug)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// In `0..most`; 0 where that is empty.
    pub fn below(&mut self, most: usize) -> usize {
        // The bias of a remainder is below 2^-32 for all that fits in memory.
        if most == 0 { 0 } else { (self.number() % most as u64) as usize }
    }

    /// True once in so many times.
    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// In [0, 1).
    pub fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // First outputs for the seed 1234567, as its authors print them.
        let mut random = SplitMix(1_234_567);
        let found = [random.number(), random.number()];
        assert_eq!(found, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn shares_are_even() {
        let mut random = SplitMix(7);
        let mean = (0..10_000).map(|_| random.share()).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert!((0..1000).all(|_| random.below(7) < 7) && random.below(0) == 0);
    }
}
