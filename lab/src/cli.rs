//! The command line of the lab.

use std::path::{Path, PathBuf};
#[cfg(feature = "stores")]
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, Parser, Subcommand};

#[cfg(feature = "stores")]
use crate::bench::spool;
use crate::bench::{self, core, hol, ingest, kill9, world};
use crate::load::Job;
use crate::net::namespace::Link;
use crate::net::{NetError, selftest, spinner, wire};
use crate::play::{self, Foreground};
use crate::world::World;
use crate::{demo, rig, sim};

/// What the lab can do.
#[derive(Debug, Parser)]
#[command(
    name = "lab",
    about = "Measures Tidegate: in virtual time, in one process, on real sockets"
)]
#[command(after_help = "Every command ends with lines `FIGURE <name> <value> <unit>`.
Commands on real sockets need root, iproute2 and the program tidegate, which is taken
from the variable TIDEGATE or from beside this program.

Examples:
  lab sim node-hol --seed 7      alarms and bulk over an emulated 2 Mbit/s link, in virtual time
  lab demo                       real sensor data to RabbitMQ, every record verified
  lab bench hol --runs 3         the same link for Tidegate and for Mosquitto's bridge
  lab bench ingest               CPU of accepting a record, beside Mosquitto
  lab sim lab/worlds/hol.toml    a file with hosts, links, processes, records, faults and checks,
  lab bench lab/worlds/hol.toml  in virtual time and with real processes
  lab bench kill9                every acknowledged record arrives, however often the node is killed
  lab net selftest               how exact emulated links are on this machine
  lab net run FILE.toml          any program on emulated links
  lab bench core                 nanoseconds per record through a node")]
pub struct Cli {
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
    /// Alarms beside bulk over 2 Mbit/s at 160 % load: Tidegate, its FIFO, Mosquitto's bridge
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
        /// Only this contestant (may be given again): tidegate, tidegate-native, mosquitto-bridge
        #[arg(long, value_parser = contestant)]
        only: Vec<hol::Contestant>,
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
    /// A world with real processes, beside the same file in virtual time: lab bench FILE.toml
    #[command(external_subcommand)]
    World(Vec<String>),
    /// Nanoseconds per record through a node with 10,000 queues
    Core {
        /// Records in one input (may be given again)
        #[arg(long, default_values_t = [1, 64])]
        batch: Vec<usize>,
    },
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

fn contestant(name: &str) -> Result<hol::Contestant, String> {
    let found = hol::Contestant::ALL.into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| format!("no contestant is called {name}"))
}

fn killed(name: &str) -> Result<kill9::Contestant, String> {
    let found = kill9::Contestant::ALL.into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| format!("no contestant is called {name}"))
}

impl Cli {
    /// Does what the command line asks for.
    ///
    /// # Errors
    /// What the command says, or a signal that ends it.
    pub async fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Spin => spinner::spin(),
            Command::Client { job } => Job::run(&job).await?,
            Command::Sim { words } => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                print(sim::run(&sim::Options::parse(&words)?)?);
            }
            Command::Demo(DemoOptions { data, seconds, drain }) => {
                on_links(demo::run(demo::Options { data, seconds, drain })).await?;
            }
            Command::Bench(bench) => bench.run().await?,
            Command::Net(net) => net.run().await?,
        }
        Ok(())
    }
}

impl Bench {
    async fn run(self) -> anyhow::Result<()> {
        match self {
            Bench::Hol { seconds, drain, runs, only } => {
                let all = hol::Options::default().contestants;
                let contestants = if only.is_empty() { all } else { only };
                on_links(hol::run(hol::Options { contestants, seconds, drain, runs })).await?;
            }
            Bench::Ingest { records, runs, connections } => {
                let mut options = ingest::Options::new(rig::tidegate_program()?);
                options.records = records.unwrap_or(options.records);
                options.runs = runs.unwrap_or(options.runs);
                options.connections = connections.unwrap_or(options.connections);
                print(tokio::task::spawn_blocking(move || ingest::run(&options)).await??);
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
                on_links(kill9::run(options)).await?;
            }
            #[cfg(feature = "stores")]
            Bench::Spool { directory, group, seconds, runs } => {
                let time = Duration::from_secs(seconds);
                print(spool::run(&spool::Options { directory, groups: group, time, runs }).await?);
            }
            #[cfg(not(feature = "stores"))]
            Bench::Spool { .. } => {
                anyhow::bail!(
                    "built without the stores: cargo run --features stores -p tidegate-lab"
                );
            }
            Bench::World(words) => {
                let [file] = &words[..] else {
                    anyhow::bail!("one FILE.toml, and no options: {words:?}")
                };
                ensure!(
                    file.ends_with(".toml"),
                    "no benchmark is called {file}: see `lab bench --help`, or give a FILE.toml"
                );
                if !is_skipped(wire::probe()) {
                    print(world::run(Path::new(file), say).await?);
                }
            }
            Bench::Core { batch } => {
                print(tokio::task::spawn_blocking(move || core::run(&batch)).await?);
            }
        }
        Ok(())
    }
}

impl Net {
    async fn run(self) -> anyhow::Result<()> {
        match self {
            Net::Selftest { seconds } if !is_skipped(wire::probe()) => tokio::select! {
                lines = selftest::run(seconds, say) => print(lines?),
                stopped = bench::interrupted() => return stopped,
            },
            Net::Selftest { .. } => {}
            Net::Run { file, on, command } => {
                let (world, folder) = World::read(&file)?;
                let host = on.unwrap_or_else(|| world.hosts[0].clone());
                let program = Foreground { host, words: command };
                let program = (!program.words.is_empty()).then_some(program);
                if !is_skipped(wire::probe()) {
                    let played = play::play(&world, &folder, program, say).await?;
                    if !world.source.is_empty() {
                        print(crate::world::figures(&world, &played.records));
                    }
                    print(played.figures);
                    let broken = played.broken.join("; ");
                    ensure!(broken.is_empty(), "does not hold: {broken}");
                }
            }
        }
        Ok(())
    }
}

/// Runs what needs links, unless links cannot be made here; a signal ends it and cleans up.
async fn on_links(run: impl Future<Output = anyhow::Result<Vec<String>>>) -> anyhow::Result<()> {
    if is_skipped(Link::probe()) {
        return Ok(());
    }
    tokio::select! {
        lines = run => print(lines?),
        stopped = bench::interrupted() => return stopped,
    }
    Ok(())
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
fn print(lines: Vec<String>) {
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
