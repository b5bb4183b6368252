//! Timestamps as they stand in files of sensor data.

/// Reads a timestamp as nanoseconds since the Unix epoch: a number in seconds, milliseconds,
/// microseconds or nanoseconds (told apart by its size, which is right for years 1973 to 5138), or
/// `2020-03-09 10:14:33`, with `T`, fractions, `Z` or an offset where there are any. Without an
/// offset it is UTC.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    if text.as_bytes().get(4) == Some(&b'-') { date_time(text) } else { number(text) }
}

fn number(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let value: u64 = digits(whole)?;
    let unit = match value {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    value.checked_mul(unit)?.checked_add(part(fraction, unit)?)
}

/// A decimal fraction of `unit`; digits beyond it are cut.
fn part(fraction: &str, unit: u64) -> Option<u64> {
    let mut left = unit;
    let mut sum = 0;
    for digit in fraction.bytes() {
        if !digit.is_ascii_digit() {
            return None;
        }
        left /= 10;
        sum += u64::from(digit - b'0') * left;
    }
    Some(sum)
}

fn digits(text: &str) -> Option<u64> {
    // `parse` alone would take a sign.
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

fn date_time(text: &str) -> Option<u64> {
    const NANOS: u64 = 1_000_000_000;
    let (date, rest) = text.split_at_checked(10)?;
    let days = date_days(date)?;
    let Some(rest) = rest.strip_prefix([' ', 'T', 't']) else {
        return rest.is_empty().then(|| days.checked_mul(86_400 * NANOS))?;
    };
    let zone = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone);
    let mut parts = clock.split(':');
    let hours = digits(parts.next()?)?;
    let minutes = digits(parts.next()?)?;
    let (seconds, fraction) = match parts.next() {
        Some(seconds) => seconds.split_once('.').unwrap_or((seconds, "")),
        None => ("0", ""),
    };
    let seconds = digits(seconds)?;
    if parts.next().is_some() || hours > 24 || minutes > 59 || seconds > 60 {
        return None;
    }
    let local = days * 86_400 + hours * 3600 + minutes * 60 + seconds;
    let utc = local.checked_add_signed(-offset(zone)?)?;
    utc.checked_mul(NANOS)?.checked_add(part(fraction, NANOS)?)
}

/// Seconds east of UTC.
fn offset(zone: &str) -> Option<i64> {
    if zone.is_empty() || zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let zone = &zone[1..];
    let (hours, minutes) = match zone.split_once(':') {
        Some(parts) => parts,
        None if zone.len() == 4 && zone.is_ascii() => zone.split_at(2),
        None => (zone, "0"),
    };
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    if hours > 14 || minutes > 59 {
        return None;
    }
    Some(sign * (hours as i64 * 3600 + minutes as i64 * 60))
}

/// Days since the Unix epoch of `2020-03-09`; `None` before it.
fn date_days(date: &str) -> Option<u64> {
    let mut parts = date.split('-');
    let (year, month, day) =
        (digits(parts.next()?)?, digits(parts.next()?)?, digits(parts.next()?)?);
    if parts.next().is_some() || year < 1970 || !(1..=12).contains(&month) {
        return None;
    }
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let february = if leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    if day == 0 || day > months[month as usize - 1] {
        return None;
    }
    let before = year - 1;
    let leaps = before / 4 - before / 100 + before / 400 - 477;
    let years = (year - 1970) * 365 + leaps;
    Some(years + months[..month as usize - 1].iter().sum::<u64>() + day - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read() {
        // date -u -d '2020-03-09 10:14:33' +%s
        assert_eq!(parse("2020-03-09 10:14:33"), Some(1_583_748_873_000_000_000));
        assert_eq!(parse("2020-03-09T10:14:33.25Z"), Some(1_583_748_873_250_000_000));
        assert_eq!(parse("2020-03-09T11:14:33+01:00"), Some(1_583_748_873_000_000_000));
        assert_eq!(parse("2020-03-09T04:44:33-0530"), Some(1_583_748_873_000_000_000));
        assert_eq!(parse("2000-02-29 00:00"), Some(951_782_400_000_000_000));
        assert_eq!(parse("1970-01-01"), Some(0));
    }

    #[test]
    fn numbers_have_their_unit_by_size() {
        let expected = Some(1_422_748_800_000_000_000);
        for text in ["1422748800", "1422748800000", "1422748800000000", "1422748800000000000"] {
            assert_eq!(parse(text), expected, "{text}");
        }
        assert_eq!(parse("1422748800.125"), Some(1_422_748_800_125_000_000));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "noon", "-5", "+5", "2020-02-30", "2020-13-01", "2020-01-01 25:00"] {
            assert_eq!(parse(text), None, "{text}");
        }
        for text in
            ["2020-01-01T10:00:00+99", "2020-01-01 1", "9999999999999999999999", "1969-01-01"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse("2020-é1-01"), None);
        assert_eq!(parse("6026-01-02"), None, "64 bits of nanoseconds end in 2554");
    }
}
