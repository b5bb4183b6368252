//! `lab sim link-paper`: the scenarios of FD-MVQS (Table 1) and its figures 6 to 11 as tables.
//!
//! First its schedulers over our own rate control (tables), then its own world and what it claims of it (`claims.rs`).
//! The paper's absolute numbers cannot be had: 128 kB a round trip of 140 ms are 7.5 Mbit/s, not 80. Queues are ours,
//! for it prints none.

use std::ops::Range;
use std::time::Duration;

use tidegate_link::path_scheduler::PathSchedulerName;
use tidegate_link::{LinkOptions, RedundancyName};
use tidegate_types::units::Size;

use super::claims;
use super::load::Load;
use super::scene::{HEAVY, PATIENT, crossed};
use super::statistics::{Estimate, mean, percentile};
use super::world::World;
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};
use crate::sim::parallel;

/// Who is compared: the paper's three and our form of its scheduler.
const SCHEDULES: [PathSchedulerName; 4] = [
    PathSchedulerName::FdMvqs,
    PathSchedulerName::FdMvqsPaper,
    PathSchedulerName::DpsafLike,
    PathSchedulerName::LowRtt,
];
/// Seconds in which all find their rates, and that count.
const SPAN: (u32, u32) = (5, 10);
/// Looks at round trips in a second.
const LOOKS: u32 = 10;
/// Receive buffers of Fig. 9 and 10, KiB.
pub(super) const BUFFERS: [u64; 4] = [128, 256, 512, 1024];
/// Loss of path A in Fig. 11.
pub(super) const LOSSES: [f64; 6] = [0.10, 0.12, 0.14, 0.16, 0.18, 0.20];
/// Part of each path that others take.
pub(super) const CROSS: [f64; 3] = [0.0, 0.25, 0.5];
/// Cases that are played here: Table 1, buffers, losses with each guard, what others take.
const STEPS: usize = 1 + BUFFERS.len() + 2 * LOSSES.len() + CROSS.len();

/// One row: what is the same for all schedulers.
#[derive(Clone, Debug)]
struct Case {
    name: String,
    loss: [f64; 3],
    cross: f64,
    window: Size,
    guard: RedundancyName,
}

impl Case {
    fn new(name: String) -> Self {
        let LinkOptions { receive_window: window, guard, .. } = LinkOptions::new(1, 1);
        Case { name, loss: HEAVY, cross: 0.0, window, guard }
    }
}

/// What came of one run.
#[derive(Clone, Debug, Default)]
pub(super) struct Played {
    /// Mbit/s of each second.
    pub(super) rates: Vec<f64>,
    /// Smoothed round trips in ms, each as often as packets went by its path since the look before.
    pub(super) trips: Vec<f64>,
    /// Disordered packets of each second.
    pub(super) disordered: Vec<f64>,
    /// Part of the parts that were sent again.
    pub(super) repeated: f64,
}

fn play(case: &Case, schedule: PathSchedulerName, seed: u64) -> Played {
    let (receive_window, guard) = (case.window, case.guard);
    let options = LinkOptions { schedule, receive_window, guard, ..LinkOptions::new(1, 1) };
    watch(crossed(&options, case.loss, case.cross, seed), seed)
}

/// Bulk over a world, from nothing.
pub(super) fn watch(mut world: World, seed: u64) -> Played {
    let mut load = Load::new(seed, PATIENT);
    let look = Duration::from_secs(1) / LOOKS;
    load.bulk(&mut world, Duration::from_secs(SPAN.0.into()), look);
    let mut played = Played::default();
    let start = world.ends[0].counts();
    let mut packets = [0; 3].map(|_: u64| 0);
    for _ in 0..SPAN.1 {
        let (bytes, disordered) = (world.bytes, world.ends[1].disordered());
        for _ in 0..LOOKS {
            load.bulk(&mut world, look, look);
            for (path, before) in packets.iter_mut().enumerate() {
                let status = world.ends[0].path_status(path);
                let sent = status.counts.packets;
                let trip = status.srtt.unwrap_or_default().as_secs_f64() * 1e3;
                let new = if *before == 0 { 0 } else { sent - *before };
                played.trips.extend((0..new).map(|_| trip));
                *before = sent;
            }
        }
        played.rates.push((world.bytes - bytes) as f64 * 8e-6);
        played.disordered.push((world.ends[1].disordered() - disordered) as f64);
    }
    let end = world.ends[0].counts();
    played.repeated =
        (end.repeated - start.repeated) as f64 / (end.parts - start.parts).max(1) as f64;
    played
}

/// Rows of a table: a name, and a figure of each run by scheduler.
type Rows = Vec<(String, Vec<Vec<f64>>)>;

/// Tables for people, and their figures for machines.
#[derive(Clone, Debug, Default)]
struct Tables {
    lines: Vec<String>,
    figures: Vec<Figure>,
}

impl Tables {
    /// Adds a table: means over seeds with their 95 % intervals. `key` begins the names of its figures.
    fn add(&mut self, title: &str, key: &str, unit: &'static str, rows: Rows) {
        let names = SCHEDULES.map(|schedule| format!(" {:>18}", schedule.name())).concat();
        self.lines.push(format!("{title} ({unit})"));
        self.lines.push(format!("{:34}{names}", ""));
        for (name, runs) in rows {
            let words = name.split(|char: char| !char.is_ascii_alphanumeric());
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            let words = words.join("_").to_lowercase();
            let mut line = format!("{name:34}");
            for (schedule, runs) in SCHEDULES.iter().zip(&runs) {
                let estimate = Estimate::of(runs);
                let digits = if estimate.mean < 10.0 { 2 } else { 1 };
                line.push_str(&format!(" {:>18}", estimate.text(digits)));
                let label = schedule.name().replace('-', "_");
                let name = format!("link_paper_{key}_{words}_{label}");
                self.figures.push(figure(&name, estimate.mean, unit));
            }
            self.lines.push(line);
        }
    }
}

/// Runs of one case: by scheduler, then by seed.
type Cell = (String, Vec<Vec<Played>>);

fn cells(cases: Vec<Case>, seeds: &Range<u64>, progress: &Progress) -> Vec<Cell> {
    let seeds: Vec<u64> = seeds.clone().collect();
    let of_case = |case: Case| {
        progress.step(&case.name, None);
        let of_schedule = |schedule| parallel::map(&seeds, |&seed| play(&case, schedule, seed));
        let runs = SCHEDULES.map(of_schedule).into();
        (case.name, runs)
    };
    cases.into_iter().map(of_case).collect()
}

/// Rows of a figure of each run.
fn rows(cells: &[Cell], of: impl Fn(&Played) -> f64) -> Rows {
    let of_runs = |runs: &Vec<Played>| runs.iter().map(&of).collect();
    let row = |(name, all): &Cell| (name.clone(), all.iter().map(of_runs).collect());
    cells.iter().map(row).collect()
}

/// A row of each percentile of what a run has many of.
fn percentiles(cells: &[Cell], of: impl Fn(&Played) -> &[f64]) -> Rows {
    let each = [10.0, 50.0, 80.0, 90.0].map(|percent| {
        let mut rows = rows(cells, |played| percentile(of(played), percent));
        rows.iter_mut().for_each(|(name, _)| *name = format!("{name}, p{percent}"));
        rows
    });
    each.concat()
}

pub fn run(seeds: &Range<u64>) -> Findings {
    let mut tables = Tables::default();
    let progress = Progress::new("link-paper", STEPS + claims::STEPS);
    tables.lines.push(format!("Table 1, bulk of 64 streams, {} seeds", seeds.clone().count()));
    let fixed = cells(vec![Case::new("Table 1".into())], seeds, &progress);
    let rates = percentiles(&fixed, |played| &played.rates);
    tables.add("Fig. 6: throughput of each second", "fig6", "Mbit/s", rates);
    let trips = percentiles(&fixed, |played| &played.trips);
    tables.add("Fig. 7: round trips", "fig7", "ms", trips);
    let disordered = percentiles(&fixed, |played| &played.disordered);
    tables.add("Fig. 8: disordered packets", "fig8", "1/s", disordered);
    let buffers = BUFFERS.map(|kib| {
        let window = Size::from_kib(kib);
        Case { window, ..Case::new(format!("{kib} KiB")) }
    });
    let buffers = cells(buffers.into(), seeds, &progress);
    let rates = rows(&buffers, |played| mean(&played.rates));
    tables.add("Fig. 9: throughput by receive buffer", "fig9", "Mbit/s", rates);
    let trips = rows(&buffers, |played| mean(&played.trips));
    tables.add("Fig. 10: mean round trip by receive buffer", "fig10", "ms", trips);
    let lossy = [RedundancyName::Off, RedundancyName::Code].map(|guard| {
        LOSSES.map(|first| {
            let name = format!("A loses {first:.2}, guard {}", guard.name());
            let loss = [first, HEAVY[1], HEAVY[2]];
            Case { loss, guard, ..Case::new(name) }
        })
    });
    let again = rows(&cells(lossy.concat(), seeds, &progress), |played| played.repeated * 100.0);
    tables.add("Fig. 11: sent again", "fig11", "%", again);
    let crossed = CROSS.map(|cross| {
        let name = format!("others {:.0} % of each path", cross * 100.0);
        Case { cross, ..Case::new(name) }
    });
    let rates = rows(&cells(crossed.into(), seeds, &progress), |played| mean(&played.rates));
    tables.add("Cross traffic: throughput", "cross", "Mbit/s", rates);
    let (lines, figures) = claims::claims(seeds, &progress);
    tables.lines.extend(lines);
    tables.figures.extend(figures);
    (tables.lines, tables.figures).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_buffer_carries_no_more_than_a_window_each_round_trip() {
        let case = Case { window: Size::from_kib(128), ..Case::new("small".into()) };
        let played = play(&case, PathSchedulerName::LowRtt, 1);
        let most = 128.0 * 1024.0 * 8e-6 / 0.140;
        assert!(mean(&played.rates) < 1.05 * most, "{:?}", played.rates);
        assert!(played.trips.iter().all(|&trip| trip >= 140.0) && played.repeated < 0.2);
    }
}
