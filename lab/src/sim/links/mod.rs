//! Tidegate's own links in virtual time: several paths, their faults, and who else uses them.
//!
//! `lab sim link-...`: the link of core between two ends, over the emulated ways of `crate::link`.

mod ablation;
mod buffer;
mod carriers;
mod cubic;
mod death;
mod fairness;
mod load;
mod loaded;
mod neighbour;
mod paper;
mod recorded;
mod scene;
mod statistics;
mod table;
mod way;
mod world;

use anyhow::{bail, ensure};

use self::loaded::Promise;
use self::scene::{HEAVY, LIGHT};
use self::table::Target;

/// What heavy loss may cost, and what light loss.
const PROMISES: [Promise; 2] = [
    Promise {
        loss: HEAVY,
        goodput: 120.0,
        start: Target::AtMost(1.5),
        stall: Target::None,
        media: (140.0, 400.0),
        guarded: (Target::AtMost(220.0), Target::AtMost(1.5)),
    },
    Promise {
        loss: LIGHT,
        goodput: 135.0,
        start: Target::None,
        stall: Target::AtMost(0.5),
        media: (110.0, 300.0),
        guarded: (Target::None, Target::None),
    },
];

/// Whether a name is one of these scenarios.
pub(super) fn knows(name: &str) -> bool {
    name.starts_with("link-")
}

/// Runs a scenario with seeds from this one on, as many as are asked for or it is used to; answers with the lines
/// to print.
///
/// # Errors
/// No such scenario, or recordings that cannot be read.
pub(super) fn run(name: &str, seed: u64, seeds: Option<u64>) -> anyhow::Result<Vec<String>> {
    ensure!(seeds != Some(0), "--seeds must be at least 1");
    let seeds = |usual: u64| seed..seed + seeds.unwrap_or(usual);
    match name {
        "link-h" => Ok(loaded::run("link_h", &PROMISES[0], seeds(10))),
        "link-l" => Ok(loaded::run("link_l", &PROMISES[1], seeds(10))),
        "link-buffer" => Ok(buffer::run(seeds(10))),
        "link-death" => Ok(death::run(seeds(10))),
        "link-ablation" => Ok(ablation::run(&seeds(30))),
        "link-paper" => Ok(paper::run(&seeds(3))),
        "link-fairness" => Ok(fairness::run(seeds(5))),
        "link-carriers" => carriers::run(seeds(5)),
        other => bail!("no scenario is called {other}; `lab sim` without a name lists them"),
    }
}
