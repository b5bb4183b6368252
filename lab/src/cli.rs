//! The command line of the lab.

mod bench;
mod spool;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use self::bench::Bench;
use crate::bench::interrupted;
use crate::load::Job;
use crate::net::{selftest, spinner, usage};
use crate::play::{self, Foreground};
use crate::progress::Progress;
use crate::report::{self, Archive, Findings, HISTORY, PageOptions, Run};
use crate::world::World;
use crate::{catalogue, compare, demo, say, sim, verify};

/// What the lab can do.
#[derive(Debug, Parser)]
#[command(
    name = "lab",
    about = "Measures Tidegate: in virtual time, in one process, on real sockets"
)]
#[command(
    after_help = "Every run ends with lines `FIGURE <name> <value> <unit>`, and is kept as JSON.
The program tidegate is taken from the variable TIDEGATE or from beside this program.

Examples:
  lab list                       every command: what it shows, how long it takes here, what it needs
  lab verify --short             the promises of the README, each met or missed by how much
  lab compare A B core           two programs in turns at one command
  lab sim node-hol --seed 7      alarms and bulk over an emulated 2 Mbit/s link, in virtual time
  lab bench hol --runs 3         the same link for Tidegate and for its rivals
  lab sim lab/worlds/hol.toml    a file with hosts, links, processes, records, faults and checks,
  lab bench lab/worlds/hol.toml  in virtual time and with real processes
  lab net run FILE.toml          any program on emulated links
  lab report                     a page with tables and plots of what was run"
)]
pub(crate) struct Cli {
    /// Folder where runs are kept as JSON; `results` in cargo's target folder otherwise
    #[arg(long, global = true, value_name = "FOLDER")]
    results: Option<PathBuf>,
    /// Also add a line to bench/history.jsonl
    #[arg(long, global = true)]
    record: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The whole node over emulated links in virtual time; the same seed gives the same output
    #[command(subcommand)]
    Sim(sim::Options),
    /// Real sensor data through MQTT clients, a node and 2 Mbit/s to RabbitMQ, every record verified
    Demo(demo::Options),
    /// Benchmarks: contestants on the same wires, in the same run
    #[command(subcommand)]
    Bench(Bench),
    /// Emulated links between hosts of this machine, for any program
    #[command(subcommand)]
    Net(Net),
    /// Two programs take turns at one command: medians, spread, and the second over the first
    #[command(after_help = COMPARE_HELP)]
    Compare(compare::Options),
    /// The promises of the README, one after the other: each figure, its target, and met or missed by how much
    Verify(verify::Options),
    /// Every command with one sentence, how long it takes here, when it last ran, and what it needs
    List {
        /// Folder of recordings and other data
        #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
        data: PathBuf,
    },
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

/// Does what the command line asks for, and keeps what was found.
///
/// # Errors
/// What the command says, a promise that was broken in the run, or a signal that ends it.
pub fn run() -> anyhow::Result<()> {
    let (name, cli) = parse(std::env::args_os().skip(1)).unwrap_or_else(|error| error.exit());
    // Here and not in `main`: a future is compiled where it is polled.
    tokio::runtime::Runtime::new()?.block_on(cli.work(&name))
}

/// The full name of a command, and what it is asked for.
fn parse(words: impl Iterator<Item = OsString>) -> Result<(String, Cli), clap::Error> {
    let words = std::iter::once("lab".into()).chain(with_file(words.collect()));
    let matches = Cli::command().try_get_matches_from(words)?;
    Ok((name(&matches), Cli::from_arg_matches(&matches)?))
}

/// A file in the place of a scenario or a benchmark is the argument of a command `FILE.toml`.
fn with_file(mut words: Vec<OsString>) -> Vec<OsString> {
    let mut named = (0..words.len()).filter(|&at| {
        let is_value = at > 0 && words[at - 1] == "--results";
        !is_value && !words[at].to_string_lossy().starts_with('-')
    });
    let (first, second) = (named.next(), named.next());
    if let (Some(first), Some(second)) = (first, second)
        && (words[first] == "sim" || words[first] == "bench")
        && Path::new(&words[second]).extension().is_some_and(|end| end == "toml")
    {
        words.insert(second, "FILE.toml".into());
    }
    words
}

/// What `lab sim` is asked for by these words, the scenario's name or a file first.
///
/// # Errors
/// No scenario, or options that it has not.
pub fn sim(words: &[&str]) -> Result<sim::Options, clap::Error> {
    let words = std::iter::once("sim").chain(words.iter().copied()).map(OsString::from);
    match parse(words)?.1.command {
        Command::Sim(options) => Ok(options),
        other => unreachable!("`lab sim` is no {other:?}"),
    }
}

/// The full name of a command: `bench hol`, `sim node-hol`, `sim FILE.toml`.
fn name(matches: &ArgMatches) -> String {
    let Some((first, inner)) = matches.subcommand() else { return String::new() };
    inner.subcommand().map_or(first.into(), |(second, _)| format!("{first} {second}"))
}

impl Cli {
    async fn work(self, name: &str) -> anyhow::Result<()> {
        usage::raise_open_files();
        let words: Vec<String> = std::env::args().skip(1).collect();
        let folder = self.results.unwrap_or_else(Archive::folder_of_target);
        let archive = Archive { folder, history: self.record.then(|| HISTORY.into()) };
        archive.check()?;
        if let Some(missing) = catalogue::obstacle(name) {
            say(&format!("skipped: {missing}"));
            return Ok(());
        }
        let run = Run::begin(&words);
        let Some(findings) = self.command.run(name, &archive).await? else { return Ok(()) };
        print(&findings.printed());
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
    /// Runs it; `None` where it is not for finding anything.
    async fn run(self, name: &str, archive: &Archive) -> anyhow::Result<Option<Findings>> {
        let found = match self {
            Command::Spin { parent } => {
                spinner::spin(parent);
                return Ok(None);
            }
            Command::Client { job } => return Job::run(&job).await.map(|()| None),
            Command::Sim(options) => {
                let _progress = (!options.tells()).then(|| Progress::new(name, 0));
                sim::run(&options)?
            }
            Command::Demo(options) => until_interrupted(demo::run(options)).await?,
            Command::Bench(bench) => return bench.run().await,
            Command::Net(net) => return net.run().await,
            Command::Compare(options) => {
                tokio::task::spawn_blocking(move || compare::run(&options)).await??
            }
            Command::Verify(options) => {
                let folder = archive.folder.clone();
                let work = move || verify::run(&options, &folder);
                return tokio::task::spawn_blocking(work).await?;
            }
            Command::List { data } => {
                print(&catalogue::list(archive, &data)?);
                return Ok(None);
            }
            Command::Report { out } => {
                let results = archive.folder.clone();
                let page = out.unwrap_or_else(|| results.join("report.md"));
                print(&report::page(&PageOptions { results, page })?);
                return Ok(None);
            }
        };
        Ok(Some(found))
    }
}

impl Net {
    async fn run(self) -> anyhow::Result<Option<Findings>> {
        match self {
            Net::Selftest { seconds } => {
                until_interrupted(selftest::run(seconds, say)).await.map(Some)
            }
            Net::Run { file, on, command } => {
                let (world, folder) = World::read(&file)?;
                let host = on.unwrap_or_else(|| world.hosts[0].clone());
                let program = Foreground { host, words: command };
                let program = (!program.words.is_empty()).then_some(program);
                let played = play::play(&world, &folder, program, say).await?;
                let sources = match world.source.is_empty() {
                    true => Vec::new(),
                    false => crate::world::figures(&world, &played.records),
                };
                let figures = sources.iter().chain(&played.figures);
                figures.for_each(|figure| say(&figure.to_string()));
                let broken = played.broken.join("; ");
                anyhow::ensure!(broken.is_empty(), "does not hold: {broken}");
                Ok(None)
            }
        }
    }
}

/// A run that a signal ends, so that what it made is removed.
async fn until_interrupted(
    run: impl Future<Output = anyhow::Result<Findings>>,
) -> anyhow::Result<Findings> {
    tokio::select! {
        found = run => found,
        Err(stopped) = interrupted() => Err(stopped),
    }
}

fn print(lines: &[String]) {
    lines.iter().for_each(|line| say(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_reach_their_command_wherever_they_stand() {
        let of = |words: &[&str]| parse(words.iter().map(OsString::from));
        let (name, cli) = of(&["sim", "node-hol", "--seed", "7", "--record"]).unwrap();
        assert_eq!((name.as_str(), cli.record), ("sim node-hol", true));
        for words in [["bench", "a/b.toml", "--record"], ["--record", "bench", "a/b.toml"]] {
            let (name, cli) = of(&words).unwrap();
            assert_eq!((name.as_str(), cli.record), ("bench FILE.toml", true));
        }
        assert!(of(&["bench", "hol", "--only", "nobody"]).is_err());
        assert!(of(&["sim", "node-hol", "--law", "tied"]).is_err());
    }

    #[test]
    fn each_command_has_its_own_help_and_refuses_what_it_has_not() {
        let said = |words: &[&str]| {
            parse(words.iter().map(OsString::from)).unwrap_err().render().to_string()
        };
        let help = said(&["sim", "node-hol", "--help"]);
        assert!(help.contains("--scheduler") && !help.contains("--seeds"), "{help}");
        for words in [["sim", "a.toml", "--help"], ["bench", "a.toml", "--help"]] {
            assert!(said(&words).contains("FILE.toml"), "{}", said(&words));
        }
        assert!(said(&["sim", "a.toml", "--seeds", "3"]).contains("has no --seeds"));
        assert!(said(&["sim", "link-h", "--trace"]).contains("has no --trace"));
        assert!(said(&["sim", "a.toml", "--law", "bbr"]).contains("configuration"));
    }
}
