//! The topics, and the plans of each method.

use std::io;
use std::time::{Duration, Instant};

use tidegate_cluster::place::{
    FeasibilityOracle, Machines, Physics, PlacementProblem, Plan, Topic, first_fit, hybrid,
    improve, largest_set,
};

use super::{Options, city};
use crate::bench::topics::Mode;
use crate::sim::random::Random;

/// Work of the paper's topics, at a tenth of its time.
const WORK_MS: [f64; 4] = [1.25, 2.75, 4.25, 5.0];
/// Processors that a topic keeps busy.
const LOAD: std::ops::Range<f64> = 0.05..0.45;
pub(super) const WORK_CV: f64 = 0.02;
/// Topics of one node at most: the paper's, for its methods; the model's limit, for ours.
const TOGETHER: usize = 6;
const TOGETHER_OURS: usize = 32;
/// Questions after which a search gives up.
const QUESTIONS_MAX: u64 = 4_000_000;
const IMPROVE_MAX: u64 = 200_000;

pub(super) const OURS: &str = "improve";
/// Ours, run as the paper's broker works.
const THREADS: &str = "improve, a thread a topic";
pub(super) const LFS: &str = "lfs, k = 6";

/// A plan to be run.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) name: String,
    /// None where the search gave up.
    pub(super) plan: Option<Plan>,
    pub(super) took_ms: f64,
    pub(super) mode: Mode,
}

/// The city's topics where there are rides, else drawn ones.
///
/// # Errors
/// Rides that cannot be read.
pub(super) fn draw(options: &Options) -> io::Result<Vec<Topic>> {
    if let Some(data) = &options.rides {
        return city::draw(data, options.seed);
    }
    let mut random = Random::new(options.seed, 91);
    let mut one = || {
        let work = random.pick(&WORK_MS) / 1e3;
        let load = LOAD.start + (LOAD.end - LOAD.start) * random.share();
        Topic {
            work: Duration::from_secs_f64(work),
            work_cv: WORK_CV,
            rate: load / work,
            subscribers: 1,
            bound: Duration::from_millis(random.pick(options.bounds.millis())),
            is_serial: false,
        }
    };
    Ok((0..options.topics).map(|_| one()).collect())
}

/// The plans of all methods.
pub(super) fn all(topics: &[Topic], options: &Options) -> Vec<Planned> {
    let machines = Machines::Any(options.machine());
    let problem = |together_max| PlacementProblem {
        topics,
        machines: &machines,
        model: &Physics,
        together_max,
        margin: options.margin,
    };
    let feasible = |together_max| FeasibilityOracle::new(problem(together_max));
    let mut found = Vec::new();
    let mut add = |name: &str, mode, solve: &dyn Fn() -> Option<Plan>| {
        if options.method.is_empty() || options.method.iter().any(|asked| asked == name) {
            found.push(timed(name, mode, solve));
        }
    };
    let ours = || Some(improve(&mut feasible(TOGETHER_OURS), options.seed, IMPROVE_MAX));
    add(OURS, Mode::Pool, &ours);
    add(THREADS, Mode::Threads, &ours);
    add("ffd", Mode::Pool, &|| {
        let mut feasible = feasible(TOGETHER);
        let order = feasible.by_latency_alone();
        Some(first_fit(&mut feasible, &order))
    });
    add(LFS, Mode::Pool, &|| largest_set(&mut feasible(TOGETHER), QUESTIONS_MAX));
    for at_once in 1..if options.sweep { TOGETHER } else { 2 } {
        add(&format!("lfs+ffd, k' = {at_once}"), Mode::Pool, &|| {
            hybrid(&mut feasible(TOGETHER), at_once, QUESTIONS_MAX)
        });
    }
    found
}

fn timed(name: &str, mode: Mode, solve: &dyn Fn() -> Option<Plan>) -> Planned {
    let begun = Instant::now();
    let plan = solve();
    let took_ms = begun.elapsed().as_secs_f64() * 1e3;
    Planned { name: name.to_owned(), plan, took_ms, mode }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn every_method_places_every_topic() {
        let options = Line::parse_from(["lab", "--topics", "12", "--sweep"]).options;
        let topics = draw(&options).unwrap();
        let planned = all(&topics, &options);
        assert_eq!(planned.len(), 9);
        for one in planned {
            let plan = one.plan.unwrap();
            assert!(plan.unplaced.is_empty(), "{}", one.name);
            let placed: usize = plan.nodes.iter().map(Vec::len).sum();
            assert_eq!(placed, 12, "{}", one.name);
        }
    }

    #[test]
    fn only_the_methods_that_are_asked_for_are_planned() {
        let line = ["lab", "--topics", "6", "--method", "ffd", "--method", "improve"];
        let options = Line::parse_from(line).options;
        let planned = all(&draw(&options).unwrap(), &options);
        let names: Vec<&str> = planned.iter().map(|one| &*one.name).collect();
        assert_eq!(names, ["improve", "ffd"]);
    }
}
