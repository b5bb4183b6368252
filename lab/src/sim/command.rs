//! `lab sim NAME`: the scenarios in virtual time, what each needs, and their options.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use tidegate_capacity::RateControllerName;
use tidegate_schedule::SchedulerName;

use super::adapt::{hls, yahoo};
use super::catalogue::RIVALS;
use super::links;
use super::nodes::Lab;
use super::paper::{report as paper, tables};
use super::{fleet, frames, optimum, place, traces};
use crate::janus;
use crate::report::{Findings, figure};

/// Runs of each case of `node-tables` and `janus-4g`: as many as the paper's.
const RUNS: u64 = 5;

/// A scenario.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// As it is called.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The folder in that of the data without which there is nothing to play.
    pub data: Option<&'static str>,
    run: fn(&mut Lab, &Options) -> anyhow::Result<Findings>,
}

const fn scenario(
    name: &'static str,
    about: &'static str,
    run: fn(&mut Lab, &Options) -> anyhow::Result<Findings>,
) -> Scenario {
    Scenario { name, about, data: None, run }
}

const fn of_data(data: &'static str, scenario: Scenario) -> Scenario {
    Scenario { data: Some(data), ..scenario }
}

/// All of them.
#[rustfmt::skip]
pub const SCENARIOS: [Scenario; 26] = [
    scenario("node-hol", "Alarms beside bulk at 160 % of 2 Mbit/s, under each scheduler", |lab, asked| lab.hol(asked)),
    scenario("node-steps", "A link that falls from 8 to 1 Mbit/s and rises, and 15 other disturbances", |lab, asked| lab.steps(asked)),
    scenario("node-seeds", "Random worlds: nothing is lost, nothing is stuck, no promise is broken", |lab, asked| lab.seeds(asked)),
    scenario("node-janus", "JANUS's evaluation of one node, 39 cases under each scheduler", |_, asked| paper::node_janus(asked.seed())),
    scenario("node-tables", "JANUS's figures and tables of one busy node, each run several times", |_, asked| tables::tables(&asked.data, asked.seed(), asked.runs(RUNS))),
    scenario("node-optimum", "How near each scheduler comes to the best that JANUS's Eq. 7 allows", |_, asked| Ok(optimum::run(asked.seed()))),
    scenario("mismatch", "JANUS's Fig. 2: what comes in over what goes out", |_, asked| paper::fig_2(asked.seed())),
    scenario("janus-4g", "The paper's busy node on its 4G link, under each scheduler", |_, asked| janus::virtually(asked.seed(), asked.runs(RUNS))),
    of_data("net/mahimahi", scenario("lte-traces", "Recorded LTE and UMTS links, beside BBR and what nobody can beat", |_, asked| traces::run(&asked.data, asked.seed(), &asked.laws()))),
    of_data("net", scenario("held-out", "Recordings on which nothing was tuned, beside BBR", |_, asked| traces::held_out::run(&asked.data, asked.seed(), asked.law()))),
    scenario("fleet-scale", "Matchings of fleets of up to 10,000 nodes, beside the optimum", |_, asked| Ok(fleet::scale(asked.seed()))),
    scenario("fleet-damping", "A fleet whose loads switch: grants that rest, and what waits", |_, asked| Ok(fleet::damping(asked.seed()))),
    scenario("janus-tables", "JANUS's tables of fleets on 3G, 4G, WiFi and recorded uplinks", |_, asked| fleet::tables(asked.seed(), &asked.data.join("net/mahimahi"))),
    scenario("place-scale", "Placement heuristics on up to 10,000 topics, and repair under drift", |_, asked| Ok(place::run(asked.seed()))),
    scenario("link-h", "Three paths with heavy loss: goodput, media, alarms", |_, asked| Ok(links::heavy(asked.seeds(10)))),
    scenario("link-l", "The same with a tenth of the loss", |_, asked| Ok(links::light(asked.seeds(10)))),
    scenario("link-buffer", "What small receive windows carry", |_, asked| Ok(links::buffer(asked.seeds(10)))),
    scenario("link-death", "Each path dies under media and returns", |_, asked| Ok(links::death(asked.seeds(10)))),
    scenario("link-ablation", "Every scheduler and predictor of paths, difference by difference", |_, asked| Ok(links::ablation(&asked.seeds(30)))),
    scenario("link-paper", "FD-MVQS's Table 1 and Fig. 6 to 11", |_, asked| Ok(links::paper(&asked.seeds(3)))),
    scenario("link-fairness", "One to three paths through one bottleneck beside CUBIC and BBR", |_, asked| Ok(links::fairness(asked.seeds(5)))),
    of_data("net/pam2025_3carrier_ping", scenario("link-carriers", "Small records over three recorded carriers", |_, asked| links::carriers(&asked.data, asked.seeds(5)))),
    of_data("vision", scenario("frames-traces", "Cameras over recorded channels, beside one that knows them", |_, asked| frames::run(&asked.data, asked.seed()))),
    scenario("frames-step", "A camera whose channel falls from 40 to 4 Mbit/s and rises", |_, asked| frames::step(asked.trace)),
    of_data("stream_benchmark", scenario("adapt-yahoo", "The Yahoo streaming benchmark in a burst, shed by scripts", |_, asked| yahoo::run(&asked.data))),
    of_data("video_sizes", scenario("adapt-hls", "A live stream over recorded paths, with a player's choice and with scripts", |_, asked| hls::run(&asked.data, &hls::Options::default()))),
];

/// What `lab sim` is asked for.
#[derive(Clone, Debug, Parser)]
#[command(name = "sim", after_help = list())]
pub struct Options {
    /// A scenario, or a world's FILE.toml
    #[arg(value_parser = known)]
    name: String,
    /// Of all that is random; 1, or that of a world's file, without
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// How many seeds, from that one on; as many as the scenario is used to, without
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) seeds: Option<u64>,
    /// Only this scheduler: native, janus-paper, janus, tidegate
    #[arg(long)]
    pub(super) scheduler: Option<SchedulerName>,
    /// The rate controller under test, or `all` for its rivals beside it
    #[arg(long, value_name = "NAME|all", value_parser = law)]
    pub(super) law: Option<Laws>,
    /// Folder of recordings and other data
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    data: PathBuf,
    /// Prints what each frame met (frames-step)
    #[arg(long)]
    trace: bool,
    /// Also how much faster than real time it went: the one figure that differs from run to run
    #[arg(long)]
    speed: bool,
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

fn known(name: &str) -> Result<String, String> {
    let is_known = name.ends_with(".toml") || SCENARIOS.iter().any(|one| one.name == name);
    let names = || SCENARIOS.map(|one| one.name).join(", ");
    if is_known { Ok(name.into()) } else { Err(format!("there are FILE.toml, {}", names())) }
}

/// The scenarios, for `lab sim --help`.
fn list() -> String {
    let lines = SCENARIOS.map(|one| format!("  {:<15} {}", one.name, one.about));
    format!("Scenarios:\n{}", lines.join("\n"))
}

impl Options {
    pub(super) fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    pub(super) fn runs(&self, usual: u64) -> u64 {
        self.seeds.unwrap_or(usual)
    }

    pub(super) fn seeds(&self, usual: u64) -> std::ops::Range<u64> {
        self.seed()..self.seed() + self.runs(usual)
    }

    pub(super) fn law(&self) -> RateControllerName {
        match self.law {
            Some(Laws::One(law)) => law,
            _ => RateControllerName::default(),
        }
    }

    pub(super) fn laws(&self) -> Vec<RateControllerName> {
        let is_all = matches!(self.law, Some(Laws::All));
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
    let mut found = match SCENARIOS.iter().find(|one| one.name == options.name) {
        Some(scenario) => (scenario.run)(&mut lab, options),
        None => lab.file(options, Path::new(&options.name)),
    }
    .with_context(|| options.name.clone())?;
    if options.speed {
        let speed = lab.simulated.as_secs_f64() / started.elapsed().as_secs_f64();
        found.figures.push(figure("virtual_speed", speed, "x"));
    }
    found.broken.append(&mut lab.broken);
    Ok(found)
}
