//! Recorded links: mahimahi's chances to send, and tables of Mbit/s by time.

use std::time::Duration;

use super::chances::{Chances, ChancesError};
use super::profile::{Profile, ProfileError};
use super::server::Service;

/// Why a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line that is not what it should be.
    #[error("line {line}: {text:?} is no {expected}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        text: String,
    },
    /// All numbers, but no recording.
    #[error(transparent)]
    Chances(#[from] ChancesError),
    /// All numbers, but no profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// Reads a trace: lines of one number are mahimahi's milliseconds, lines of two are seconds and Mbit/s,
/// separated by a comma, a tab or spaces. Empty lines, lines that begin with `#` and a heading in the
/// first line are skipped. Both are replayed for ever. A table's times count from its first; its last row
/// lasts as long as the row before it.
///
/// # Errors
/// A line that is neither, or times that do not rise.
pub fn parse(text: &str) -> Result<Service, TraceError> {
    let is_heading = |at: usize, line: &str| {
        at == 0 && line.starts_with(|first: char| first.is_ascii_alphabetic() || first == '"')
    };
    let lines = text.lines().map(str::trim).enumerate();
    let rows: Vec<(usize, &str)> = lines
        .filter(|(at, line)| !line.is_empty() && !line.starts_with('#') && !is_heading(*at, line))
        .map(|(at, line)| (at + 1, line))
        .collect();
    let has_two = rows.first().is_some_and(|(_, row)| fields(row).count() > 1);
    if has_two { table(&rows) } else { mahimahi(&rows) }
}

fn fields(row: &str) -> impl Iterator<Item = &str> {
    row.split([',', ';', '\t', ' ']).map(str::trim).filter(|field| !field.is_empty())
}

fn mahimahi(rows: &[(usize, &str)]) -> Result<Service, TraceError> {
    let number = |(line, row): &(usize, &str)| {
        let error = || wrong(*line, "number of milliseconds", row);
        row.parse::<u64>().map_err(|_| error())
    };
    let millis = rows.iter().map(number).collect::<Result<Vec<u64>, _>>()?;
    Ok(Service::Chances(Chances::new(millis)?))
}

fn table(rows: &[(usize, &str)]) -> Result<Service, TraceError> {
    let pair = |(line, row): &(usize, &str)| {
        let error = || wrong(*line, "pair of seconds and Mbit/s", row);
        let mut fields = fields(row).map(|field| field.parse::<f64>().ok());
        let mut next = || fields.next().flatten().filter(|value| (0.0..1e10).contains(value));
        let pair = next().zip(next()).ok_or_else(error)?;
        if fields.next().is_none() { Ok(pair) } else { Err(error()) }
    };
    let pairs = rows.iter().map(pair).collect::<Result<Vec<(f64, f64)>, _>>()?;
    let first = pairs.first().map_or(0.0, |(at, _)| *at);
    let span = |seconds: f64| Duration::from_secs_f64((seconds - first).max(0.0));
    let last = match pairs[..] {
        [.., (before, _), (last, _)] if last > before => 2.0 * last - before,
        _ => first + 1.0,
    };
    let step = |(at, megabits): &(f64, f64)| (span(*at), (megabits * 1e6) as u64);
    let steps = pairs.iter().map(step).collect();
    Ok(Service::Rate(Profile::new(steps, Some(span(last)))?))
}

fn wrong(line: usize, expected: &'static str, text: &str) -> TraceError {
    TraceError::Line { line, expected, text: text.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_types::units::Time;

    use super::*;
    use crate::link::{Direction, Options};

    #[test]
    fn one_number_a_line_is_mahimahi() {
        let read = parse("0\n3\n3\n7\n").unwrap();
        assert_eq!(read, Service::Chances(Chances::new(vec![0, 3, 3, 7]).unwrap()));
    }

    #[test]
    fn two_numbers_are_seconds_and_megabits() {
        let seconds = |at| Duration::from_secs_f64(at);
        let steps = vec![(seconds(0.0), 4_000_000), (seconds(0.5), 0), (seconds(1.5), 250_000)];
        let profile = Profile::new(steps, Some(seconds(2.5))).unwrap();
        for text in [
            "10 4\n10.5 0\n11.5 0.25\n",
            "s,mbps\n10,4\n# all\n\n10.5,0\n11.5,0.25",
            "10\t4\n10.5\t0\n11.5\t.25",
        ] {
            assert_eq!(parse(text), Ok(Service::Rate(profile.clone())), "{text}");
        }
        assert_eq!(
            parse("5 2"),
            Ok(Service::Rate(
                Profile::new(vec![(seconds(0.0), 2_000_000)], Some(seconds(1.0))).unwrap()
            ))
        );
    }

    #[test]
    fn mistakes_name_their_line() {
        let error = |text| parse(text).unwrap_err().to_string();
        assert_eq!(error("1\nx"), "line 2: \"x\" is no number of milliseconds");
        assert_eq!(error("1 2\n3 x"), "line 2: \"3 x\" is no pair of seconds and Mbit/s");
        assert_eq!(error("1 2\n2 -1"), "line 2: \"2 -1\" is no pair of seconds and Mbit/s");
        assert_eq!(error("1 2\n1 3"), ProfileError::Unsorted.to_string());
        assert_eq!(error(""), ChancesError.to_string());
    }

    proptest! {
        /// Whatever is read can be used: packets leave, or wait for a rate that never comes.
        #[test]
        fn no_text_is_a_danger(
            rows in prop::collection::vec("[0-9]{1,12}|[0-9.e-]{0,9}[ ,\t;][0-9.e]{0,9}|\\PC{0,9}", 0..9),
        ) {
            if let Ok(service) = parse(&rows.join("\n")) {
                let options = Options { service, ..Options::new(1, Duration::ZERO, 10_000) };
                let mut link = Direction::new(options, 1);
                link.offer(Time::from_millis(1500), 1000, ());
                let arrives = link.next_timeout().unwrap_or(Time::FAR);
                prop_assert!(arrives > Time::from_millis(1499));
                prop_assert_eq!(link.queued(), 1000);
            }
        }
    }
}
