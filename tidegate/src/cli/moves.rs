//! `tidegate move`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::assembly::drivers;
use crate::cli::plan;
use crate::services::cluster::{self, Order};

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

/// Does what `tidegate move` asks for, one after another.
///
/// # Errors
/// The plan cannot be read, or the configuration tells of no group.
pub async fn move_topics(arguments: &MoveArguments) -> anyhow::Result<ExitCode> {
    let MoveArguments { name, to, plan, config, max_moves, seize } = arguments;
    let wanted = match (plan, name, to) {
        (Some(plan), ..) => plan::places(plan)?,
        (None, Some(name), Some(to)) => vec![(name.clone(), to.clone())],
        (None, ..) => anyhow::bail!("say which topics, and where to: NAME --to NODE"),
    };
    let access = drivers::access(config)?;
    let most = max_moves.unwrap_or(usize::MAX);
    let (mut moved, mut failed) = (0, 0);
    for (name, to) in wanted {
        if moved == most {
            writeln!(io::stdout(), "{name} is not looked at: {most} were moved")?;
            continue;
        }
        let (unit, to) = (name.as_str().into(), to.as_str().into());
        let order = Order { unit, from: None, to, seize: *seize, patient: false };
        let to = &order.to;
        match cluster::order(&access, &order).await {
            Ok(true) => {
                moved += 1;
                writeln!(io::stdout(), "{name} is at {to} now")?;
            }
            Ok(false) => writeln!(io::stdout(), "{name} is at {to}")?,
            Err(error) => {
                failed += 1;
                writeln!(io::stderr(), "tidegate: {name} stays where it is: {error:#}")?;
            }
        }
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
