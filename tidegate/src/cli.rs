//! The command line: what can be asked for, and the help that teaches it.

pub mod calibrate;
pub mod check;
pub mod demo;
mod dispatch;
pub mod envoy;
pub mod envoy_config;
pub mod file;
pub mod fleet;
pub mod keys;
pub mod log;
pub mod moves;
pub mod orchestrate;
pub mod place;
pub mod plan;
pub mod proxy;
pub mod run;
pub mod screen;
pub mod script;
pub mod shell;
pub mod tables;
pub mod top;
pub mod user;

use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use tidegate_types::units::Rate;

use self::calibrate::CalibrateCommand;
use self::check::CheckArguments;
use self::demo::DemoArguments;
pub use self::dispatch::dispatch;
use self::envoy::{EnvoyConfigArguments, ExtProcArguments};
use self::fleet::{FleetArguments, OrchestrateArguments};
use self::keys::KeysCommand;
use self::log::{ExplainArguments, LogCommand};
use self::moves::MoveArguments;
use self::place::{DrainArguments, PlaceArguments};
use self::plan::PlanArguments;
use self::proxy::ProxyArguments;
use self::run::RunArguments;
use self::script::ScriptCommand;
use self::shell::{CompletionsArguments, ManArguments};
use self::top::TopArguments;
use self::user::UserCommand;
use crate::config::units::{BitRate, Period, Quantity};
use crate::observe::logs::{Filter, Format};

/// Carries streams of records from the edge, the urgent record first.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(flatten)]
    /// How to log.
    pub logs: LogArguments,
    #[command(subcommand)]
    /// What to do.
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tidegate demo                        see alarms overtake bulk on a 2 Mbit/s line
  tidegate demo --scheduler native     the same without Tidegate's scheduler
  tidegate run                         a node on loopback: MQTT on 1883, page on 7070
  tidegate config --minimal > node.toml   a node of a few lines, to edit
  tidegate config                      every key with its default
  tidegate check node.toml             every mistake in it, with line and column
  tidegate run node.toml               run it
  tidegate top                         its classes, live
  tidegate log ls node.toml            what its log holds; also cat, verify, export
  tidegate explain IDENTITY -c node.toml   what became of a record
  tidegate orchestrate fleet.toml      lead a fleet of nodes
  tidegate fleet status                who borrows whose uplink
  tidegate plan fleet.toml --explain   which topics share a node, and why
  tidegate move taxi-7 --to edge-2 -c edge-1.toml   move topics while they are used
  tidegate place edge-1.toml           move topics by itself where they miss their bounds
  tidegate drain edge-2 -c edge-1.toml   move all topics off a node
  tidegate proxy --to 127.0.0.1:3000 --script shed.luau   an HTTP sidecar with a script
  tidegate ext-proc --script shed.luau   the same for messages of an Envoy
  tidegate script test shed.luau --trace events.csv   what a script does to recorded events
  tidegate calibrate frames gate.mp4 --detector model.onnx   a camera's ladder
  tidegate user add users plc-7        a user of its MQTT listener
  tidegate keys init pki               a private authority for TLS

Exit codes: 0 success; 1 an error, told on standard error; 2 wrong usage;
130 or 143 stopped by a second SIGINT or SIGTERM, with records still held.";

/// How to log; the same for every command.
#[derive(Clone, Debug, Args)]
pub struct LogArguments {
    /// What to log: a level (error, warn, info, debug, trace), or one for each module, as in
    /// "info,tidegate::output=debug"
    #[arg(long = "log", global = true, value_name = "FILTER")]
    pub filter: Option<Filter>,
    /// Log as text for people or as JSON lines for machines
    #[arg(long = "log-format", global = true, value_name = "FORMAT", default_value = "text")]
    pub format: Format,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a node until it is told to stop
    #[command(after_help = run::RUN_HELP)]
    Run(RunArguments),
    /// Tell every mistake in a configuration file
    #[command(after_help = check::CHECK_HELP)]
    Check(CheckArguments),
    /// Print a configuration file with every key, its default and what it does
    #[command(after_help = CONFIG_HELP)]
    Config(ConfigArguments),
    /// See alarms and bulk share a slow line, in one process that needs nothing else
    #[command(after_help = demo::DEMO_HELP)]
    Demo(DemoArguments),
    /// Watch the classes of a running node
    #[command(after_help = top::TOP_HELP)]
    Top(TopArguments),
    /// Look into a log: list, print, verify, export
    #[command(after_help = log::LOG_HELP)]
    Log {
        #[command(subcommand)]
        /// What to do with it.
        command: LogCommand,
    },
    /// Tell what became of a record, from the log
    #[command(after_help = log::EXPLAIN_HELP)]
    Explain(ExplainArguments),
    /// Lead a fleet: match nodes that need bandwidth with nodes that have some
    #[command(after_help = fleet::ORCHESTRATE_HELP)]
    Orchestrate(OrchestrateArguments),
    /// Ask an orchestrator: its nodes, its grants, and why
    #[command(after_help = fleet::FLEET_HELP)]
    Fleet(FleetArguments),
    /// Say which topics share a node, so that every topic keeps its bound on the fewest nodes
    #[command(after_help = plan::PLAN_HELP)]
    Plan(PlanArguments),
    /// Move topics to another node of a group while they are published and subscribed to
    #[command(after_help = moves::MOVE_HELP)]
    Move(MoveArguments),
    /// Keep the bounds of a group's topics: ask its nodes, learn, and move few topics where one is missed
    #[command(after_help = place::PLACE_HELP)]
    Place(PlaceArguments),
    /// Move all topics off a node of a group, and keep others away
    #[command(after_help = place::DRAIN_HELP)]
    Drain(DrainArguments),
    /// Run an HTTP sidecar whose requests and responses wait where scripts edit them
    #[command(after_help = proxy::PROXY_HELP)]
    Proxy(ProxyArguments),
    /// Run an external processor for Envoy: its messages wait where scripts edit them
    #[command(after_help = envoy::EXT_PROC_HELP)]
    ExtProc(ExtProcArguments),
    /// Write Envoy's side of ext-proc, or look for what in one would defeat the queues
    #[command(after_help = envoy::ENVOY_CONFIG_HELP)]
    EnvoyConfig(EnvoyConfigArguments),
    /// Try an adaptation script before a node runs it
    #[command(after_help = script::SCRIPT_HELP)]
    Script {
        #[command(subcommand)]
        /// What to do with it.
        command: ScriptCommand,
    },
    /// Measure what cameras' frames cost and what is still found on them, or this machine as a broker
    #[command(after_help = calibrate::CALIBRATE_HELP)]
    Calibrate {
        #[command(subcommand)]
        /// What to measure.
        command: CalibrateCommand,
    },
    /// Users of an MQTT listener and their passwords
    #[command(after_help = user::USER_HELP)]
    User {
        #[command(subcommand)]
        /// What to do with them.
        command: UserCommand,
    },
    /// Certificates and keys of a small private authority, for TLS
    #[command(after_help = keys::KEYS_HELP)]
    Keys {
        #[command(subcommand)]
        /// What to do with them.
        command: KeysCommand,
    },
    /// Print what a shell completes
    #[command(after_help = shell::COMPLETIONS_HELP)]
    Completions(CompletionsArguments),
    /// Write manual pages
    #[command(after_help = shell::MAN_HELP)]
    Man(ManArguments),
}

/// Arguments of `config`.
#[derive(Clone, Debug, Args)]
pub struct ConfigArguments {
    /// Print a node of a few lines instead, to begin with
    #[arg(long, conflicts_with_all = ["schema", "markdown", "orchestrator"])]
    pub minimal: bool,
    /// Print the JSON schema of a file, by which editors complete and check one
    #[arg(long, conflicts_with = "markdown")]
    pub schema: bool,
    /// Print all keys as a page in Markdown
    #[arg(long, conflicts_with = "orchestrator")]
    pub markdown: bool,
    /// Of an orchestrator's file instead of a node's
    #[arg(long)]
    pub orchestrator: bool,
}

const CONFIG_HELP: &str = "\
What is in force by default stands as it is; all else is a sample behind a # without a blank, to be taken from
there with the head of its section. So the file is right as it is printed:
  tidegate config > node.toml && tidegate check node.toml
Editors with a language server for TOML (taplo, Even Better TOML) complete and check a file whose first line names the
schema:
  tidegate config --schema > tidegate.schema.json
  #:schema ./tidegate.schema.json";

fn line_rate(text: &str) -> Result<Rate, String> {
    let BitRate(rate) = BitRate::parse(text).map_err(|error| error.to_string())?;
    let (least, most) = (Rate::from_bits(50e3), Rate::from_bits(1e9));
    match rate {
        rate if rate < least || rate > most => Err("the line takes 50kbit to 1gbit".into()),
        rate => Ok(rate),
    }
}

fn line_delay(text: &str) -> Result<Duration, String> {
    match Period::parse(text).map_err(|error| error.to_string())?.0 {
        delay if delay > Duration::from_secs(5) => Err("the line takes at most 5s".into()),
        delay => Ok(delay),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_teaches() {
        insta::assert_snapshot!("help", Cli::command().render_help().to_string());
        for name in [
            "run",
            "check",
            "demo",
            "top",
            "log",
            "explain",
            "user",
            "keys",
            "orchestrate",
            "fleet",
            "plan",
            "proxy",
            "ext-proc",
            "envoy-config",
            "script",
            "calibrate",
        ] {
            let mut command = Cli::command();
            let command = command.find_subcommand_mut(name).unwrap();
            insta::assert_snapshot!(format!("help_{name}"), command.render_help().to_string());
        }
        for name in ["ls", "cat", "verify", "export"] {
            let mut command = Cli::command();
            let log = command.find_subcommand_mut("log").unwrap();
            let help = log.find_subcommand_mut(name).unwrap().render_help();
            insta::assert_snapshot!(format!("help_log_{name}"), help.to_string());
        }
        for name in ["frames", "broker", "channel"] {
            let mut command = Cli::command();
            let calibrate = command.find_subcommand_mut("calibrate").unwrap();
            let help = calibrate.find_subcommand_mut(name).unwrap().render_help();
            insta::assert_snapshot!(format!("help_calibrate_{name}"), help.to_string());
        }
        for name in ["test", "bench"] {
            let mut command = Cli::command();
            let script = command.find_subcommand_mut("script").unwrap();
            let help = script.find_subcommand_mut(name).unwrap().render_help();
            insta::assert_snapshot!(format!("help_script_{name}"), help.to_string());
        }
    }

    #[test]
    fn lines_have_bounds() {
        assert!(line_rate("2mbit").is_ok() && line_rate("1kbit").is_err());
        assert!(line_delay("0ms").is_ok() && line_delay("1m").is_err() && line_delay("x").is_err());
    }
}
