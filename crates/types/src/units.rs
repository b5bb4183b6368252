//! The units of every quantity that is decided on: time, size, rate and ratio.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// A point on the node's monotonic clock, in nanoseconds since an origin that the driver chooses.
///
/// Unlike `Instant` it can be built, stored, compared and logged, so the same code runs under a real
/// clock and under a virtual one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin of the clock.
    pub const ZERO: Time = Time(0);
    /// A time that is never reached.
    pub const FAR: Time = Time(u64::MAX);

    /// The time `nanos` nanoseconds after the origin.
    #[inline]
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// The time `millis` milliseconds after the origin.
    #[inline]
    pub const fn from_millis(millis: u64) -> Self {
        Time(millis * 1_000_000)
    }

    /// The time `seconds` (>= 0) after the origin.
    #[inline]
    pub fn from_secs_f64(seconds: f64) -> Self {
        Time((seconds * 1e9) as u64)
    }

    /// Nanoseconds since the origin.
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the origin.
    #[inline]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The duration from `earlier` to `self`; zero where `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    /// Saturates at [`Time::FAR`].
    #[inline]
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    #[inline]
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    /// Saturates at [`Time::ZERO`].
    #[inline]
    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// An amount of data in bytes. (`Bytes` is the payload type of the `bytes` crate.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(pub u64);

impl Size {
    /// No bytes.
    pub const ZERO: Size = Size(0);

    /// `kib` KiB.
    #[inline]
    pub const fn from_kib(kib: u64) -> Self {
        Size(kib * 1024)
    }

    /// `mib` MiB.
    #[inline]
    pub const fn from_mib(mib: u64) -> Self {
        Size(mib * 1024 * 1024)
    }

    /// `self - other`, or zero.
    #[inline]
    pub const fn saturating_sub(self, other: Size) -> Size {
        Size(self.0.saturating_sub(other.0))
    }

    /// As a float, for rates.
    #[inline]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

/// Sums and differences of a whole number. A difference below zero panics in every build: it is an accounting mistake of
/// ours.
macro_rules! whole_number {
    ($Number:ident) => {
        impl Add for $Number {
            type Output = $Number;
            #[inline]
            fn add(self, other: $Number) -> $Number {
                $Number(self.0 + other.0)
            }
        }

        impl AddAssign for $Number {
            #[inline]
            fn add_assign(&mut self, other: $Number) {
                self.0 += other.0;
            }
        }

        impl Sub for $Number {
            type Output = $Number;
            #[inline]
            fn sub(self, other: $Number) -> $Number {
                $Number(self.0.checked_sub(other.0).expect("amounts never go below zero"))
            }
        }

        impl SubAssign for $Number {
            #[inline]
            fn sub_assign(&mut self, other: $Number) {
                *self = *self - other;
            }
        }

        impl Sum for $Number {
            #[inline]
            fn sum<I: Iterator<Item = $Number>>(numbers: I) -> $Number {
                numbers.fold($Number::ZERO, Add::add)
            }
        }
    };
}
pub(crate) use whole_number;

whole_number!(Size);

/// A data rate in bytes per second; finite and >= 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// Nothing at all.
    pub const ZERO: Rate = Rate(0.0);

    /// `bytes_per_second` as a rate. Panics on NaN; negative values become zero.
    pub fn new(bytes_per_second: f64) -> Self {
        assert!(!bytes_per_second.is_nan(), "a rate is a number");
        Rate(bytes_per_second.clamp(0.0, f64::MAX))
    }

    /// A rate from network notation, in bits per second.
    #[inline]
    pub fn from_bits(bits_per_second: f64) -> Self {
        Rate::new(bits_per_second / 8.0)
    }

    /// `size` each `span`; zero where `span` is zero.
    #[inline]
    pub fn of(size: Size, span: Duration) -> Self {
        if span.is_zero() { Rate::ZERO } else { Rate::new(size.as_f64() / span.as_secs_f64()) }
    }

    /// Bytes per second.
    #[inline]
    pub fn as_f64(self) -> f64 {
        self.0
    }

    /// Bits per second.
    #[inline]
    pub fn as_bits(self) -> f64 {
        self.0 * 8.0
    }

    /// Whether the rate is zero.
    #[inline]
    pub fn is_zero(self) -> bool {
        self.0 <= 0.0
    }

    /// The rate times a factor >= 0.
    #[inline]
    pub fn times(self, factor: f64) -> Rate {
        Rate::new(self.0 * factor)
    }

    /// The smaller of two rates.
    #[inline]
    pub fn min(self, other: Rate) -> Rate {
        Rate(self.0.min(other.0))
    }

    /// The larger of two rates.
    #[inline]
    pub fn max(self, other: Rate) -> Rate {
        Rate(self.0.max(other.0))
    }

    /// How much passes in `span`.
    #[inline]
    pub fn in_span(self, span: Duration) -> Size {
        Size((self.0 * span.as_secs_f64()) as u64)
    }

    /// How long `size` takes; an hour at most, so that a zero rate still gives a usable time.
    #[inline]
    pub fn time_for(self, size: Size) -> Duration {
        const LONGEST: f64 = 3600.0;
        if self.is_zero() {
            return Duration::from_secs_f64(LONGEST);
        }
        Duration::from_secs_f64((size.as_f64() / self.0).min(LONGEST))
    }
}

impl Add for Rate {
    type Output = Rate;
    #[inline]
    fn add(self, other: Rate) -> Rate {
        Rate(self.0 + other.0)
    }
}

impl Sub for Rate {
    type Output = Rate;
    /// Saturates at zero.
    #[inline]
    fn sub(self, other: Rate) -> Rate {
        Rate((self.0 - other.0).max(0.0))
    }
}

impl Sum for Rate {
    #[inline]
    fn sum<I: Iterator<Item = Rate>>(rates: I) -> Rate {
        rates.fold(Rate::ZERO, Add::add)
    }
}

impl fmt::Display for Rate {
    /// Network notation, as in configuration: `2.00 Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_bits() {
            bits if bits >= 1e9 => write!(f, "{:.2} Gbit/s", bits / 1e9),
            bits if bits >= 1e6 => write!(f, "{:.2} Mbit/s", bits / 1e6),
            bits if bits >= 1e3 => write!(f, "{:.1} kbit/s", bits / 1e3),
            bits => write!(f, "{bits:.0} bit/s"),
        }
    }
}

/// A share of a whole, in [0, 1].
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Ratio(f64);

impl Ratio {
    /// None of it.
    pub const ZERO: Ratio = Ratio(0.0);
    /// All of it.
    pub const ONE: Ratio = Ratio(1.0);

    /// `share`, clamped to [0, 1]. Panics on NaN.
    pub fn new(share: f64) -> Self {
        assert!(!share.is_nan(), "a ratio is a number");
        Ratio(share.clamp(0.0, 1.0))
    }

    /// The share as a float.
    #[inline]
    pub fn as_f64(self) -> f64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_saturates_at_both_ends() {
        assert_eq!(Time::FAR + Duration::from_secs(1), Time::FAR);
        assert_eq!(Time::from_millis(3) - Duration::from_secs(1), Time::ZERO);
        assert_eq!(Time::ZERO.since(Time::from_millis(5)), Duration::ZERO);
        assert_eq!(Time::from_millis(7).since(Time::from_millis(5)), Duration::from_millis(2));
    }

    #[test]
    fn two_megabit_carry_a_kilobyte_in_four_milliseconds() {
        let rate = Rate::from_bits(2e6);
        assert_eq!(rate.time_for(Size(1000)), Duration::from_millis(4));
        assert_eq!(rate.in_span(Duration::from_millis(4)), Size(1000));
        assert_eq!(rate.to_string(), "2.00 Mbit/s");
    }

    #[test]
    fn a_zero_rate_gives_a_finite_time() {
        assert_eq!(Rate::ZERO.time_for(Size(1)), Duration::from_secs(3600));
    }

    #[test]
    #[should_panic(expected = "amounts never go below zero")]
    fn a_negative_size_is_a_mistake() {
        let _ = Size(1) - Size(2);
    }
}
