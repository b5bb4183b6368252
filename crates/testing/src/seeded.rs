//! Numbers for worlds of tests.

/// Numbers from a seed: SplitMix64.
#[derive(Clone, Debug)]
pub struct Seeded(pub u64);

impl Seeded {
    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// In [0, 1).
    pub fn share(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// In `least..most`, each power of two as likely as any other.
    pub fn log_uniform(&mut self, least: f64, most: f64) -> f64 {
        least * (most / least).powf(self.share())
    }
}
