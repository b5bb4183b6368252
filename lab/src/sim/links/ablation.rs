//! `lab sim link-ablation`: every scheduler on the same paths with the same records.

use std::ops::Range;

use tidegate_core::link::LinkOptions;
use tidegate_core::link::schedule::ScheduleName;

use super::loaded::{latency, media};
use super::scene::{HEAVY, LIGHT, PATIENT};
use super::statistics::Estimate;
use crate::bench::figure;

/// Loads in Mbit/s: a quarter and half of the sum.
const LOADS: [f64; 2] = [40.0, 80.0];

/// What one scheduler made of one case, by seed.
#[derive(Clone, Debug, Default)]
struct Runs {
    p50: Vec<f64>,
    p99: Vec<f64>,
    disordered: Vec<f64>,
    goodput: Vec<f64>,
    bytes: Vec<f64>,
}

fn play(schedule: ScheduleName, loss: [f64; 3], megabits: f64, seeds: Range<u64>) -> Runs {
    let mut runs = Runs::default();
    for seed in seeds {
        let options = LinkOptions { schedule, ..LinkOptions::new(1, 1) };
        let (world, since, cost) = media(&options, loss, megabits, PATIENT, seed);
        let span = world.now.since(since).as_secs_f64();
        let came = world.came.iter().filter(|came| came.at >= since);
        let bytes: usize = came.map(|came| came.size).sum();
        runs.p50.push(latency(&world, since, 50.0));
        runs.p99.push(latency(&world, since, 99.0));
        runs.disordered.push(world.ends[1].disordered() as f64 / world.bytes as f64 * 1e6);
        runs.goodput.push(bytes as f64 * 8e-6 / span);
        runs.bytes.push(cost);
    }
    runs
}

/// Mean and interval of what is added by taking the other: the same seeds, so pair by pair.
fn difference(ours: &[f64], other: &[f64]) -> Estimate {
    let pairs: Vec<f64> = ours.iter().zip(other).map(|(ours, other)| other - ours).collect();
    Estimate::of(&pairs)
}

/// Runs the scenario.
pub(super) fn run(seeds: &Range<u64>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut figures = Vec::new();
    for (name, loss) in [("heavy", HEAVY), ("light", LIGHT)] {
        for megabits in LOADS {
            lines.push(format!(
                "{name} loss, {megabits} Mbit/s, {} seeds; differences to {} with their 95 % intervals, less is better",
                seeds.clone().count(),
                ScheduleName::default().name()
            ));
            lines.push(HEAD.into());
            let ours = play(ScheduleName::default(), loss, megabits, seeds.clone());
            for schedule in ScheduleName::ALL {
                let is_ours = schedule == ScheduleName::default();
                let runs = if is_ours {
                    ours.clone()
                } else {
                    play(schedule, loss, megabits, seeds.clone())
                };
                lines.push(row(schedule.name(), &ours, &runs));
                let label = schedule.name().replace('-', "_");
                let named = |what: &str| format!("ablation_{name}_{megabits}_{label}_{what}");
                figures.push(figure(&named("p99"), Estimate::of(&runs.p99).mean, "ms"));
                figures.push(figure(
                    &named("disordered"),
                    Estimate::of(&runs.disordered).mean,
                    "1/MB",
                ));
            }
        }
    }
    lines.append(&mut figures);
    lines
}

const HEAD: &str = "                p50 ms           p99 ms           p99 beyond       disordered/MB    beyond           goodput          bytes";

fn row(name: &str, ours: &Runs, runs: &Runs) -> String {
    let text = |runs: &[f64], digits| Estimate::of(runs).text(digits);
    format!(
        "{name:15} {:16} {:16} {:16} {:16} {:16} {:16} {}",
        text(&runs.p50, 1),
        text(&runs.p99, 1),
        difference(&ours.p99, &runs.p99).text(1),
        text(&runs.disordered, 1),
        difference(&ours.disordered, &runs.disordered).text(1),
        text(&runs.goodput, 2),
        text(&runs.bytes, 2),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_other_takes_longer_is_beyond() {
        let beyond = difference(&[1.0, 2.0], &[2.0, 3.0]);
        assert!((beyond.mean - 1.0).abs() < 1e-12 && beyond.half.abs() < 1e-12);
    }
}
