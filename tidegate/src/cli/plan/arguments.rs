//! The command line of `tidegate plan`.

use std::path::PathBuf;

use clap::Args;
use tidegate_cluster::place::model::ModelKind;

use crate::cli::file::RequiredFile;

/// Arguments of `plan`.
#[derive(Clone, Debug, Args)]
pub struct PlanArguments {
    #[command(flatten)]
    /// Topics, and nodes if they are listed.
    pub file: RequiredFile,
    /// How: ffd, lfs, lfs+ffd, pairs, improve or repair [default: improve; repair with --current]
    #[arg(long, value_name = "NAME")]
    pub method: Option<String>,
    /// Topics of one node at most
    #[arg(long, value_name = "K", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub together: u32,
    /// Topics of a set of lfs+ffd (k' of the paper)
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=32))]
    pub at_once: u32,
    /// Part of each bound that is kept free for the model's mistakes
    #[arg(long, value_name = "PART", default_value_t = 0.1, value_parser = part)]
    pub margin: f64,
    /// Processors of a node, where the file lists no nodes: as many nodes as are needed [default: 4; those of --model]
    #[arg(long, value_name = "N", value_parser = cores)]
    pub cores: Option<f64>,
    /// A machine's model, as `tidegate calibrate broker` or `python -m tidegate.model train` wrote it
    #[arg(long, value_name = "FILE.json")]
    pub model: Option<PathBuf>,
    /// Which of its models: learned, physics or paper [default: learned]
    #[arg(long, value_name = "NAME", requires = "model", value_parser = by)]
    pub by: Option<ModelKind>,
    /// The plan that is in force, as --json printed it: few topics move
    #[arg(long, value_name = "PLAN.json")]
    pub current: Option<PathBuf>,
    /// Topics that may move, at most
    #[arg(long, value_name = "N", requires = "current")]
    pub max_moves: Option<usize>,
    /// Say for every topic what its latency will be, what its bound is, and what else shares its node
    #[arg(long)]
    pub explain: bool,
    /// Print one JSON object in place of a table
    #[arg(long)]
    pub json: bool,
    /// Questions to the latency model, at most: the same number gives the same plan on every machine
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    pub questions: u64,
    /// What improve draws its tries from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

pub(in crate::cli) const PLAN_HELP: &str = "\
Nothing is changed: the plan is printed. Examples:
  tidegate plan topics.toml                      as many nodes as are needed
  tidegate plan fleet.toml --explain             why each topic is where it is
  tidegate plan fleet.toml --json > plan.json
  tidegate plan fleet.toml --current plan.json --max-moves 5     few topics move
  tidegate plan topics.toml --model edge.json    by what was measured on a machine
  tidegate plan topics.csv --method ffd --together 6 --cores 2

A file, as TOML; JSON has the same names, CSV a line of names and no nodes:
  [[topic]]
  name = \"taxi/gps/7\"
  rate = 40            # records/s of all publishers
  work = \"12ms\"        # CPU time of a record
  bound = \"300ms\"      # of the 90th percentile from publishing to delivery
  subscribers = 1      # these four may be left out
  work_cv = 0.15
  keys = 1             # above 1: may be split by key
  serial = false       # true: one record at a time
  [[node]]
  name = \"edge-1\"
  cores = 4            # and speed, contention, bias, as calibrated

Exits with 0 if every topic has a node and keeps its bound there, with 1 otherwise.";

pub(in crate::cli) fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.0..1.0).contains(&part) => Ok(part),
        _ => Err("a part is a number from 0 to below 1, as in 0.1".into()),
    }
}

fn by(text: &str) -> Result<ModelKind, String> {
    let known = ModelKind::ALL.into_iter().find(|by| by.name() == text);
    known.ok_or_else(|| "there are learned, physics and paper".into())
}

fn cores(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(cores) if (0.1..=1024.0).contains(&cores) => Ok(cores),
        _ => Err("processors are a number from 0.1 to 1024".into()),
    }
}
