//! `lab sim link-ablation`: every scheduler and every predictor on the same paths with the same records.

use std::ops::Range;

use tidegate_link::LinkOptions;
use tidegate_link::path_scheduler::PathSchedulerName;
use tidegate_link::predict::PredictorName;

use super::load::{latency, media_on};
use super::scene::{HEAVY, LIGHT, PATIENT, crossed};
use super::statistics::Estimate;
use crate::report::{Figure, Findings, figure};
use crate::sim::parallel;

/// Loads in Mbit/s: a quarter and half of the sum.
const LOADS: [f64; 2] = [40.0, 80.0];
/// Part of each path that others take where predictors are compared: where nobody else sends, delays do not change.
const CROSS: f64 = 0.25;
/// Those that ask a predictor.
const ASKING: [PathSchedulerName; 2] = [PathSchedulerName::FdMvqs, PathSchedulerName::FdMvqsPaper];

/// What all of one table have in common.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    loss: [f64; 3],
    megabits: f64,
    cross: f64,
}

/// What one of them made of one case, by seed.
#[derive(Clone, Debug, Default)]
struct Runs {
    p50: Vec<f64>,
    p99: Vec<f64>,
    disordered: Vec<f64>,
    goodput: Vec<f64>,
    bytes: Vec<f64>,
}

fn play(options: &LinkOptions, case: Case, seeds: &Range<u64>) -> Runs {
    let seeds: Vec<u64> = seeds.clone().collect();
    let each = parallel::map(&seeds, |&seed| {
        let world = crossed(options, case.loss, case.cross, seed);
        let (world, since, cost) = media_on(world, case.megabits, PATIENT, seed);
        let span = world.now.since(since).as_secs_f64();
        let came = world.came.iter().filter(|came| came.at >= since);
        let bytes: usize = came.map(|came| came.size).sum();
        let disordered = world.ends[1].disordered() as f64 / world.bytes as f64 * 1e6;
        let goodput = bytes as f64 * 8e-6 / span;
        [latency(&world, since, 50.0), latency(&world, since, 99.0), disordered, goodput, cost]
    });
    let mut runs = Runs::default();
    for [p50, p99, disordered, goodput, bytes] in each {
        runs.p50.push(p50);
        runs.p99.push(p99);
        runs.disordered.push(disordered);
        runs.goodput.push(goodput);
        runs.bytes.push(bytes);
    }
    runs
}

/// Mean and interval of what is added by taking the other: the same seeds, so pair by pair.
fn difference(ours: &[f64], other: &[f64]) -> Estimate {
    let pairs: Vec<f64> = ours.iter().zip(other).map(|(ours, other)| other - ours).collect();
    Estimate::of(&pairs)
}

/// The table of one case: the default, then all others beside it. Figures go to `figures`.
fn table(
    case: Case,
    all: &[(String, LinkOptions)],
    seeds: &Range<u64>,
    figures: &mut Vec<Figure>,
) -> Vec<String> {
    let Case { name, megabits, cross, .. } = case;
    let mut lines = vec![
        format!(
            "{name} loss, {megabits} Mbit/s, others {} % of each path, {} seeds; differences to {} with their 95 % \
             intervals, less is better",
            cross * 100.0,
            seeds.clone().count(),
            all[0].0
        ),
        HEAD.into(),
    ];
    let ours = play(&all[0].1, case, seeds);
    for (at, (label, options)) in all.iter().enumerate() {
        let runs = if at == 0 { ours.clone() } else { play(options, case, seeds) };
        lines.push(row(label, &ours, &runs));
        let words = label.replace(['-', ' '], "_");
        let named = |what: &str| format!("ablation_{name}_{megabits}_{words}_{what}");
        figures.push(figure(&named("p99"), Estimate::of(&runs.p99).mean, "ms"));
        figures.push(figure(&named("disordered"), Estimate::of(&runs.disordered).mean, "1/MB"));
    }
    lines
}

pub fn run(seeds: &Range<u64>) -> Findings {
    let (mut lines, mut figures) = (Vec::new(), Vec::new());
    let options = |schedule| LinkOptions { schedule, ..LinkOptions::new(1, 1) };
    let of_schedule = |schedule: PathSchedulerName| (schedule.name().to_owned(), options(schedule));
    // The default is the first of both.
    let schedules = PathSchedulerName::ALL.map(of_schedule);
    let predictors = ASKING.map(|schedule| {
        PredictorName::ALL.map(|predictor| {
            let label = format!("{} {}", schedule.name(), predictor.name());
            (label, LinkOptions { predictor, ..options(schedule) })
        })
    });
    for (name, loss) in [("heavy", HEAVY), ("light", LIGHT)] {
        for megabits in LOADS {
            let case = Case { name, loss, megabits, cross: 0.0 };
            lines.extend(table(case, &schedules, seeds, &mut figures));
        }
        let case = Case { name, loss, megabits: LOADS[0], cross: CROSS };
        lines.extend(table(case, &predictors.concat(), seeds, &mut figures));
    }
    (lines, figures).into()
}

const HEAD: &str = "                       p50 ms           p99 ms           p99 beyond       disordered/MB    beyond           goodput          bytes";

fn row(name: &str, ours: &Runs, runs: &Runs) -> String {
    let text = |runs: &[f64], digits| Estimate::of(runs).text(digits);
    format!(
        "{name:22} {:16} {:16} {:16} {:16} {:16} {:16} {}",
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

    #[test]
    fn the_default_stands_first() {
        assert_eq!(PathSchedulerName::ALL[0], PathSchedulerName::default());
        assert_eq!((PredictorName::ALL[0], ASKING[0]), Default::default());
    }
}
