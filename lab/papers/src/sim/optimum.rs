//! `lab sim node-optimum`: how near each scheduler comes to the best that Eq. 7 of the paper allows.
//! Source: papers/janus.txt, §IV-B.1, Eq. 4-14.

use tidegate_evaluation::optimum::gap::{self, Score};
use tidegate_evaluation::optimum::random::{self, Pressure};
use tidegate_schedule::SchedulerName;

use super::random::Random;
use crate::bench::median;
use crate::report::{Findings, figure};

/// Random instances of each kind, and undivided.
const INSTANCES: usize = 1000;

/// The lines to print.
pub fn run(seed: u64) -> Findings {
    let mut lines = vec![format!(
        "{:<8}{:<22}{:>8}{:>9}{:>9}{:>9}{:>8}",
        "load", "scheduler", "part", "near", "median", "starves", "ls late"
    )];
    let mut figures = Vec::new();
    let kinds = Pressure::ALL.map(Some).into_iter().chain([None]);
    for (part, pressure) in kinds.enumerate() {
        let kind = pressure.map_or("all", Pressure::name);
        let mut scores = vec![Score::default(); SchedulerName::ALL.len() + 1];
        let mut random = Random::new(seed, part as u64);
        for _ in 0..INSTANCES {
            let instance = loop {
                let instance = random::instance(&mut || random.share());
                if pressure.is_none_or(|pressure| Pressure::of(&instance) == pressure) {
                    break instance;
                }
            };
            for (score, name) in scores.iter_mut().zip(SchedulerName::ALL) {
                score.add(&instance, gap::objective(name, &instance));
            }
            let served = scores.last_mut().expect("there is one more than schedulers");
            served.add(&instance, gap::objective_as_served(&instance));
        }
        let names = SchedulerName::ALL.map(SchedulerName::name);
        for (score, name) in scores.iter().zip(names.into_iter().chain(["tidegate, as served"])) {
            let median = median(score.parts.clone());
            lines.push(format!(
                "{:<8}{name:<22}{:>8.3}{:>8.1}%{median:>9.3}{:>9}{:>8}",
                kind,
                score.part(),
                score.near() * 100.0,
                score.starves,
                score.late
            ));
            let name = name.replace(", ", "_").replace([' ', '-'], "_");
            let figure_of = |what: &str| format!("optimum_{kind}_{name}_{what}");
            figures.push(figure(&figure_of("part"), score.part(), "of_optimum"));
            figures.push(figure(&figure_of("near"), score.near(), "1"));
        }
    }
    (lines, figures).into()
}
