//! The recordings by source, and which sources the rate controller was tuned on.
//!
//! The split is one of sources, not of files: recordings of one campaign resemble each other, so a file that was left
//! out of it proves little.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use super::{DELAY, Trace};
use crate::link::{Chances, Profile, Service};
use crate::sim::random::Random;

/// How a file of a source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Milliseconds, each one chance to send.
    Chances,
    /// Seconds and Mbit/s.
    Megabits,
    /// Seconds and bytes/s.
    Bytes,
    /// Answers to pings each 200 ms: the path's delay, and silence where one was lost. The rate is assumed.
    Pings,
    /// Round trips of many satellite terminals, a quarter of an hour apart: each is the path of one span between two
    /// hand-overs. The rate, and that of the hand-overs, are assumed.
    Satellites,
}

/// One campaign of recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// As tables name it.
    pub(super) name: &'static str,
    /// In the folder of data.
    folder: &'static str,
    /// What the names of its files have.
    files: &'static str,
    form: Form,
    /// Whether constants of the rate controller were chosen with it.
    pub(super) is_tuned_on: bool,
}

const fn source(
    name: &'static str,
    folder: &'static str,
    files: &'static str,
    form: Form,
    is_tuned_on: bool,
) -> Source {
    Source { name, folder, files, form, is_tuned_on }
}

/// All of them.
#[rustfmt::skip]
pub(super) const SOURCES: [Source; 10] = [
    source("mahimahi", "net/mahimahi", "-", Form::Chances, true),
    source("abc4g", "net/zhuge_wifi_4g_5g", "abc4g_", Form::Megabits, true),
    source("office-wifi", "net/zhuge_wifi_4g_5g", "office-wifi_", Form::Megabits, true),
    source("rest-wifi", "net/zhuge_wifi_4g_5g", "rest-wifi_", Form::Megabits, false),
    source("pitree4g", "net/zhuge_wifi_4g_5g", "pitree4g_", Form::Megabits, false),
    source("xu4g-5g", "net/zhuge_wifi_4g_5g", "xu", Form::Megabits, false),
    source("norway", "net/norway_hsdpa", "norway", Form::Megabits, false),
    source("pairs", "net/wifi_cell_pairs", ".csv", Form::Bytes, false),
    source("carriers", "net/pam2025_3carrier_ping", "trip", Form::Pings, true),
    source("starlink", "net/starlink_ripe_atlas", "ping", Form::Satellites, false),
];

/// No more than so many recordings of a source are played, evenly over its files.
const FILES_MAX: usize = 24;
/// No more of a recording, in time and in bytes of the link: fast ones take long.
const PLAYED: (Duration, f64) = (Duration::from_secs(60), 75e6);
/// Less says little.
const PLAYED_MIN: Duration = Duration::from_secs(10);
/// Bits a second of a path of which only the delay was recorded.
const ASSUMED: u64 = 12_000_000;
/// Time between two pings.
const PING: Duration = Duration::from_millis(200);
/// Time between two hand-overs of a satellite terminal, and the silence of one.
const HANDOVER: (Duration, Duration) = (Duration::from_secs(15), Duration::from_millis(60));
/// Fewer round trips of a terminal are no recording.
const TERMINAL_MIN: usize = 8;

/// What a file says, before it is known from where on it is played.
#[derive(Clone, Debug, PartialEq)]
struct Recording {
    name: String,
    /// When chances are, in milliseconds; empty where there is a rate.
    chances: Vec<u64>,
    /// From when, bits/s and delay one way.
    steps: Vec<(Duration, u64, Duration)>,
    length: Duration,
}

/// The recordings of a source; each begins where the seed says. `None` if its folder is not there.
///
/// # Errors
/// A file that cannot be read, or is no recording.
pub(super) fn traces(data: &Path, of: &Source, seed: u64) -> anyhow::Result<Option<Vec<Trace>>> {
    let Ok(entries) = data.join(of.folder).read_dir() else { return Ok(None) };
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.retain(|file| name(file).contains(of.files));
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        all.extend(of.form.read(&name(&file), &text).with_context(|| name(&file))?);
    }
    all.retain(|one| one.length >= PLAYED_MIN);
    let count = all.len();
    let place = |index: usize| index * FILES_MAX.min(count) / count.max(1);
    let chosen = all.into_iter().enumerate().filter(|(at, _)| place(*at) != place(at + 1));
    let played = chosen.map(|(at, one)| one.played(seed + at as u64 * 1000));
    Ok(Some(played.collect::<anyhow::Result<Vec<_>>>()?))
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The numbers of each line that has any; an empty field is none.
fn rows(text: &str) -> impl Iterator<Item = Vec<Option<f64>>> {
    let row = |line: &str| -> Vec<Option<f64>> {
        let split = |c| matches!(c, ',' | '\t' | ' ');
        line.trim().split(split).map(|field| field.parse().ok()).collect()
    };
    text.lines().map(row).filter(|row| row.first().is_some_and(Option::is_some))
}

impl Form {
    fn read(self, name: &str, text: &str) -> anyhow::Result<Vec<Recording>> {
        let is_missing = || anyhow::anyhow!("a column is missing");
        let column = |row: &[Option<f64>], at: usize| row.get(at).copied().flatten();
        match self {
            Form::Chances => {
                let chances: Vec<u64> =
                    rows(text).filter_map(|row| row[0].map(|milli| milli as u64)).collect();
                let length = Duration::from_millis(chances.last().copied().unwrap_or_default());
                let (name, steps) = (name.into(), vec![(Duration::ZERO, 1, DELAY)]);
                Ok(vec![Recording { name, chances, steps, length }])
            }
            Form::Megabits | Form::Bytes => {
                let unit = if self == Form::Bytes { 8.0 } else { 1e6 };
                let pairs = rows(text).map(|row| column(&row, 0).zip(column(&row, 1)));
                let pairs = pairs.collect::<Option<Vec<_>>>().ok_or_else(is_missing)?;
                let first = pairs.first().map_or(0.0, |(at, _)| *at);
                let last = pairs.last().map_or(0.0, |(at, _)| *at);
                let since = |at: f64| Duration::from_secs_f64((at - first).max(0.0));
                let step = |(at, rate): &(f64, f64)| (since(*at), (rate * unit) as u64, DELAY);
                let steps = pairs[..pairs.len().saturating_sub(1)].iter().map(step).collect();
                Ok(vec![Recording::of(name, steps, since(last))])
            }
            Form::Pings => {
                let trips: Vec<Option<f64>> =
                    rows(text).map(|row| column(&row, 2).map(|ms| ms / 1e3)).collect();
                Ok(vec![pinged(name, &trips)])
            }
            Form::Satellites => {
                let mut terminals: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
                for row in rows(text) {
                    let trip = row.iter().skip(4).flatten().copied().fold(f64::MAX, f64::min);
                    if let Some(terminal) = column(&row, 1).filter(|_| trip < 1e4) {
                        terminals.entry(terminal as u64).or_default().push(trip / 1e3);
                    }
                }
                let whole = terminals.into_iter().filter(|(_, trips)| trips.len() >= TERMINAL_MIN);
                Ok(whole.map(|(terminal, trips)| handed_over(terminal, &trips)).collect())
            }
        }
    }
}

/// What of a round trip is the way out, if the way back always takes half of the shortest.
fn way_out(trip: f64, least: f64) -> Duration {
    Duration::from_secs_f64((trip - least / 2.0).max(1e-3))
}

fn least(trips: impl Iterator<Item = f64>) -> f64 {
    trips.fold(f64::MAX, f64::min)
}

fn pinged(name: &str, trips: &[Option<f64>]) -> Recording {
    let least = least(trips.iter().flatten().copied());
    let mut delay = way_out(least, least);
    let steps = trips.iter().enumerate().map(|(place, trip)| {
        delay = trip.map_or(delay, |trip| way_out(trip, least));
        (PING * place as u32, if trip.is_some() { ASSUMED } else { 0 }, delay)
    });
    Recording::of(name, steps.collect(), PING * trips.len() as u32)
}

fn handed_over(terminal: u64, trips: &[f64]) -> Recording {
    let least = least(trips.iter().copied());
    let span = |(place, trip): (usize, &f64)| {
        let (from, delay) = (HANDOVER.0 * place as u32, way_out(*trip, least));
        [(from, 0, delay), (from + HANDOVER.1, ASSUMED, delay)]
    };
    let steps = trips.iter().enumerate().flat_map(span).collect();
    Recording::of(&terminal.to_string(), steps, HANDOVER.0 * trips.len() as u32)
}

impl Recording {
    fn of(name: &str, steps: Vec<(Duration, u64, Duration)>, length: Duration) -> Recording {
        Recording { name: name.into(), chances: Vec::new(), steps, length }
    }

    /// What is played of it: from a place that the seed chooses on, as long as that is worth.
    fn played(&self, seed: u64) -> anyhow::Result<Trace> {
        let spare = self.length.saturating_sub(PLAYED.0);
        let from = Random::new(seed, 28).span(Duration::ZERO, spare.max(Duration::from_millis(1)));
        let from = if spare.is_zero() { Duration::ZERO } else { from };
        let service = self.service(from)?;
        let mut length = self.length.min(PLAYED.0);
        while service.room(Duration::ZERO, length) > PLAYED.1 && length > PLAYED_MIN {
            length = length.mul_f64(0.75).max(PLAYED_MIN);
        }
        let (delays, silences) = (self.delays(from), self.silences(from));
        Ok(Trace { delays, silences, ..Trace::of(&self.name, service, length) })
    }

    fn silences(&self, from: Duration) -> Vec<(Duration, Duration)> {
        let steps: Vec<_> = self.steps_from(from).collect();
        let silent = steps.windows(2).filter(|pair| pair[0].1 == 0);
        silent.map(|pair| (pair[0].0, pair[1].0)).collect()
    }

    fn service(&self, from: Duration) -> anyhow::Result<Service> {
        if !self.chances.is_empty() {
            let first = from.as_millis() as u64;
            let later = self.chances.iter().filter(|&&at| at >= first);
            let chances = later.map(|at| at - first).collect();
            return Ok(Service::Chances(Chances::new(chances)?));
        }
        let steps = self.steps_from(from).map(|(at, rate, _)| (at, rate)).collect();
        Ok(Service::Rate(Profile::new(steps, Some(self.length.saturating_sub(from)))?))
    }

    fn delays(&self, from: Duration) -> Vec<(Duration, Duration)> {
        let mut delays: Vec<_> = self.steps_from(from).map(|(at, _, delay)| (at, delay)).collect();
        delays.dedup_by_key(|(_, delay)| *delay);
        delays
    }

    /// The steps, the one that lasts at `from` first, counted from then.
    fn steps_from(&self, from: Duration) -> impl Iterator<Item = (Duration, u64, Duration)> {
        let place = self.steps.partition_point(|(at, ..)| *at <= from).saturating_sub(1);
        let since = move |at: Duration| at.saturating_sub(from);
        self.steps[place..].iter().map(move |&(at, rate, delay)| (since(at), rate, delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn each_form_is_a_recording() {
        let table = Form::Megabits.read("t", "0.2 8\n0.4 0.5\n0.7 1\n").unwrap().remove(0);
        let expected = vec![(ms(0), 8_000_000, DELAY), (ms(200), 500_000, DELAY)];
        assert_eq!((table.steps, table.length), (expected, ms(500)));
        let bytes = Form::Bytes.read("b", "1,1000\n2,2000\n").unwrap().remove(0);
        assert_eq!((bytes.steps, bytes.length), (vec![(ms(0), 8000, DELAY)], ms(1000)));
        let pings = "send_ms_unix,seq,rtt_ms\n5,1,80\n205,2,\n405,3,100\n";
        let pings = Form::Pings.read("p", pings).unwrap().remove(0);
        let expected =
            vec![(ms(0), ASSUMED, ms(40)), (ms(200), 0, ms(40)), (ms(400), ASSUMED, ms(60))];
        assert_eq!((pings.steps, pings.length), (expected, ms(600)));
        let trips: String = (0..8).map(|at| format!("{at},7,1,1,{},60,\n", 50 + at)).collect();
        let terminal = Form::Satellites.read("s", &trips).unwrap().remove(0);
        assert_eq!((terminal.name.as_str(), terminal.length), ("7", HANDOVER.0 * 8));
        assert_eq!(terminal.steps[3], (HANDOVER.0 + HANDOVER.1, ASSUMED, ms(26)));
        assert!(Form::Megabits.read("short", "1\n").is_err());
    }

    #[test]
    fn a_recording_is_played_from_where_the_seed_says() {
        let rows: String = (0..=200).map(|at| format!("{at} {}\n", 1 + at % 7)).collect();
        let whole = Form::Megabits.read("w", &rows).unwrap().remove(0);
        let [one, same, other] = [1, 1, 2].map(|seed| whole.played(seed).unwrap());
        assert_eq!((one.length, &one.service), (PLAYED.0, &same.service));
        assert_ne!(one.service, other.service);
        let steps: Vec<_> = whole.steps_from(ms(2500)).map(|(at, rate, _)| (at, rate)).collect();
        assert_eq!(steps[..2], [(ms(0), 3_000_000), (ms(500), 4_000_000)]);
    }

    #[test]
    fn no_source_is_on_both_sides() {
        for of in SOURCES {
            let same = |one: &&Source| one.folder == of.folder && one.files == of.files;
            assert_eq!(SOURCES.iter().filter(same).count(), 1, "{}", of.name);
        }
        assert!(traces(Path::new("no/such"), &SOURCES[0], 1).unwrap().is_none());
    }
}
