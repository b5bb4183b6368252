//! `lab net ..`: emulated links between hosts of this machine, for any program.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;

use super::play::{self, Foreground};
use super::{NetError, selftest, wire};
use crate::bench;
use crate::cli::{print, say};
use crate::report::Findings;
use crate::world::World;

/// What can be done with emulated links.
#[derive(Debug, Subcommand)]
pub enum Net {
    /// How exact emulated links are on this machine: rate, delay and loss of one and of three
    Selftest {
        /// How long each load is on
        #[arg(long, default_value_t = 5)]
        seconds: u32,
    },
    /// Brings up the hosts and links of a file, runs what is in it, and says what became of it
    #[command(after_help = NET_RUN_HELP)]
    Run {
        /// The world, in TOML
        file: PathBuf,
        /// Host on which COMMAND runs; the first one otherwise
        #[arg(long, value_name = "HOST")]
        on: Option<String>,
        /// Program to run in the foreground, until it ends; {HOST} and {HOST.LINK} are addresses
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

const NET_RUN_HELP: &str = "The smallest world, two hosts and a link:

  name = \"slow\"
  hosts = [\"edge\", \"cloud\"]
  [[link]]
  name = \"lte\"
  ends = [\"edge\", \"cloud\"]                       # the uplink goes from the first to the second
  uplink = { rate = \"2mbit\", delay = \"50ms\", queue = \"64KB\" }
  downlink = { trace = \"recorded.down\", delay = \"50ms\" }     # without it like the uplink

Ways know rate, steps, trace, delay, jitter, queue, red, loss, bursts and cross. A world also has
processes, loads, faults and checks: docs/LAB.md tells all, lab/worlds/two-paths.toml shows it.

Examples:
  lab net run lab/worlds/two-paths.toml                      to its end, with a table
  lab net run slow.toml -- ping -c 3 {cloud}                 one program on its first host
  lab net run slow.toml --on cloud -- bash                   a shell on a host
  lab net run slow.toml                                      until Ctrl-C; says how to get in";

impl Net {
    /// Does it; `None` where nothing was found.
    ///
    /// # Errors
    /// What the command says, or a signal that ends it.
    pub async fn run(self) -> anyhow::Result<Option<Findings>> {
        match self {
            Net::Selftest { seconds } if !is_skipped(wire::probe()) => tokio::select! {
                lines = selftest::run(seconds, say) => Ok(Some(lines?.into())),
                stopped = bench::interrupted() => stopped.map(|()| None),
            },
            Net::Selftest { .. } => Ok(None),
            Net::Run { file, on, command } => {
                let text = std::fs::read_to_string(&file);
                let text = text.with_context(|| format!("cannot read {}", file.display()))?;
                let world = World::parse(&text).with_context(|| file.display().to_string())?;
                let folder = file.parent().unwrap_or(Path::new("")).to_owned();
                let host = on.unwrap_or_else(|| world.hosts[0].clone());
                let program = Foreground { host, words: command };
                let program = (!program.words.is_empty()).then_some(program);
                if !is_skipped(wire::probe()) {
                    print(&play::play(&world, &folder, program, say).await?);
                }
                Ok(None)
            }
        }
    }
}

/// Whether something is missing here; says what.
pub(crate) fn is_skipped(probe: Result<(), NetError>) -> bool {
    if let Err(reason) = &probe {
        say(&format!("skipped: {reason}"));
    }
    probe.is_err()
}
