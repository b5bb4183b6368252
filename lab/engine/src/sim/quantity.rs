//! Quantities as people write them in a scenario: `"50ms"`, `"2mbit"`, `"20KB"`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_types::units::Rate;

/// Why a text is no quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no {kind}: write a number and {units}")]
pub struct QuantityError {
    text: String,
    kind: &'static str,
    units: &'static str,
}

/// The number before the unit and the factor of the unit.
fn parse(
    text: &str,
    kind: &'static str,
    names: &'static str,
    units: &[(&str, f64)],
) -> Result<f64, QuantityError> {
    let error = || QuantityError { text: text.into(), kind, units: names };
    let end = text.find(|char: char| char.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.trim().parse().map_err(|_| error())?;
    let factor = units.iter().find(|(name, _)| *name == unit).ok_or_else(error)?.1;
    if number.is_finite() && number >= 0.0 { Ok(number * factor) } else { Err(error()) }
}

/// A span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

impl Span {
    /// So many milliseconds.
    pub const fn millis(millis: u64) -> Self {
        Span(Duration::from_millis(millis))
    }

    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Span(Duration::from_secs(seconds))
    }

    /// In seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0.as_secs_f64()
    }
}

impl FromStr for Span {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0)];
        let seconds = parse(text, "span of time", "us, ms, s or min", &units)?;
        Ok(Span(Duration::from_secs_f64(seconds.min(1e9))))
    }
}

impl TryFrom<String> for Span {
    type Error = QuantityError;

    fn try_from(text: String) -> Result<Self, QuantityError> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        format!("{}ms", span.0.as_secs_f64() * 1e3)
    }
}

/// A data rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Speed(pub Rate);

impl Speed {
    /// So many Mbit/s.
    pub fn megabits(megabits: f64) -> Self {
        Speed(Rate::from_bits(megabits * 1e6))
    }
}

impl FromStr for Speed {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let units = [("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
        parse(text, "rate", "bit, kbit, mbit or gbit", &units)
            .map(|bits| Speed(Rate::from_bits(bits)))
    }
}

impl TryFrom<String> for Speed {
    type Error = QuantityError;

    fn try_from(text: String) -> Result<Self, QuantityError> {
        text.parse()
    }
}

impl From<Speed> for String {
    fn from(speed: Speed) -> Self {
        format!("{}bit", speed.0.as_bits())
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An amount of data: 1 KB is 1000 bytes, 1 KiB is 1024.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Amount(pub u64);

impl FromStr for Amount {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        const KIB: f64 = 1024.0;
        let units = [
            ("B", 1.0),
            ("KB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
            ("KiB", KIB),
            ("MiB", KIB * KIB),
            ("GiB", KIB * KIB * KIB),
        ];
        parse(text, "amount", "B, KB, MB, GB, KiB, MiB or GiB", &units)
            .map(|bytes| Amount(bytes as u64))
    }
}

impl TryFrom<String> for Amount {
    type Error = QuantityError;

    fn try_from(text: String) -> Result<Self, QuantityError> {
        text.parse()
    }
}

impl From<Amount> for String {
    fn from(amount: Amount) -> Self {
        format!("{}B", amount.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_people_write_them() {
        assert_eq!("50ms".parse(), Ok(Span::millis(50)));
        assert_eq!("1.5 s".parse(), Ok(Span::millis(1500)));
        assert_eq!("2mbit".parse(), Ok(Speed::megabits(2.0)));
        assert_eq!("20KB".parse(), Ok(Amount(20_000)));
        assert_eq!("1KiB".parse(), Ok(Amount(1024)));
    }

    #[test]
    fn mistakes_are_named() {
        let error = "50".parse::<Span>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"50\" is no span of time: write a number and us, ms, s or min"
        );
        assert!("-1ms".parse::<Span>().is_err());
        assert!("mbit".parse::<Speed>().is_err());
    }
}
