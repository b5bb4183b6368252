//! Time: the clock of the process, and wall time as people write it (RFC 3339, in UTC).

use std::fmt;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tidegate_types::units::Time;

const NANOS: u64 = 1_000_000_000;
const DAY: i64 = 86_400;

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
        let seconds = i64::try_from(self.0 / NANOS).unwrap_or(i64::MAX);
        let (year, month, day) = civil_from_days(seconds.div_euclid(DAY));
        let (of_day, nanos) = (seconds.rem_euclid(DAY), self.0 % NANOS);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
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
        let is_day = (1..=12).contains(&month) && (1..=31).contains(&date);
        let mut seconds = days_from_civil(year, month, date) * DAY;
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
        let seconds = u64::try_from(seconds).ok().filter(|_| is_day)?;
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

/// Days from 1970-01-01 to a day of the Gregorian calendar, whose year is taken to begin in March, so
/// that the leap day is its last.
pub fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    365 * year + leap_days(year) + day_of_year - EPOCH
}

/// Days from 0000-03-01 to 1970-01-01.
const EPOCH: i64 = 719_468;

fn leap_days(year: i64) -> i64 {
    year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400)
}

/// The other way round: year, month, day.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH;
    // 146,097 days are 400 years: at most one year too late.
    let guess = days * 400 / 146_097;
    let begin = |year: i64| 365 * year + leap_days(year);
    let year = [guess + 1, guess, guess - 1].into_iter().find(|&year| begin(year) <= days);
    let year = year.unwrap_or(guess);
    let day_of_year = days - begin(year);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_1970() {
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        assert_eq!(days_from_civil(2000, 3, 1), 11_017);
        assert_eq!(days_from_civil(1969, 12, 31), -1);
        for days in (-1000..200_000).step_by(13).chain(0..1500).chain(10_900..11_100) {
            let (year, month, day) = civil_from_days(days);
            assert!((1..=12).contains(&month) && (1..=31).contains(&day), "{days}");
            assert_eq!(days_from_civil(year, month, day), days);
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
