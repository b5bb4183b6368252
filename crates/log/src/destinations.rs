//! Who is to have a record: a set of the outputs that the segment's header names.

use std::ops::{BitOr, Sub};

/// A set of destinations: bit `n` is the output at place `n` of the segment's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Destinations(pub u32);

impl Destinations {
    /// Nobody.
    pub const NONE: Destinations = Destinations(0);

    /// The one at this place, below 32.
    pub fn one(place: usize) -> Self {
        debug_assert!(place < 32, "outputs are bounded by OUTPUTS_MAX");
        Destinations(1 << place)
    }

    /// How many.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Their places, rising.
    pub fn places(self) -> impl Iterator<Item = usize> {
        (0..32).filter(move |place| self.0 >> place & 1 == 1)
    }
}

impl BitOr for Destinations {
    type Output = Self;
    /// Either's.
    fn bitor(self, other: Self) -> Self {
        Destinations(self.0 | other.0)
    }
}

impl Sub for Destinations {
    type Output = Self;
    /// Without the other's.
    fn sub(self, other: Self) -> Self {
        Destinations(self.0 & !other.0)
    }
}
