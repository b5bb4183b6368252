//! `tidegate move`.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `move`.
#[derive(Clone, Debug, Args)]
pub struct MoveArguments {
    /// Name of a `[[placed]]`
    #[arg(value_name = "NAME", required_unless_present = "plan", requires = "to")]
    pub name: Option<String>,
    /// The node that is to own it
    #[arg(long, value_name = "NODE")]
    pub to: Option<String>,
    /// Instead of these: bring every topic to where a plan has it, as `tidegate plan --json` prints one
    #[arg(long, value_name = "PLAN.json", conflicts_with_all = ["name", "to", "seize"])]
    pub plan: Option<PathBuf>,
    /// Move no more than so many
    #[arg(long, value_name = "N")]
    pub max_moves: Option<usize>,
    /// The configuration of a node of the group, whose certificate is shown
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// Take it from an owner that is gone for good; what that one holds stays with it
    #[arg(long)]
    pub seize: bool,
}

pub(super) const MOVE_HELP: &str = "\
Examples:
  tidegate move taxi-7 --to edge-2 -c edge-1.toml
  tidegate move --plan plan.json --max-moves 5 -c edge-1.toml
  tidegate move taxi-7 --to edge-2 -c edge-2.toml --seize    edge-1 will not come back

The owner ends what it works on, then the other node goes on: no record is lost, none comes twice, and
each subscriber gets them in order. One after another; exits with 1 where topics stay, and says why.";
