//! `lab sim NAME`: the scenarios in virtual time, what each needs, and their options.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::error::{Error, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use tidegate_capacity::RateControllerName;
use tidegate_lab_papers::janus;
use tidegate_lab_papers::sim::adapt::{depth, hls, yahoo};
use tidegate_lab_papers::sim::paper::coflows::coflows;
use tidegate_lab_papers::sim::paper::{report as paper, tables};
use tidegate_lab_papers::sim::{
    beside, fleet, frames, l4s, links as fd_mvqs, optimum, place, start, traces,
};
use tidegate_schedule::SchedulerName;

use super::catalogue::RIVALS;
use super::links;
use super::nodes::Lab;
use crate::report::{Findings, figure};

/// Runs of each case of `node-tables`, `janus-4g` and `fleet-shootout`: as many as the paper's.
const RUNS: u64 = 5;
/// Worlds of `fleet-faults-oracle`.
const WORLDS: u64 = 200;

/// A scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// As it is called.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The folder in that of the data without which there is nothing to play.
    pub data: Option<&'static str>,
    /// Names of the options that it has.
    takes: &'static [&'static str],
    run: Run,
}

type Run = fn(&mut Lab, &Options) -> anyhow::Result<Findings>;

const fn scenario(
    name: &'static str,
    about: &'static str,
    takes: &'static [&'static str],
    run: Run,
) -> Scenario {
    Scenario { name, about, data: None, takes, run }
}

const fn of_data(data: &'static str, scenario: Scenario) -> Scenario {
    Scenario { data: Some(data), ..scenario }
}

/// Options of scenarios that are played for several seeds.
const SEEDS: &[&str] = &["seed", "seeds"];

/// All of them.
#[rustfmt::skip]
pub const SCENARIOS: [Scenario; 35] = [
    scenario("node-hol", "Alarms beside bulk at 160 % of 2 Mbit/s, under each scheduler", &["seed", "scheduler", "law", "speed"], |lab, asked| lab.hol(asked)),
    scenario("node-steps", "A link that falls from 8 to 1 Mbit/s and rises, and 15 other disturbances", &["seed", "law", "speed"], |lab, asked| lab.steps(asked)),
    scenario("node-beside", "A node at a tail-drop queue that a Reno or CUBIC flow fills, beside BBR in its place: see --law tide-beside", &["seed", "law"], |_, asked| beside::run(&asked.laws(), asked.seed())),
    scenario("node-l4s", "A node at queues that mark: a coupled dual queue and CoDel, alone, beside Prague and beside CUBIC", &["seed", "law"], |_, asked| l4s::run(&asked.laws(), asked.seed())),
    scenario("node-start", "How soon a node that knows nothing fills links of 1 to 100 Mbit/s over 20 to 200 ms", &["seed", "law"], |_, asked| start::run(&asked.laws(), asked.seed())),
    scenario("node-seeds", "Random worlds: nothing is lost, nothing is stuck, no promise is broken", &["seed", "seeds", "speed"], |lab, asked| lab.seeds(asked)),
    scenario("node-janus", "JANUS's evaluation of one node, 39 cases under each scheduler", &["seed"], |_, asked| paper::node_janus(asked.seed())),
    scenario("node-tables", "JANUS's figures and tables of one busy node, each run several times", &["seed", "seeds", "data"], |_, asked| tables::tables(&asked.given.data, asked.seed(), asked.runs(RUNS))),
    scenario("node-optimum", "How near each scheduler comes to the best that JANUS's Eq. 7 allows", &["seed"], |_, asked| Ok(optimum::run(asked.seed()))),
    scenario("node-coflows", "Sets of records with one bound: unnamed, named, and of known size", SEEDS, |_, asked| Ok(coflows(asked.seed(), asked.runs(RUNS)))),
    scenario("mismatch", "JANUS's Fig. 2: what comes in over what goes out", &["seed"], |_, asked| paper::fig_2(asked.seed())),
    scenario("janus-4g", "The paper's busy node on its 4G link, under each scheduler", SEEDS, |_, asked| janus::virtually(asked.seed(), asked.runs(RUNS))),
    of_data("net/mahimahi", scenario("lte-traces", "Recorded LTE and UMTS links, beside BBR and what nobody can beat; several seeds: from several starts", &["seed", "seeds", "law", "data"], |_, asked| traces::run(&asked.given.data, asked.seeds(1), &asked.laws()))),
    of_data("net", scenario("capacity", "Recordings of ten sources, beside BBR, oracles and the curve of share and latency", &["seed", "seeds", "law", "data", "held_out", "curve", "link", "sources", "jobs", "scores"], |_, asked| traces::capacity::run(&asked.given.data, &asked.given.part, &asked.laws(), asked.seeds(1)))),
    scenario("fleet-scale", "Matchings of fleets of up to 10,000 nodes, beside the optimum", &["seed"], |_, asked| Ok(fleet::scale(asked.seed()))),
    scenario("fleet-damping", "A fleet whose loads switch: grants that rest, and what waits", &["seed"], |_, asked| Ok(fleet::damping(asked.seed()))),
    scenario("fleet-shootout", "JANUS as printed, as meant, and ours, with every matching on ten nodes", SEEDS, |_, asked| fleet::shootout(asked.seed(), asked.runs(RUNS))),
    scenario("fleet-faults-oracle", "Uplinks, leaders and lenders that fail, beside an oracle that knows when", SEEDS, |_, asked| Ok(fleet::faults_oracle(asked.seed(), asked.runs(WORLDS)))),
    scenario("janus-tables", "JANUS's tables of fleets on 3G, 4G, WiFi and recorded uplinks", &["seed", "data"], |_, asked| fleet::tables(asked.seed(), &asked.given.data.join("net/mahimahi"))),
    of_data("net/mahimahi", scenario("janus-recorded", "The last part of janus-tables: recorded uplinks, beside an oracle that knows them", &["seed", "seeds", "data"], |_, asked| fleet::over_recorded(&Vec::from_iter(asked.seeds(1)), &asked.given.data.join("net/mahimahi")))),
    scenario("place-scale", "Placement heuristics on up to 10,000 topics, and repair under drift", &["seed"], |_, asked| Ok(place::run(asked.seed()))),
    scenario("link-h", "Three paths with heavy loss: goodput, media, alarms", SEEDS, |_, asked| Ok(links::heavy(asked.seeds(10)))),
    scenario("link-l", "The same with a tenth of the loss", SEEDS, |_, asked| Ok(links::light(asked.seeds(10)))),
    scenario("link-buffer", "What small receive windows carry", SEEDS, |_, asked| Ok(links::buffer(asked.seeds(10)))),
    scenario("link-death", "Each path dies under media and returns", SEEDS, |_, asked| Ok(links::death(asked.seeds(10)))),
    scenario("link-ablation", "Every scheduler and predictor of paths, difference by difference", SEEDS, |_, asked| Ok(fd_mvqs::ablation(&asked.seeds(30)))),
    scenario("link-paper", "FD-MVQS's Table 1 and Fig. 6 to 11", SEEDS, |_, asked| Ok(fd_mvqs::paper(&asked.seeds(3)))),
    scenario("link-fairness", "One to three paths through one bottleneck beside CUBIC and BBR", SEEDS, |_, asked| Ok(links::fairness(asked.seeds(5)))),
    of_data("net/pam2025_3carrier_ping", scenario("link-carriers", "Small records over three recorded carriers", &["seed", "seeds", "data"], |_, asked| fd_mvqs::carriers(&asked.given.data, asked.seeds(5)))),
    of_data("vision", scenario("frames-traces", "Cameras over recorded channels, beside one that knows them", &["seed", "data"], |_, asked| frames::run(&asked.given.data, asked.seed()))),
    scenario("frames-step", "A camera whose channel falls from 40 to 4 Mbit/s and rises", &["trace"], |_, asked| frames::step(asked.given.trace)),
    scenario("frames-mez", "The Mez paper's knobs on its channel: its controller beside ours", SEEDS, |_, asked| frames::mez(&asked.seeds(10))),
    scenario("adapt-depth", "BumbleBee's Fig. 9 as printed at 20,000 events/s, with 100,000 waiting", &[], |_, _| depth::run()),
    of_data("stream_benchmark", scenario("adapt-yahoo", "The Yahoo streaming benchmark in a burst, shed by scripts", &["data"], |_, asked| yahoo::run(&asked.given.data))),
    of_data("video_sizes", scenario("adapt-hls", "A live stream over recorded paths, with a player's choice and with scripts", &["data"], |_, asked| hls::run(&asked.given.data, &hls::Options::default()))),
];

/// What `lab sim` is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    scenario: Scenario,
    /// Of a world in a file.
    file: PathBuf,
    given: Given,
}

/// All options of scenarios; each has some of them.
#[derive(Clone, Debug, Args)]
struct Given {
    /// Of all that is random; 1, or that of a world's file, without
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, from that one on; as many as the scenario is used to, without
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Only this scheduler: native, janus-paper, janus, tidegate
    #[arg(long)]
    scheduler: Option<SchedulerName>,
    /// The rate controller under test, or `all` for its rivals beside it
    #[arg(long, value_name = "NAME|all", value_parser = law)]
    law: Option<Laws>,
    /// Folder of recordings and other data
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    data: PathBuf,
    #[command(flatten)]
    part: traces::capacity::Part,
    /// Prints what each frame met
    #[arg(long)]
    trace: bool,
    /// Also how much faster than real time it went: the one figure that differs from run to run
    #[arg(long)]
    speed: bool,
}

/// The scenario that a file is, as the command line calls it.
pub(crate) const FILE: Scenario = scenario(
    "FILE.toml",
    "A world in a file: its node, sources and link in virtual time",
    &["seed", "speed"],
    |lab, asked| lab.file(asked, &asked.file),
);

impl Scenario {
    /// Its command; options that it has not are hidden, and refused by [`Scenario::refuse`].
    fn command(&self) -> Command {
        let command = Given::augment_args(Command::new(self.name)).about(self.about);
        command.mut_args(|arg| {
            let is_hidden = !self.takes.contains(&arg.get_id().as_str());
            arg.hide(is_hidden)
        })
    }

    /// An option that was given to a scenario that has no use for it.
    fn refuse(&self, matches: &ArgMatches) -> Result<(), Error> {
        let is_given = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let command = self.command();
        let hidden = command.get_arguments().filter(|arg| arg.is_hide_set());
        let Some(id) = hidden.map(|arg| arg.get_id().as_str()).find(is_given) else {
            return Ok(());
        };
        let hint = match (id, self.name == FILE.name) {
            ("scheduler" | "law", true) => ": a world's node has a configuration, which says it",
            _ => "",
        };
        let text = format!("`sim {}` has no --{id}{hint}\n", self.name);
        Err(Error::raw(ErrorKind::UnknownArgument, text))
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let found = matches.subcommand().and_then(|(name, inner)| Some((of(name)?, inner)));
        let missing = || Error::raw(ErrorKind::MissingSubcommand, "a scenario, or FILE.toml\n");
        let (scenario, inner) = found.ok_or_else(missing)?;
        scenario.refuse(inner)?;
        let file = inner.try_get_one::<PathBuf>("file").ok().flatten().cloned().unwrap_or_default();
        Ok(Options { scenario, file, given: Given::from_arg_matches(inner)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Options::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for Options {
    fn augment_subcommands(root: Command) -> Command {
        let file = Arg::new("file").required(true).value_parser(clap::value_parser!(PathBuf));
        let all = SCENARIOS.iter().map(Scenario::command);
        root.subcommands(all).subcommand(FILE.command().arg(file.help("The world")))
    }

    fn augment_subcommands_for_update(root: Command) -> Command {
        Options::augment_subcommands(root)
    }

    fn has_subcommand(name: &str) -> bool {
        of(name).is_some()
    }
}

fn of(name: &str) -> Option<Scenario> {
    SCENARIOS.into_iter().chain([FILE]).find(|one| one.name == name)
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Laws {
    One(RateControllerName),
    All,
}

fn law(name: &str) -> Result<Laws, String> {
    match name {
        "all" => Ok(Laws::All),
        "unlimited" => Err("unlimited is for outputs without a network".into()),
        name => name.parse().map(Laws::One),
    }
}

impl Options {
    /// Whether it says itself how far it is.
    pub(crate) fn tells(&self) -> bool {
        self.scenario.takes.contains(&"jobs")
    }

    pub(super) fn seed(&self) -> u64 {
        self.given.seed.unwrap_or(1)
    }

    /// The seed, if one was given: a world's file has its own.
    pub(super) fn given_seed(&self) -> Option<u64> {
        self.given.seed
    }

    pub(super) fn scheduler(&self) -> Option<SchedulerName> {
        self.given.scheduler
    }

    pub(super) fn runs(&self, usual: u64) -> u64 {
        self.given.seeds.unwrap_or(usual)
    }

    pub(super) fn seeds(&self, usual: u64) -> std::ops::Range<u64> {
        self.seed()..self.seed() + self.runs(usual)
    }

    pub(super) fn law(&self) -> RateControllerName {
        match self.given.law {
            Some(Laws::One(law)) => law,
            _ => RateControllerName::default(),
        }
    }

    pub(super) fn laws(&self) -> Vec<RateControllerName> {
        let is_all = matches!(self.given.law, Some(Laws::All));
        let rivals = RIVALS.into_iter().filter(|&rival| is_all && rival != self.law());
        std::iter::once(self.law()).chain(rivals).collect()
    }
}

/// Runs what the options ask for.
///
/// # Errors
/// A file that is none, or data that cannot be read.
pub fn run(options: &Options) -> anyhow::Result<Findings> {
    let started = Instant::now();
    let mut lab = Lab::default();
    let Options { scenario, file, .. } = options;
    let name =
        if scenario.name == FILE.name { file.display().to_string() } else { scenario.name.into() };
    let mut found = (scenario.run)(&mut lab, options).context(name)?;
    if options.given.speed {
        let speed = lab.simulated.as_secs_f64() / started.elapsed().as_secs_f64();
        found.figures.push(figure("virtual_speed", speed, "x"));
    }
    found.broken.append(&mut lab.broken);
    Ok(found)
}
