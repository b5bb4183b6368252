//! The command line of the lab.

mod adapt;
mod bench;
mod frames;

use std::path::PathBuf;

use anyhow::ensure;
use clap::{Args, Parser, Subcommand};

use self::bench::Bench;
use crate::bench::interrupted;
use crate::load::Job;
use crate::net::namespace::Link;
use crate::net::{NetError, selftest, spinner, usage, wire};
use crate::play::{self, Foreground};
use crate::progress::Progress;
use crate::report::{self, Archive, Findings, HISTORY, PageOptions, Run};
use crate::world::World;
use crate::{compare, demo, sim};

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
  lab bench broker               publishing and subscribing, beside Mosquitto
  lab bench sensitivity          a topic's latency against its load, pool and thread per topic
  lab bench model                how well the latencies of this machine's broker are foreseen
  lab bench move                 a topic moves between nodes under load: nothing lost, nothing twice
  lab sim lab/worlds/hol.toml    a file with hosts, links, processes, records, faults and checks,
  lab bench lab/worlds/hol.toml  in virtual time and with real processes
  lab sim janus-4g               JANUS's busy node on its 4G link, under each scheduler,
  lab bench janus-4g             in virtual time and with real processes
  lab sim lte-traces             recorded LTE links, beside BBR and what nobody can beat
  lab sim frames-traces          cameras over recorded channels, beside one that knows them
  lab bench kill9                every acknowledged record arrives, however often the node is killed
  lab bench power-cut            the same where the power fails: what was not synced is gone
  lab bench hostile              strangers push: memory, others' waits, losses
  lab bench fleet                four nodes that borrow each other's 4G uplinks, as in the simulation
  lab bench fleet-faults         nothing is lost when the leader, a lender or a borrower dies
  lab bench orchestrator         what leading a thousand nodes costs
  lab bench sidecar              the HTTP proxy beside Envoy
  lab bench link-h               three lossy paths: a link between nodes, and kernel MPTCP
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
    Net(Net),
    /// Two programs take turns at one command: medians, spread, and the second over the first
    #[command(after_help = COMPARE_HELP)]
    Compare(compare::Options),
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
    Spin { parent: u32 },
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
enum Net {
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

const COMPARE_HELP: &str = "Examples:
  lab compare old/tidegate new/tidegate ingest --records 100000 --runs 1
  lab compare --at-most 1.05 --figure core_batch_64 old/lab new/lab core
  lab compare --runs 3 old/lab new/lab sim node-hol

Options of `compare` stand before the programs; those behind the command are the command's.";

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

impl Cli {
    /// Does what the command line asks for, and keeps what was found.
    ///
    /// # Errors
    /// What the command says, a promise that was broken in the run, or a signal that ends it.
    pub fn run(self) -> anyhow::Result<()> {
        // Here and not in `main`: a future is compiled where it is polled.
        tokio::runtime::Runtime::new()?.block_on(self.work())
    }

    async fn work(self) -> anyhow::Result<()> {
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
            Command::Spin { parent } => spinner::spin(parent),
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
            Command::Compare(options) => {
                let work = move || compare::run(&options);
                return Ok(Some(tokio::task::spawn_blocking(work).await??));
            }
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

impl Net {
    async fn run(self) -> anyhow::Result<Option<Findings>> {
        match self {
            Net::Selftest { seconds } if !is_skipped(wire::probe()) => tokio::select! {
                lines = selftest::run(seconds, say) => Ok(Some(lines?.into())),
                stopped = interrupted() => stopped.map(|()| None),
            },
            Net::Selftest { .. } => Ok(None),
            Net::Run { file, on, command } => {
                let (world, folder) = World::read(&file)?;
                let host = on.unwrap_or_else(|| world.hosts[0].clone());
                let program = Foreground { host, words: command };
                let program = (!program.words.is_empty()).then_some(program);
                if !is_skipped(wire::probe()) {
                    let played = play::play(&world, &folder, program, say).await?;
                    if !world.source.is_empty() {
                        print(&crate::world::figures(&world, &played.records));
                    }
                    print(&played.figures);
                    let broken = played.broken.join("; ");
                    ensure!(broken.is_empty(), "does not hold: {broken}");
                }
                Ok(None)
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
        stopped = interrupted() => stopped.map(|()| None),
    }
}

/// Whether something is missing here; says what.
fn is_skipped(probe: Result<(), NetError>) -> bool {
    if let Err(reason) = &probe {
        say(&format!("skipped: {reason}"));
    }
    probe.is_err()
}

#[expect(clippy::print_stdout, reason = "a command for people")]
fn say(line: &str) {
    println!("{line}");
}

#[expect(clippy::print_stdout, reason = "a command for people")]
fn print(lines: &[String]) {
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
