//! Time: the clock of the process, and wall time as people write it (RFC 3339, in UTC).

use std::fmt;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidegate_types::units::Time;
use time::{Date, Month, OffsetDateTime};

const NANOS: u64 = 1_000_000_000;

/// The process's monotonic clock, as the node counts it.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock whose origin is now.
    pub fn start() -> Self {
        Clock(Instant::now())
    }

    /// The present time.
    pub fn now(self) -> Time {
        Time::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// The instant at which the clock shows `time`, for timers; `None` beyond what the platform counts.
    pub fn instant(self, time: Time) -> Option<Instant> {
        self.0.checked_add(time.since(Time::ZERO))
    }
}

/// New for every start: without a log a node holds nothing of its earlier life.
pub(crate) fn incarnation() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A point in wall time, nanoseconds since the Unix epoch; shown to the millisecond, with `{:#}` to the
/// nanosecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 64 bits of nanoseconds end in 2554, and what is counted here in 9999.
        let moment = OffsetDateTime::from_unix_timestamp_nanos(self.0.into());
        let moment = moment.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let (year, month, day) = moment.to_calendar_date();
        let (hour, minute, second, nanos) = moment.to_hms_nano();
        let month = u8::from(month);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.")?;
        if f.alternate() {
            write!(f, "{nanos:09}Z")
        } else {
            write!(f, "{:03}Z", nanos / 1_000_000)
        }
    }
}

impl Moment {
    /// A day, perhaps with a time behind `T` or a space, perhaps with its distance from UTC:
    /// `2026-11-21`, `2026-11-21T10:30`, `2026-11-21 10:30:05.25`, `2026-11-21T11:30:00+01:00`.
    pub fn parse(text: &str) -> Option<Moment> {
        let (day, rest) = text.split_at_checked(10)?;
        let [year, month, date] = numbers(day, '-', &[4, 2, 2])?;
        let mut seconds = midnight(year, month, date)?;
        let mut nanos = 0;
        if let Some(rest) = rest.strip_prefix(['T', 't', ' ']) {
            let at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
            let (time, zone) = rest.split_at(at);
            let (time, part) = time.split_once('.').unwrap_or((time, ""));
            let time = if time.len() == 5 { format!("{time}:00") } else { time.to_owned() };
            let [hour, minute, second] = numbers(&time, ':', &[2, 2, 2])?;
            if hour > 23 || minute > 59 || second > 60 {
                return None;
            }
            seconds += hour * 3600 + minute * 60 + second - zone_of(zone)?;
            nanos = nanos_of(part)?;
        } else if !rest.is_empty() {
            return None;
        }
        let seconds = u64::try_from(seconds).ok()?;
        seconds.checked_mul(NANOS)?.checked_add(nanos).map(Moment)
    }
}

fn numbers<const N: usize>(text: &str, between: char, lengths: &[usize; N]) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut parts = text.split(between);
    for (place, length) in lengths.iter().enumerate() {
        found[place] = digits(parts.next()?, *length)?;
    }
    parts.next().is_none().then_some(found)
}

fn digits(text: &str, length: usize) -> Option<i64> {
    let is_number = text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

/// Seconds east of UTC.
fn zone_of(zone: &str) -> Option<i64> {
    let sign = match zone.chars().next() {
        None | Some('Z' | 'z') if zone.len() < 2 => return Some(0),
        Some('+') => 1,
        Some('-') => -1,
        _ => return None,
    };
    let [hours, minutes] = numbers(&zone[1..], ':', &[2, 2])?;
    Some(sign * (hours * 3600 + minutes * 60))
}

fn nanos_of(part: &str) -> Option<u64> {
    if part.is_empty() {
        return Some(0);
    }
    let nanos = format!("{part:0<9}");
    digits(&nanos, 9)?.try_into().ok()
}

/// Seconds from 1970 to the beginning of a day of the Gregorian calendar, in UTC; `None` where there is no such day.
fn midnight(year: i64, month: i64, day: i64) -> Option<i64> {
    let month = Month::try_from(u8::try_from(month).ok()?).ok()?;
    let date = Date::from_calendar_date(year.try_into().ok()?, month, day.try_into().ok()?).ok()?;
    Some(date.midnight().assume_utc().unix_timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_that_no_calendar_has_is_no_moment() {
        for text in ["2026-02-28", "2024-02-29", "2000-02-29", "2026-12-31"] {
            assert!(
                Moment::parse(text).is_some_and(|day| day.to_string().starts_with(text)),
                "{text}"
            );
        }
        for text in ["2026-02-31", "2026-02-29", "2100-02-29", "2026-04-31T10:00", "2026-00-01"] {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_read() {
        let moment = Moment(1_700_000_000_123_456_789);
        assert_eq!(moment.to_string(), "2023-11-14T22:13:20.123Z");
        assert_eq!(format!("{moment:#}"), "2023-11-14T22:13:20.123456789Z");
        assert_eq!(Moment::parse(&format!("{moment:#}")), Some(moment));
        let second = Some(Moment(1_700_000_000_000_000_000));
        for text in ["2023-11-14T22:13:20Z", "2023-11-14 22:13:20", "2023-11-14T23:43:20.000+01:30"]
        {
            assert_eq!(Moment::parse(text), second, "{text}");
        }
        assert_eq!(Moment::parse("2023-11-14"), Some(Moment(1_699_920_000_000_000_000)));
        assert_eq!(Moment::parse("2023-11-14T00:00"), Moment::parse("2023-11-14"));
        for text in
            ["", "2023", "2023-13-01", "2023-1-1", "2023-11-14T25:00", "2023-11-14x", "\u{e9}"]
        {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }
}
