//! Rates that are shared out among nodes: whole numbers, so that nothing is lost by rounding.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use crate::units::{Rate, whole_number};

/// A rate in whole bytes/s: sums and differences are exact, so no crumbs are granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(pub u64);

impl Amount {
    /// Nothing.
    pub const ZERO: Amount = Amount(0);

    /// The largest whole amount within `rate`.
    #[inline]
    pub fn of(rate: Rate) -> Self {
        Amount(rate.as_f64() as u64)
    }

    /// The same as a [`Rate`].
    #[inline]
    pub fn rate(self) -> Rate {
        Rate::new(self.0 as f64)
    }

    /// Whether it is nothing.
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// `self - other`, or nothing.
    #[inline]
    pub const fn saturating_sub(self, other: Amount) -> Amount {
        Amount(self.0.saturating_sub(other.0))
    }

    /// The amount times a factor >= 0, rounded down.
    #[inline]
    pub fn times(self, factor: f64) -> Amount {
        Amount::of(self.rate().times(factor))
    }
}

whole_number!(Amount);

impl fmt::Display for Amount {
    /// Network notation, as in configuration: `2.00 Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rate().fmt(f)
    }
}
