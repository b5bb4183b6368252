//! Tidegate's own links in virtual time: several paths, their faults, and who else uses them.
//!
//! `lab sim link-...`: the link of core between two ends, over the emulated ways of `crate::link`.

mod carriers;
mod cubic;
mod load;
mod neighbour;
mod recorded;
mod statistics;
mod way;
mod world;

use anyhow::{Context, bail};

/// The names.
pub(super) const NAMES: &str = "link-carriers";

/// What a run is asked for.
#[derive(Clone, Copy, Debug)]
struct Options {
    seeds: u64,
}

/// Whether a name is one of these scenarios.
pub(super) fn knows(name: &str) -> bool {
    name.starts_with("link-")
}

/// Runs a scenario with the words that follow its name; answers with the lines to print.
///
/// # Errors
/// No such scenario or option, or recordings that cannot be read.
pub(super) fn run(name: &str, words: &[String]) -> anyhow::Result<Vec<String>> {
    let mut options = Options { seeds: 5 };
    let mut words = words.iter();
    while let Some(option) = words.next() {
        let mut value = || words.next().with_context(|| format!("{option} needs a value"));
        match option.as_str() {
            "--seeds" => options.seeds = value()?.parse().context("--seeds needs a number")?,
            _ => bail!("unknown option {option}"),
        }
    }
    match name {
        "link-carriers" => carriers::run(options.seeds),
        other => bail!("no scenario is called {other}: there are {NAMES}"),
    }
}
