//! The command lines of `tidegate place` and `tidegate drain`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::file::RequiredFile;
use crate::config::units::{Period, Quantity};

/// Arguments of `place`.
#[derive(Clone, Debug, Args)]
pub struct PlaceArguments {
    #[command(flatten)]
    /// The configuration of a node of the group, whose certificate is shown.
    pub file: RequiredFile,
    /// How often to ask all members
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = every)]
    pub every: Period,
    /// Move no more than so many at a time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub max_moves: u32,
    /// How long topics that moved stay where they are
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = period)]
    pub rest: Period,
    /// Topics of one node at most
    #[arg(long, value_name = "K", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub together: u32,
    /// Part of each bound that is kept free where topics come
    #[arg(long, value_name = "PART", default_value_t = 0.1, value_parser = crate::cli::plan::part)]
    pub margin: f64,
    /// The machines' model, as `tidegate calibrate broker` or `python -m tidegate.model train` wrote it
    #[arg(long, value_name = "FILE.json")]
    pub model: Option<PathBuf>,
    /// Use all nodes: topics go to those that have the least to do, though no bound is missed
    #[arg(long)]
    pub spread: bool,
    /// Take topics from a node that has not answered for so long: what it holds stays with it [default: never]
    #[arg(long, value_name = "TIME", value_parser = period)]
    pub seize_after: Option<Period>,
    /// Ask until two times in a row are known, move once, and end
    #[arg(long)]
    pub once: bool,
    /// Say what would be moved, and move nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object a line for each time in place of words
    #[arg(long)]
    pub json: bool,
}

pub(in crate::cli) const PLACE_HELP: &str = "\
Examples:
  tidegate place -c edge-1.toml --dry-run --once     what it sees, and what it would do
  tidegate place -c edge-1.toml                      until it is told to stop
  tidegate place -c edge-1.toml --model edge.json --spread

Asks the members of the group what their topics cost and how late they are, learns from that how right the model
is, and moves few topics where a bound is missed twice in a row: only to where all bounds are kept then. Empties
nodes that drain. Says why where it cannot help. The nodes work alone without it; two of them do no harm.

With --once it exits with 1 if something is wrong that it did not mend.";

/// Arguments of `drain`.
#[derive(Clone, Debug, Args)]
pub struct DrainArguments {
    /// The node that is to own nothing
    #[arg(value_name = "NODE")]
    pub node: String,
    /// The configuration of a node of the group, whose certificate is shown
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// It may own topics again: nothing moves back by itself
    #[arg(long)]
    pub undo: bool,
    /// Move topics also where they, or others, will miss their bounds
    #[arg(long)]
    pub force: bool,
    /// How long to look at loads before topics move
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = every)]
    pub every: Period,
    /// The machines' model, as `tidegate calibrate broker` or `python -m tidegate.model train` wrote it
    #[arg(long, value_name = "FILE.json")]
    pub model: Option<PathBuf>,
}

pub(in crate::cli) const DRAIN_HELP: &str = "\
Examples:
  tidegate drain edge-2 -c edge-1.toml           before edge-2 is stopped
  tidegate drain edge-2 -c edge-1.toml --undo    it may own topics again

Moves every topic to where all bounds are kept with it, and keeps others away, also after a restart of the node
if its [group] has a state. Exits with 0 when the node owns nothing, with 1 where topics stay, and says why.";

fn every(text: &str) -> Result<Period, String> {
    let period = period(text)?;
    let millis = period.0.as_millis();
    let is_fine = (100..=3_600_000).contains(&millis);
    if is_fine { Ok(period) } else { Err("from \"100ms\" to \"1h\"".into()) }
}

fn period(text: &str) -> Result<Period, String> {
    Period::parse(text).map_err(|error| error.to_string())
}
