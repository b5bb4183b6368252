//! Three carriers that were pinged at once while driving, as ways of a link.
//!
//! The recordings are `net/pam2025_3carrier_ping` of the shared data (NUWiNS, PAM 2025, CC0): a small ping each 200 ms
//! by each carrier, in logs of half a minute with gaps between them. Windows in which all three were probed
//! are joined here, by time.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

/// The folder, from the root of the repository.
pub(super) const FOLDER: &str = "net/pam2025_3carrier_ping";
pub(super) const CARRIERS: [&str; 3] = ["atnt", "tmobile", "verizon"];
/// Time between two pings.
pub(super) const STEP: Duration = Duration::from_millis(200);
/// Pings of the shortest window that counts: ten seconds.
const WINDOW_MIN: usize = 50;
/// Pings that may be missing in a window: a log that ends and the next one.
const HOLE_MAX: u64 = 1;

/// Round trips of each carrier at the same times; `None` was never answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Window {
    pub(super) trips: [Vec<Option<Duration>>; 3],
}

impl Window {
    /// Pings of each carrier.
    pub(super) fn len(&self) -> usize {
        self.trips[0].len()
    }
}

/// The windows of all recordings whose names begin so, in the order of names.
///
/// # Errors
/// A file that cannot be read, or is none of these.
pub(super) fn windows(folder: &Path, trip: &str) -> anyhow::Result<Vec<Window>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let suffix = format!("_{}.csv", CARRIERS[0]);
    let runs = names.filter_map(|name| Some(name.strip_suffix(&suffix)?.to_owned()));
    let mut runs: Vec<String> = runs.filter(|name| name.starts_with(trip)).collect();
    runs.sort();
    let mut windows = Vec::new();
    for run in runs {
        let read = |carrier: &str| {
            let path = folder.join(format!("{run}_{carrier}.csv"));
            let text = fs::read_to_string(&path);
            let text = text.with_context(|| format!("cannot read {}", path.display()))?;
            pings(&text).with_context(|| path.display().to_string())
        };
        let carriers = [read(CARRIERS[0])?, read(CARRIERS[1])?, read(CARRIERS[2])?];
        windows.extend(join(&carriers));
    }
    Ok(windows)
}

/// Pings by the step in which they were sent.
type Pings = BTreeMap<u64, Option<Duration>>;

fn pings(text: &str) -> anyhow::Result<Pings> {
    let mut pings = Pings::new();
    for (at, line) in text.lines().enumerate().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [sent, _, trip] = fields[..] else {
            anyhow::bail!("line {}: not three fields", at + 1)
        };
        let sent: u64 = sent.parse().with_context(|| format!("line {}: no time", at + 1))?;
        let trip = match trip.trim() {
            "" => None,
            millis => {
                let millis: f64 = millis.parse().with_context(|| format!("line {}", at + 1))?;
                Some(Duration::from_secs_f64(millis / 1e3))
            }
        };
        pings.insert(sent / STEP.as_millis() as u64, trip);
    }
    Ok(pings)
}

fn join(carriers: &[Pings; 3]) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    let mut last = None;
    for (&step, &first) in &carriers[0] {
        let (Some(&second), Some(&third)) = (carriers[1].get(&step), carriers[2].get(&step)) else {
            continue;
        };
        if last.is_none_or(|last| step > last + 1 + HOLE_MAX) {
            windows.push(Window::default());
        }
        last = Some(step);
        if let Some(window) = windows.last_mut() {
            let trips = window.trips.iter_mut().zip([first, second, third]);
            trips.for_each(|(trips, trip)| trips.push(trip));
        }
    }
    windows.retain(|window| window.len() >= WINDOW_MIN);
    windows
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_ping_without_an_answer_is_lost_and_no_gap() {
        let text = "send_ms_unix,seq,rtt_ms\n1000,1,50.5\n1200,2,\n1600,1,7\n";
        let all: Vec<_> = pings(text).unwrap().into_iter().collect();
        let half = Duration::from_micros(50_500);
        assert_eq!(all, [(5, Some(half)), (6, None), (8, Some(MS(7)))]);
        assert!(pings("h\n1,2\n").is_err() && pings("h\nx,1,2\n").is_err());
    }

    #[test]
    fn windows_are_where_all_were_probed_and_one_missing_step_is_closed_up() {
        let run = |from: u64, to: u64| (from..to).map(|step| (step, Some(MS(step))));
        let first: Pings = run(0, 100).chain(run(103, 200)).collect();
        let second: Pings = run(10, 70).chain(run(71, 200)).collect();
        let third: Pings = run(0, 160).collect();
        let windows = join(&[first, second, third]);
        assert_eq!(windows.iter().map(Window::len).collect::<Vec<_>>(), [89, 57]);
        assert_eq!(windows[0].trips[2][59..61], [Some(MS(69)), Some(MS(71))]);
    }
}
