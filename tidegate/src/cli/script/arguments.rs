//! The command line of `tidegate script`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tidegate_types::units::Rate;

use crate::cli::{line_delay, line_rate};
use crate::config::units::{Period, Quantity};

/// What can be done with a script.
#[derive(Clone, Debug, Subcommand)]
pub enum ScriptCommand {
    /// Play a recorded trace through a script in virtual time and print what it did
    #[command(after_help = TEST_HELP)]
    Test(TestArguments),
    /// Time a script's calls with 0, 100 and 1,000 records waiting
    #[command(after_help = BENCH_HELP)]
    Bench(BenchArguments),
}

/// A script and what it is given.
#[derive(Clone, Debug, Args)]
pub struct ScriptArguments {
    /// The script
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// A file that runs before it; may be given often
    #[arg(long = "helper", value_name = "FILE")]
    pub helpers: Vec<PathBuf>,
    /// A parameter; numbers, true and false are what they look like; may be given often
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parameter)]
    pub parameters: Vec<(String, String)>,
    /// A name that transform() knows; the answer is half as long as what is asked
    #[arg(long = "transform", value_name = "NAME")]
    pub transforms: Vec<String>,
    /// A Lua pattern by which a path comes apart
    #[arg(long, value_name = "PATTERN")]
    pub path: Option<String>,
    /// An output; records go to the first. May be given often
    #[arg(long = "output", value_name = "NAME", default_value = "cloud")]
    pub outputs: Vec<String>,
}

/// Arguments of `script test`.
#[derive(Clone, Debug, Args)]
pub struct TestArguments {
    #[command(flatten)]
    /// The script.
    pub script: ScriptArguments,
    /// Records with their times: CSV, JSON lines or SenML, as a replay input reads them
    #[arg(long, value_name = "FILE")]
    pub trace: PathBuf,
    /// The column or field with the time, where it has another name than the usual ones
    #[arg(long, value_name = "NAME")]
    pub time: Option<String>,
    /// The records' topic, as in `topic` of a replay input
    #[arg(long, value_name = "TEMPLATE", default_value = "{file}")]
    pub topic: String,
    /// What the line carries; without it, everything at once
    #[arg(long, value_name = "RATE", value_parser = line_rate)]
    pub rate: Option<Rate>,
    /// From a record's last byte to its confirmation
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = line_delay)]
    pub delay: Duration,
    /// The latency bound of the records
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span)]
    pub latency: Duration,
    /// The first output is cut off from one time to another, as in 10s-15s; may be given often
    #[arg(long = "cut", value_name = "FROM-TO", value_parser = cut)]
    pub cuts: Vec<(Duration, Duration)>,
    /// Print the summary only
    #[arg(long)]
    pub summary: bool,
}

/// Arguments of `script bench`.
#[derive(Clone, Debug, Args)]
pub struct BenchArguments {
    #[command(flatten)]
    /// The script.
    pub script: ScriptArguments,
    /// The payload of every record
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "{\"event_type\": \"view\", \"event_time\": \"0\"}"
    )]
    pub payload: String,
}

/// Help of `tidegate script`.
pub const SCRIPT_HELP: &str = "\
Examples:
  tidegate script test shed.luau --trace events.jsonl --rate 1mbit
  tidegate script test fallback.luau --trace frames.csv --output cloud --output edge --cut 10s-15s
  tidegate script bench shed.luau

How to write scripts: docs/SCRIPTS.md. `tidegate check` finds mistakes of the scripts that a
configuration names.";

const TEST_HELP: &str = "\
Prints a line for each verdict: the time, what, the topic, how long the record had waited, its bytes.
Then what went, what was dropped, and how long records waited, with the script and without it.
Exits with 1 if a call of the script failed.
Nothing depends on the speed of the machine but the bound on a call's time, which is 100 ms here.";

const BENCH_HELP: &str = "\
The median of 200 calls, in microseconds. Nothing can be sent meanwhile, so the script sees a queue
that is down, and what it decides is forgotten.";

fn parameter(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn span(text: &str) -> Result<Duration, String> {
    Ok(Period::parse(text).map_err(|error| error.to_string())?.0)
}

fn cut(text: &str) -> Result<(Duration, Duration), String> {
    let (from, to) = text.split_once('-').ok_or("write FROM-TO, as in 10s-15s")?;
    let (from, to) = (span(from)?, span(to)?);
    if from < to { Ok((from, to)) } else { Err("it ends before it begins".into()) }
}
