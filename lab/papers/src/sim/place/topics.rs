//! The topics of the problems: the paper's, and others that its evaluation does not have.

use std::time::Duration;

use tidegate_cluster::place::{Machine, Topic};

use crate::sim::random::Random;

/// The paper's machine, as its notes on the rates that it can do suggest.
pub(super) const MACHINE: Machine = Machine { cores: 4.0, speed: 1.0, contention: 0.03, bias: 1.0 };
/// The kinds whose numbers are figures.
pub(super) const REPORTED: [&str; 2] = ["threads", "mixed"];
/// The kind whose loads drift.
pub(super) const DRIFTING: &str = "mixed";
/// Records/s that one thread can do at 10, 20, 30 and 40 ms of nominal work (paper, Fig. 1c), and the work that
/// this means.
const WORK_MS: [f64; 4] = [12.5, 27.5, 42.5, 50.0];

/// A kind of problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) told: &'static str,
    pub(super) together_max: usize,
    /// Bounds, one as likely as the other.
    bounds_ms: &'static [u64],
    is_serial: bool,
    /// Of what one thread can do, the most that a topic asks for.
    busiest: f64,
}

pub(super) const KINDS: [Kind; 4] = [
    Kind {
        name: "paper",
        told: "one thread a topic, every bound 1 s, six together, rates up to nine tenths of a thread",
        together_max: 6,
        bounds_ms: &[1000],
        is_serial: true,
        busiest: 0.9,
    },
    Kind {
        name: "threads",
        told: "one thread a topic, bounds of 150 ms, 300 ms and 1 s, six together, rates up to nine tenths of a thread",
        together_max: 6,
        bounds_ms: &[150, 300, 1000],
        is_serial: true,
        busiest: 0.9,
    },
    Kind {
        name: "mixed",
        told: "the pool, bounds of 150 ms, 300 ms and 1 s, 32 together, up to 1.6 processors a topic",
        together_max: 32,
        bounds_ms: &[150, 300, 1000],
        is_serial: false,
        busiest: 1.6,
    },
    Kind {
        name: "light",
        told: "the pool, the same bounds, 32 together, up to a fifth of a processor a topic",
        together_max: 32,
        bounds_ms: &[150, 300, 1000],
        is_serial: false,
        busiest: 0.2,
    },
];

impl Kind {
    pub(super) fn draw(&self, count: usize, random: &mut Random) -> Vec<Topic> {
        let mut nth = |many: usize| ((random.share() * many as f64) as usize).min(many - 1);
        let mut kinds = Vec::new();
        for _ in 0..count {
            kinds.push((nth(WORK_MS.len()), nth(self.bounds_ms.len())));
        }
        let topic = |(work, bound): (usize, usize)| {
            let work = WORK_MS[work] / 1e3;
            let load = self.busiest * (0.05 + 0.95 * random.share());
            Topic {
                work: Duration::from_secs_f64(work),
                work_cv: 0.15,
                rate: load / work,
                subscribers: 1,
                bound: Duration::from_millis(self.bounds_ms[bound]),
                is_serial: self.is_serial,
            }
        };
        kinds.into_iter().map(topic).collect()
    }
}
