//! Values that carry their unit: "50ms", "18mbit", "16MiB".
//!
//! One parser for each quantity, pure and total: any text gives a value or an error that shows a
//! right one. Printing a value gives the shortest text that parses back to it.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use tidegate_capacity::QueueBelow;
use tidegate_types::units::{Rate, Size};

use super::values::{Form, Shape, quoted, values};

/// A hundred days: beyond it a timer is a mistake of writing.
const PERIOD_MAX: Duration = Duration::from_secs(100 * 86_400);

/// Why a text is not the quantity that belongs there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No span of time.
    #[error("{0:?} is no duration: write a number and a unit, as in \"50ms\", \"2s\" or \"10m\"")]
    Period(String),
    /// A span of time beyond every use.
    #[error("{0:?} is longer than 100 days: write a shorter duration")]
    PeriodTooLong(String),
    /// No rate.
    #[error("{0:?} is no rate: write bits per second, as in \"18mbit\", \"500kbit\" or \"1gbit\"")]
    Rate(String),
    /// No size.
    #[error("{0:?} is no size: write bytes, as in \"64KiB\", \"16MiB\" or \"1GiB\"")]
    Size(String),
    /// No address to listen on.
    #[error(
        "{0:?} is no address: write an IP address and a port, as in \"127.0.0.1:1883\" or \
         \"[::1]:1883\""
    )]
    Address(String),
}

/// A quantity that configuration writes as text.
pub trait Quantity: Sized {
    /// What belongs there, for the message about a wrong type.
    const EXPECTED: &str;

    /// Reads it.
    ///
    /// # Errors
    /// The text is no such quantity; the error shows one.
    fn parse(text: &str) -> Result<Self, UnitError>;
}

/// Reads a quantity from a string.
struct QuantityVisitor<T>(PhantomData<T>);

impl<T: Quantity> Visitor<'_> for QuantityVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::parse(text).map_err(E::custom)
    }
}

macro_rules! deserialize_as_text {
    ($($quantity:ty),*) => {$(
        impl<'de> Deserialize<'de> for $quantity {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(QuantityVisitor(PhantomData))
            }
        }
    )*};
}

deserialize_as_text!(Period, BitRate, ByteSize, OutputRate, OutputQueue);

values! {
    Period: Shape::Form(Form {
        name: "duration",
        pattern: "^\\s*([0-9]+\\.?[0-9]*|\\.[0-9]+)\\s*(d|h|m|s|ms|us|ns)\\s*$",
    }), |period| quoted(&period.to_string()), Some(period.0.as_secs_f64());
    BitRate: Shape::Form(Form {
        name: "rate",
        pattern: "^\\s*([0-9]+\\.?[0-9]*|\\.[0-9]+)\\s*[kKmMgG]?[bB][iI][tT](/[sS])?\\s*$",
    }), |rate| quoted(&rate.to_string()), Some(rate.0.as_bits());
    OutputRate: Shape::Form(Form {
        name: "\"auto\" or a rate",
        pattern: "^auto$|^\\s*([0-9]+\\.?[0-9]*|\\.[0-9]+)\\s*[kKmMgG]?[bB][iI][tT](/[sS])?\\s*$",
    }), |rate| quoted(&rate.to_string()), rate.cap().map(Rate::as_bits);
    OutputQueue: Shape::Form(Form {
        name: "\"auto\" or a duration",
        pattern: "^auto$|^\\s*([0-9]+\\.?[0-9]*|\\.[0-9]+)\\s*(d|h|m|s|ms|us|ns)\\s*$",
    }), |queue| quoted(&queue.to_string()), match queue {
        OutputQueue::Auto => None,
        OutputQueue::Fixed(span) => Some(span.0.as_secs_f64()),
    };
    ByteSize: Shape::Form(Form {
        name: "size",
        pattern: "^\\s*([0-9]+\\.?[0-9]*|\\.[0-9]+)\\s*([kKmMgG][iI]?)?[bB]\\s*$",
    }), |size| quoted(&size.to_string()), Some(size.0.0 as f64);
    Listen: Shape::OneOrMore(Box::new(SocketAddr::shape())), |listen| match listen.0.as_slice() {
        [one] => quoted(&one.to_string()),
        all => all.to_vec().written()?,
    };
}

/// A number >= 0 and the unit after it.
fn number_and_unit(text: &str) -> Option<(f64, String)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    number.is_finite().then(|| (number, unit.trim_start().to_owned()))
}

/// The shortest `<whole number><unit>`, from the largest unit that divides `amount`.
fn shortest(amount: u64, units: &[(u64, &str)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let divides = |(factor, _): &&(u64, &str)| amount.is_multiple_of(*factor) && amount > 0;
    let (factor, unit) = units.iter().find(divides).or(units.last()).expect("units are listed");
    write!(f, "{}{unit}", amount / factor)
}

/// A span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Duration);

const PERIOD_UNITS: [(u64, &str); 7] = [
    (86_400_000_000_000, "d"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "m"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
];

impl Quantity for Period {
    const EXPECTED: &str = "a duration such as \"50ms\"";

    fn parse(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::Period(text.into());
        let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
        let known = PERIOD_UNITS.iter().find(|(_, name)| *name == unit);
        let (nanos, _) = known.ok_or_else(wrong)?;
        let nanos = (number * *nanos as f64).round();
        if nanos > PERIOD_MAX.as_nanos() as f64 {
            return Err(UnitError::PeriodTooLong(text.into()));
        }
        Ok(Period(Duration::from_nanos(nanos as u64)))
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        shortest(u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX), &PERIOD_UNITS, f)
    }
}

/// A rate in network notation: bits per second, decimal prefixes.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct BitRate(pub Rate);

const RATE_UNITS: [(u64, &str); 4] =
    [(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit"), (1, "bit")];

impl Quantity for BitRate {
    const EXPECTED: &str = "a rate such as \"18mbit\"";

    fn parse(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::Rate(text.into());
        let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
        let unit = unit.to_ascii_lowercase();
        let unit = unit.strip_suffix("/s").unwrap_or(&unit);
        let known = RATE_UNITS.iter().find(|(_, name)| *name == unit);
        let bits = number * known.ok_or_else(wrong)?.0 as f64;
        if bits < 1e15 { Ok(BitRate(Rate::from_bits(bits))) } else { Err(wrong()) }
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        shortest(self.0.as_bits().round() as u64, &RATE_UNITS, f)
    }
}

/// The `rate` of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum OutputRate {
    /// Measured.
    #[default]
    Auto,
    /// Measured, and never more than this.
    Cap(BitRate),
}

impl OutputRate {
    /// The cap, if one is given.
    pub fn cap(self) -> Option<Rate> {
        match self {
            OutputRate::Auto => None,
            OutputRate::Cap(BitRate(rate)) => Some(rate),
        }
    }
}

impl Quantity for OutputRate {
    const EXPECTED: &str = "\"auto\" or a rate such as \"18mbit\"";

    fn parse(text: &str) -> Result<Self, UnitError> {
        if text == "auto" { Ok(OutputRate::Auto) } else { BitRate::parse(text).map(Self::Cap) }
    }
}

impl fmt::Display for OutputRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputRate::Auto => f.write_str("auto"),
            OutputRate::Cap(rate) => rate.fmt(f),
        }
    }
}

/// The `queue` of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputQueue {
    /// As long as the path needs it.
    #[default]
    Auto,
    /// So long.
    Fixed(Period),
}

impl OutputQueue {
    /// What the rate controller is told.
    pub fn below(self) -> QueueBelow {
        match self {
            OutputQueue::Auto => QueueBelow::Auto,
            OutputQueue::Fixed(Period(span)) => QueueBelow::Fixed(span),
        }
    }
}

impl Quantity for OutputQueue {
    const EXPECTED: &str = "\"auto\" or a duration such as \"20ms\"";

    fn parse(text: &str) -> Result<Self, UnitError> {
        if text == "auto" { Ok(OutputQueue::Auto) } else { Period::parse(text).map(Self::Fixed) }
    }
}

impl fmt::Display for OutputQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutputQueue::Auto => f.write_str("auto"),
            OutputQueue::Fixed(span) => span.fmt(f),
        }
    }
}

/// An amount of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub Size);

const SIZE_UNITS: [(u64, &str); 7] = [
    (1 << 30, "GiB"),
    (1 << 20, "MiB"),
    (1 << 10, "KiB"),
    (1_000_000_000, "GB"),
    (1_000_000, "MB"),
    (1_000, "kB"),
    (1, "B"),
];

impl Quantity for ByteSize {
    const EXPECTED: &str = "a size such as \"16MiB\"";

    fn parse(text: &str) -> Result<Self, UnitError> {
        let wrong = || UnitError::Size(text.into());
        let (number, unit) = number_and_unit(text).ok_or_else(wrong)?;
        let known = SIZE_UNITS.iter().find(|(_, name)| name.eq_ignore_ascii_case(&unit));
        let bytes = number * known.ok_or_else(wrong)?.0 as f64;
        if bytes < 2f64.powi(50) { Ok(ByteSize(Size(bytes.round() as u64))) } else { Err(wrong()) }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        shortest(self.0.0, &SIZE_UNITS, f)
    }
}

/// Where to listen: one address or several, written as a string or a list of strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listen(pub Vec<SocketAddr>);

fn address(text: &str) -> Result<SocketAddr, UnitError> {
    text.parse().map_err(|_| UnitError::Address(text.into()))
}

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListenVisitor;

        impl<'de> Visitor<'de> for ListenVisitor {
            type Value = Listen;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address such as \"127.0.0.1:1883\", or a list of them")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Listen, E> {
                Ok(Listen(vec![address(text).map_err(E::custom)?]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Listen, A::Error> {
                let mut addresses = Vec::new();
                while let Some(text) = list.next_element::<String>()? {
                    addresses.push(address(&text).map_err(A::Error::custom)?);
                }
                Ok(Listen(addresses))
            }
        }

        deserializer.deserialize_any(ListenVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(text: &str) -> Result<Duration, UnitError> {
        Period::parse(text).map(|period| period.0)
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(period("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(period("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(period("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(period("0s"), Ok(Duration::ZERO));
        for wrong in ["", "50", "ms", "50msec", "-1s", "1e3s", "1.2.3s", "nan s", "5M", "∞s"] {
            assert_eq!(period(wrong), Err(UnitError::Period(wrong.into())), "{wrong}");
        }
        assert_eq!(period("101d"), Err(UnitError::PeriodTooLong("101d".into())));
        let digits = format!("{}s", "9".repeat(400));
        assert!(period(&digits).is_err());
    }

    #[test]
    fn rates_are_bits_per_second() {
        let rate = |text: &str| BitRate::parse(text).map(|rate| rate.0);
        assert_eq!(rate("18mbit"), Ok(Rate::from_bits(18e6)));
        assert_eq!(rate("0.5 Mbit/s"), Ok(Rate::from_bits(5e5)));
        for wrong in ["18", "18MB", "18mb", "mbit", "99999999gbit"] {
            assert_eq!(rate(wrong), Err(UnitError::Rate(wrong.into())), "{wrong}");
        }
        assert_eq!(OutputRate::parse("auto"), Ok(OutputRate::Auto));
        assert!(OutputRate::parse("atuo").is_err());
        let queue = Duration::from_millis(20);
        assert_eq!(
            OutputQueue::parse("20ms").map(OutputQueue::below),
            Ok(QueueBelow::Fixed(queue))
        );
        assert_eq!(OutputQueue::parse("auto").map(OutputQueue::below), Ok(QueueBelow::Auto));
        assert!(OutputQueue::parse("20").is_err());
    }

    #[test]
    fn sizes_know_both_kinds_of_prefix() {
        let size = |text: &str| ByteSize::parse(text).map(|size| size.0.0);
        assert_eq!(size("16MiB"), Ok(16 << 20));
        assert_eq!(size("16mb"), Ok(16_000_000));
        assert_eq!(size("1.5KiB"), Ok(1536));
        assert_eq!(size("200 B"), Ok(200));
        for wrong in ["16", "16 mebibytes", "16M", "99999999GiB"] {
            assert_eq!(size(wrong), Err(UnitError::Size(wrong.into())), "{wrong}");
        }
    }

    #[test]
    fn printing_gives_the_shortest_text_that_parses_back() {
        for text in ["50ms", "2s", "10m", "1h", "7d", "1500ms", "3us"] {
            assert_eq!(Period::parse(text).unwrap().to_string(), text);
        }
        for text in ["18mbit", "1gbit", "512kbit", "8bit"] {
            assert_eq!(BitRate::parse(text).unwrap().to_string(), text);
        }
        for text in ["16MiB", "64KiB", "1GiB", "1000B"] {
            let size = ByteSize::parse(text).unwrap();
            assert_eq!(ByteSize::parse(&size.to_string()).unwrap(), size);
        }
        assert_eq!(Period::default().to_string(), "0ns");
    }
}
