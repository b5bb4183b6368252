//! Placement of topics at scale (`place-scale`): nodes and time of every heuristic, then loads that drift.
//!
//! What is feasible is what the physics of the pool says: plans are judged here by the model that made them.

mod drift;
mod topics;

use std::time::{Duration, Instant};

use tidegate_cluster::place::{
    FeasibilityOracle, Machines, Physics, PlacementProblem, Plan, Topic,
};
use tidegate_cluster::place::{first_fit, hybrid, improve, largest_set, lower_bound, pairs};

use self::topics::{KINDS, Kind, MACHINE, REPORTED};
use crate::report::{Figure, Findings, figure};
use crate::sim::random::Random;

/// Topics of the small problems, as in the paper's Fig. 3; each is drawn several times.
const SMALL: [usize; 7] = [10, 20, 30, 40, 50, 60, 70];
const DRAWS: usize = 3;
/// Topics of the large ones, drawn once.
const LARGE: [usize; 2] = [1000, 10_000];
/// Questions after which a search by largest sets gives up: about a second.
const QUESTIONS_MAX: u64 = 2_000_000;
/// Questions that an improvement may ask for each topic of a small problem, and in all: below five seconds.
const IMPROVE_PER_TOPIC: u64 = 4000;
const IMPROVE_MAX: u64 = 2_000_000;
/// Of ten thousand topics, below two seconds.
const IMPROVE_MANY: usize = 5000;
const IMPROVE_MANY_MAX: u64 = 400_000;

/// A heuristic by name: a plan, unless it gave up.
type Heuristic = (&'static str, fn(&mut FeasibilityOracle<'_>) -> Option<Plan>);

const HEURISTICS: [Heuristic; 6] = [
    ("ffd", |feasible| Some(ffd(feasible))),
    ("lfs3+ffd", |feasible| limited(feasible, 3)),
    ("lfs2+ffd", |feasible| limited(feasible, 2)),
    ("lfs", |feasible| {
        let most = feasible.questions() + QUESTIONS_MAX;
        largest_set(feasible, most)
    }),
    ("pairs", |feasible| Some(pairs(feasible))),
    ("improve", |feasible| {
        let topics = feasible.problem().topics.len();
        let most = if topics > IMPROVE_MANY { IMPROVE_MANY_MAX } else { IMPROVE_MAX };
        Some(improve(feasible, 1, most.min(IMPROVE_PER_TOPIC * topics as u64)))
    }),
];

fn ffd(feasible: &mut FeasibilityOracle<'_>) -> Plan {
    let order = feasible.by_latency_alone();
    first_fit(feasible, &order)
}

fn limited(feasible: &mut FeasibilityOracle<'_>, at_once: usize) -> Option<Plan> {
    let most = feasible.questions() + QUESTIONS_MAX;
    hybrid(feasible, at_once, most)
}

/// A heuristic over several draws.
#[derive(Clone, Copy, Debug, Default)]
struct Score {
    nodes: usize,
    unplaced: usize,
    took: Duration,
    gave_up: usize,
    draws: usize,
}

impl Score {
    fn mean_nodes(&self) -> Option<f64> {
        (self.gave_up == 0).then(|| self.nodes as f64 / self.draws as f64)
    }

    fn mean_ms(&self) -> f64 {
        self.took.as_secs_f64() * 1e3 / self.draws as f64
    }
}

/// The lines to print, and what a plan was not allowed to do.
pub fn run(seed: u64) -> Findings {
    let (mut lines, mut figures, mut broken) = (Vec::new(), Vec::new(), Vec::new());
    for kind in KINDS {
        lines.push(String::new());
        lines.push(format!("{}: {}", kind.name, kind.told));
        let names = HEURISTICS.map(|(name, _)| format!("{name:>18}"));
        lines.push(format!("{:>7} {:>7}{}", "topics", "bound", names.concat()));
        for (count, draws) in SMALL.map(|n| (n, DRAWS)).into_iter().chain(LARGE.map(|n| (n, 1))) {
            let (line, scores) = row(seed, kind, count, draws, &mut broken);
            lines.push(line);
            if REPORTED.contains(&kind.name) && count >= SMALL[SMALL.len() - 1] {
                figures.extend(figures_of(kind.name, count, &scores));
            }
        }
    }
    lines.push(
        "nodes and milliseconds of one plan, means of the draws; bound: no plan needs fewer (dual weights)".into(),
    );
    let mut found = Findings { lines, figures, broken, ..Findings::default() };
    found.add(drift::run(seed));
    found
}

/// All heuristics on the same draws.
fn row(
    seed: u64,
    kind: Kind,
    count: usize,
    draws: usize,
    broken: &mut Vec<String>,
) -> (String, [Score; HEURISTICS.len()]) {
    let mut scores = [Score::default(); HEURISTICS.len()];
    let mut least = 0;
    for draw in 0..draws {
        let mut random = Random::new(seed, (count * 100 + draw) as u64);
        let topics = kind.draw(count, &mut random);
        let machines = Machines::Any(MACHINE);
        let problem = problem(&topics, &machines, kind.together_max);
        least += lower_bound(&mut FeasibilityOracle::new(problem)).nodes;
        for (score, (name, solve)) in scores.iter_mut().zip(HEURISTICS) {
            score.draws += 1;
            // Pairs and sets are for small problems: all pairs of ten thousand topics are fifty million.
            if count > SMALL[SMALL.len() - 1] && !matches!(name, "ffd" | "improve") {
                score.gave_up += 1;
                continue;
            }
            let mut feasible = FeasibilityOracle::new(problem);
            let begun = Instant::now();
            let plan = solve(&mut feasible);
            score.took += begun.elapsed();
            let Some(plan) = plan else {
                score.gave_up += 1;
                continue;
            };
            score.nodes += plan.used();
            score.unplaced += plan.unplaced.len();
            let wrong = plan
                .nodes
                .iter()
                .filter(|node| !node.is_empty() && !feasible.fits(&MACHINE, node.iter().copied()));
            broken.extend(wrong.map(|node| format!("{name}: {node:?} miss their bounds")));
        }
    }
    let cell = |score: &Score| match score.mean_nodes() {
        Some(nodes) => format!("{nodes:>8.1} {:>6.1} ms", score.mean_ms()),
        None => format!("{:>18}", "-"),
    };
    let cells: Vec<String> = scores.iter().map(|score| format!("{:>18}", cell(score))).collect();
    let least = least as f64 / draws as f64;
    (format!("{count:>7} {least:>7.1}{}", cells.concat()), scores)
}

fn problem<'a>(
    topics: &'a [Topic],
    machines: &'a Machines,
    together_max: usize,
) -> PlacementProblem<'a> {
    PlacementProblem { topics, machines, model: &Physics, together_max, margin: 0.0 }
}

fn figures_of(kind: &str, count: usize, scores: &[Score]) -> Vec<Figure> {
    let mut figures = Vec::new();
    let ffd = scores[0].mean_nodes();
    for (score, (name, _)) in scores.iter().zip(HEURISTICS) {
        let Some(nodes) = score.mean_nodes() else { continue };
        let name = format!("place_{kind}_{count}_{}", name.replace('+', "_"));
        figures.push(figure(&format!("{name}_nodes"), nodes, "nodes"));
        figures.push(figure(&format!("{name}_took"), score.mean_ms(), "ms"));
        if let Some(ffd) = ffd {
            figures.push(figure(&format!("{name}_of_ffd"), nodes / ffd, "1"));
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_heuristic_keeps_the_bounds_and_ours_needs_no_more_than_first_fit() {
        let mut broken = Vec::new();
        for kind in KINDS {
            let (_, scores) = row(3, kind, 20, 1, &mut broken);
            let [ffd, .., improved] = scores;
            assert!(improved.mean_nodes() <= ffd.mean_nodes(), "{}", kind.name);
            assert!(scores.iter().all(|score| score.unplaced == ffd.unplaced), "{scores:?}");
        }
        assert_eq!(broken, Vec::<String>::new());
    }
}
