//! Which configurations are measured: topics that keep a machine busy from a little to entirely.

use std::time::Duration;

use tidegate_types::random::SplitMix;

/// Topics of a configuration at most.
const TOPICS_MAX: usize = 10;
/// CPU time of a record, at least and at most, milliseconds: short enough that a few seconds have many.
const WORK_MS: [f64; 2] = [0.8, 6.0];
/// Work of all topics, as a part of all processors: what clients and connections need is beside it.
const LOAD: [f64; 2] = [0.12, 0.95];
/// Bound of a topic, in times its work.
const BOUND: [f64; 2] = [1.6, 30.0];
/// Subscribers of a topic that has several.
const SUBSCRIBERS: [u32; 3] = [2, 4, 8];

/// A topic that is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Designed {
    /// CPU time of a record, its mean.
    pub work: Duration,
    /// Half of the records take so much less and half so much more, as a part: the coefficient of variation.
    pub work_cv: f64,
    /// Records/s, Poisson.
    pub rate: f64,
    /// Who gets each record.
    pub subscribers: u32,
    /// Bound on the 90th percentile.
    pub bound: Duration,
    /// One record at a time.
    pub is_serial: bool,
}

/// What is measured at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// Its name in measurements.
    pub name: String,
    /// Its topics.
    pub topics: Vec<Designed>,
}

/// A configuration of its own for each seed, for a machine with so many processors. Where each topic has a thread all of its records
/// take as long, for two times would be two threads.
pub fn design(seed: u64, processors: u32, has_threads: bool) -> Configuration {
    let mut random = SplitMix(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995);
    let topics = 1 + random.below(TOPICS_MAX);
    let mut between = |[least, most]: [f64; 2]| least + (most - least) * random.share();
    let log = |[least, most]: [f64; 2]| [least.ln(), most.ln()];
    let load = between(LOAD) * f64::from(processors);
    // Half of the configurations have one bound for all, as the paper's; works are alike or not.
    let (of_bounds, alike) = (between([0.0, 1.0]), between([0.0, 1.0]));
    let (one_work, one_bound) = (between(log(WORK_MS)), between(log(BOUND)));
    let shares: Vec<f64> = (0..topics).map(|_| 0.3 - between([0.02, 1.0]).ln()).collect();
    let sum: f64 = shares.iter().sum();
    let designed = |share: f64| {
        let own_work = between(log(WORK_MS));
        let work = (if alike < 0.4 { one_work } else { own_work }).exp();
        let bound = match of_bounds < 0.3 {
            true => one_work.exp() * one_bound.exp(),
            false => work * between(log(BOUND)).exp(),
        };
        let (kind, spread) = (between([0.0, 1.0]), between([0.0, 0.7]));
        let is_serial = kind < 0.1;
        let many = between([0.0, SUBSCRIBERS.len() as f64]) as usize;
        let is_one = between([0.0, 1.0]) < 0.75;
        let load = load * share / sum;
        // A line of one worker is not asked for more than that.
        let load = if is_serial { load.min(0.7) } else { load };
        Designed {
            work: milliseconds(work),
            work_cv: if is_serial || has_threads || kind < 0.4 {
                0.0
            } else {
                round(spread, 100.0)
            },
            rate: round(load * 1000.0 / work, 10.0).max(0.1),
            subscribers: if is_one { 1 } else { SUBSCRIBERS[many.min(SUBSCRIBERS.len() - 1)] },
            bound: milliseconds(bound.max(work * BOUND[0])),
            is_serial,
        }
    };
    let topics = shares.iter().copied().map(designed).collect();
    Configuration { name: format!("{seed}"), topics }
}

fn round(value: f64, by: f64) -> f64 {
    (value * by).round() / by
}

fn milliseconds(value: f64) -> Duration {
    Duration::from_micros((value * 1000.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_what_their_seed_says_and_reach_from_little_to_much() {
        let all: Vec<Configuration> = (0..400).map(|seed| design(seed, 2, false)).collect();
        assert_eq!(all[7], design(7, 2, false));
        let load = |one: &Configuration| {
            one.topics.iter().map(|topic| topic.rate * topic.work.as_secs_f64()).sum::<f64>()
        };
        let loads: Vec<f64> = all.iter().map(load).collect();
        assert!(loads.iter().all(|load| (0.05..1.95).contains(load)), "{loads:?}");
        assert!(loads.iter().filter(|load| **load > 1.4).count() > 80);
        let topics = || all.iter().flat_map(|one| &one.topics);
        assert!((1..=TOPICS_MAX).all(|count| all.iter().any(|one| one.topics.len() == count)));
        assert!(topics().all(|topic| topic.bound >= topic.work && topic.rate > 0.0));
        assert!(topics().any(|topic| topic.is_serial) && topics().any(|topic| topic.work_cv > 0.5));
        assert!(design(3, 2, true).topics.iter().all(|topic| topic.work_cv == 0.0));
    }
}
