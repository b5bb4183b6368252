//! The command line of the lab.

use std::path::PathBuf;
#[cfg(feature = "stores")]
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::bench::contestants::Contestant;
#[cfg(feature = "stores")]
use crate::bench::spool;
use crate::bench::{self, core, hol, ingest, kill9, load, overhead};
use crate::load::Job;
use crate::net::command::{self as net, is_skipped};
use crate::net::namespace::Link;
use crate::net::{spinner, usage};
use crate::progress::Progress;
use crate::report::{self, Archive, Findings, HISTORY, PageOptions, Run};
use crate::rig::versions::Program;
use crate::{demo, rig, sim};

/// What the lab can do.
#[derive(Debug, Parser)]
#[command(
    name = "lab",
    about = "Measures Tidegate: in virtual time, in one process, on real sockets"
)]
#[command(
    after_help = "Every run ends with lines `FIGURE <name> <value> <unit>`, and is kept as JSON.
Commands on real sockets need root, iproute2 and the program tidegate, which is taken
from the variable TIDEGATE or from beside this program.

Examples:
  lab sim node-hol --seed 7      alarms and bulk over an emulated 2 Mbit/s link, in virtual time
  lab demo                       real sensor data to RabbitMQ, every record verified
  lab bench hol --runs 3         the same link for Tidegate and for its rivals
  lab bench ingest               CPU of accepting a record, beside Mosquitto
  lab bench kill9                every acknowledged record arrives, however often the node is killed
  lab net selftest               how exact emulated links are on this machine
  lab net run FILE.toml          any program on emulated links
  lab bench core                 nanoseconds per record through a node
  lab report                     a page with tables and plots of what was run"
)]
pub struct Cli {
    /// Folder where runs are kept as JSON; `results` in cargo's target folder otherwise
    #[arg(long, global = true, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// Also add a line to bench/history.jsonl (before `sim`: lab --record sim ..)
    #[arg(long, global = true)]
    record: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The whole node over emulated links in virtual time; the same seed gives the same output
    #[command(disable_help_flag = true)]
    Sim {
        /// A scenario's name or file, and its options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Real sensor data through MQTT clients, a node and 2 Mbit/s to RabbitMQ, verified
    Demo(DemoOptions),
    /// Benchmarks: contestants on the same wires, in the same run
    #[command(subcommand)]
    Bench(Bench),
    /// Emulated links between hosts of this machine, for any program
    #[command(subcommand)]
    Net(net::Net),
    /// One page of Markdown, with plots, of the last run of each command
    Report {
        /// The page; report.md in the folder of results otherwise
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// A client's job, from this program to itself
    #[command(name = crate::load::COMMAND, hide = true)]
    Client { job: String },
    /// Keeps a processor awake
    #[command(name = spinner::COMMAND, hide = true)]
    Spin,
}

#[derive(Debug, Args)]
struct DemoOptions {
    /// Folder of the sensor data; where it is absent, rows of the same sizes are generated
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    data: PathBuf,
    /// How long the load is on
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// How long to wait afterwards for what still waits, in seconds
    #[arg(long, default_value_t = 60)]
    drain: u32,
}

#[derive(Debug, Subcommand)]
enum Bench {
    /// Alarms beside bulk over 2 Mbit/s at 160 % load: Tidegate, its FIFO, and its rivals
    Hol {
        /// How long the load is on
        #[arg(long, default_value_t = 30)]
        seconds: u32,
        /// How long to wait afterwards for what still waits, in seconds
        #[arg(long, default_value_t = 60)]
        drain: u32,
        /// Runs of each, in turn; figures are medians
        #[arg(long, default_value_t = 1)]
        runs: u32,
        /// Only this contestant (may be given again): tidegate, tidegate-native, mosquitto-bridge,
        /// mosquitto-forwarder, nats-leaf, nats-stream, zenoh
        #[arg(long, value_parser = contestant)]
        only: Vec<Contestant>,
    },
    /// CPU per accepted record and memory per connection, beside Mosquitto
    Ingest {
        /// Records of each run
        #[arg(long)]
        records: Option<u64>,
        /// Runs of each, in turn; figures are medians
        #[arg(long)]
        runs: Option<usize>,
        /// Idle connections
        #[arg(long)]
        connections: Option<usize>,
    },
    /// Killed again and again while publishers insist: does all that was acknowledged arrive?
    Kill9 {
        /// tidegate, mosquitto or nats (may be given again); all of them if left out
        #[arg(long, value_parser = killed)]
        only: Vec<kill9::Contestant>,
        /// How often the contestant is killed
        #[arg(long, default_value_t = 40)]
        kills: u32,
        /// How often the broker in the cloud is killed and started again
        #[arg(long, default_value_t = 4)]
        restarts: u32,
        /// How often the link is cut for 3 s
        #[arg(long, default_value_t = 2)]
        cuts: u32,
        /// Records a second
        #[arg(long, default_value_t = 2000)]
        per_second: u32,
        /// Records in all
        #[arg(long, default_value_t = 100_000)]
        records: u64,
        /// Of the times of the kills
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Thousands of MQTT publishers, arrivals even, random or recorded, through a node to any destination
    Load(load::Options),
    /// CPU and memory of each component at the edge, at given rates, beside Mosquitto's
    Overhead(overhead::Options),
    /// Durable records a second, beside embedded stores and a plain file (cargo feature `stores`)
    Spool {
        /// A folder on the disk that is meant
        #[arg(long)]
        directory: Option<PathBuf>,
        /// Records of a commit (may be given again)
        #[arg(long, default_values_t = [1, 64, 256])]
        group: Vec<usize>,
        /// Seconds of each measurement
        #[arg(long, default_value_t = 3)]
        seconds: u64,
        /// Measurements of each, in turn
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
    /// Nanoseconds per record through a node with 10,000 queues
    Core {
        /// Records in one input (may be given again)
        #[arg(long, default_values_t = [1, 64])]
        batch: Vec<usize>,
    },
}

fn contestant(name: &str) -> Result<Contestant, String> {
    let found = hol::contestants().into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| format!("no contestant is called {name}"))
}

fn killed(name: &str) -> Result<kill9::Contestant, String> {
    let found = kill9::Contestant::ALL.into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| format!("no contestant is called {name}"))
}

impl Cli {
    /// Does what the command line asks for, and keeps what was found.
    ///
    /// # Errors
    /// What the command says, a promise that was broken in the run, or a signal that ends it.
    pub async fn run(self) -> anyhow::Result<()> {
        usage::raise_open_files();
        let words: Vec<String> = std::env::args().skip(1).collect();
        let folder = self.results.unwrap_or_else(Archive::folder_of_target);
        let archive = Archive { folder, history: self.record.then(|| HISTORY.into()) };
        archive.check()?;
        let run = Run::begin(&words);
        let Some(findings) = self.command.run(&archive).await? else { return Ok(()) };
        print(&findings.lines);
        if !findings.versions.is_empty() {
            say(&format!("with {}", report::versions_text(&findings.versions)));
        }
        let file = archive.keep(&run.end(&findings))?;
        eprintln!("lab: kept as {}", file.display());
        anyhow::ensure!(findings.broken.is_empty(), "{}", findings.broken.join("\n"));
        Ok(())
    }
}

impl Command {
    /// Runs it; `None` where nothing was found: it was skipped, or is not for finding anything.
    async fn run(self, archive: &Archive) -> anyhow::Result<Option<Findings>> {
        match self {
            Command::Spin => spinner::spin(),
            Command::Client { job } => Job::run(&job).await?,
            Command::Sim { words } => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let options = sim::Options::parse(&words)?;
                let progress = Progress::new(&format!("sim {}", words[0]), 0);
                let found = sim::run(&options);
                drop(progress);
                return Ok(Some(found?.into()));
            }
            Command::Demo(DemoOptions { data, seconds, drain }) => {
                return on_links(demo::run(demo::Options { data, seconds, drain })).await;
            }
            Command::Bench(bench) => return bench.run().await,
            Command::Net(net) => return net.run().await,
            Command::Report { out } => {
                let results = archive.folder.clone();
                let page = out.unwrap_or_else(|| results.join("report.md"));
                print(&report::page(&PageOptions { results, page })?);
            }
        }
        Ok(None)
    }
}

impl Bench {
    async fn run(self) -> anyhow::Result<Option<Findings>> {
        match self {
            Bench::Hol { seconds, drain, runs, only } => {
                let all = hol::Options::default().contestants;
                let contestants = if only.is_empty() { all } else { only };
                on_links(hol::run(hol::Options { contestants, seconds, drain, runs })).await
            }
            Bench::Ingest { records, runs, connections } => {
                let mut options = ingest::Options::new(rig::tidegate_program()?);
                options.records = records.unwrap_or(options.records);
                options.runs = runs.unwrap_or(options.runs);
                options.connections = connections.unwrap_or(options.connections);
                let found = tokio::task::spawn_blocking(move || ingest::run(&options)).await??;
                let versions = Program::all_with_versions(&[Program::Tidegate, Program::Mosquitto]);
                let versions = versions.into_iter().collect();
                Ok(Some(Findings { versions, ..found.into() }))
            }
            Bench::Kill9 { only, kills, restarts, cuts, per_second, records, seed } => {
                let all = kill9::Contestant::ALL.to_vec();
                let contestants = if only.is_empty() { all } else { only };
                let options = kill9::Options {
                    contestants,
                    kills,
                    restarts,
                    cuts,
                    per_second,
                    records,
                    seed,
                };
                on_links(kill9::run(options)).await
            }
            Bench::Load(options) => on_links(load::run(options)).await,
            Bench::Overhead(options) => on_links(overhead::run(options)).await,
            #[cfg(feature = "stores")]
            Bench::Spool { directory, group, seconds, runs } => {
                let time = Duration::from_secs(seconds);
                let options = spool::Options { directory, groups: group, time, runs };
                Ok(Some(spool::run(&options).await?.into()))
            }
            #[cfg(not(feature = "stores"))]
            Bench::Spool { .. } => {
                anyhow::bail!(
                    "built without the stores: cargo run --features stores -p tidegate-lab"
                );
            }
            Bench::Core { batch } => {
                let found = tokio::task::spawn_blocking(move || core::run(&batch)).await??;
                Ok(Some(found.into()))
            }
        }
    }
}

/// Runs what needs links, unless links cannot be made here; a signal ends it and cleans up.
async fn on_links<F: Into<Findings>>(
    run: impl Future<Output = anyhow::Result<F>>,
) -> anyhow::Result<Option<Findings>> {
    if is_skipped(Link::probe()) {
        return Ok(None);
    }
    tokio::select! {
        found = run => Ok(Some(found?.into())),
        stopped = bench::interrupted() => stopped.map(|()| None),
    }
}

#[expect(clippy::print_stdout, reason = "a command for people")]
pub(crate) fn say(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stdout, reason = "a command for people")]
pub(crate) fn print(lines: &[String]) {
    lines.iter().for_each(|line| println!("{line}"));
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_a_scenario_reach_it() {
        let cli = Cli::try_parse_from(["lab", "sim", "node-hol", "--seed", "7"]).unwrap();
        let Command::Sim { words } = cli.command else { panic!("not sim") };
        assert_eq!(words, ["node-hol", "--seed", "7"]);
        assert!(Cli::try_parse_from(["lab", "bench", "hol", "--only", "nobody"]).is_err());
    }
}
