//! `lab sim NAME`: which scenarios a name stands for, and which figures they give.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tidegate_capacity::LawName;
use tidegate_schedule::SchedulerName;

use super::adapt;
use super::catalogue::{self, RIVALS};
use super::file;
use super::fleet;
use super::links;
use super::optimum;
use super::paper::{report as paper, tables};
use super::quantity::Span;
use super::report::{self, Alarm, Row};
use super::scenario::{Feedback, Scenario};
use super::seeds;
use super::traces;
use super::world::{Outcome, World};
use crate::bench::figure;
use crate::janus;
use crate::report::Findings;
use crate::world;

/// The scenarios.
const NAMES: &str = "node-hol, node-steps, node-seeds, node-janus, mismatch, node-optimum, janus-4g, \
     node-tables, lte-traces, held-out, fleet-scale, fleet-damping, janus-tables, link-h, link-l, \
     link-buffer, link-death, link-ablation, link-carriers, link-fairness, link-paper, place-scale, \
     frames-traces, frames-step, adapt-yahoo, adapt-hls";

/// Random worlds of `node-seeds`, and runs of each case of `node-tables` and `janus-4g` (as many as the
/// paper's).
const SEEDS: u64 = 100;
const RUNS: u64 = 5;

/// What `lab sim` is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    name: String,
    /// 1, or that of a world's file, without.
    seed: Option<u64>,
    /// How many seeds: [`SEEDS`], [`RUNS`], or as many as a scenario of links is used to, without.
    seeds: Option<u64>,
    scheduler: Option<SchedulerName>,
    law: LawName,
    /// The rivals beside the law.
    rivals: bool,
    /// Where recordings are.
    data: PathBuf,
    /// Whether what each frame met is printed.
    traces: bool,
    /// Whether to print how much faster than real time it went: the one line that differs from run to
    /// run.
    speed: bool,
}

/// What was simulated, for the speed.
#[derive(Debug, Default)]
struct Lab {
    rows: Vec<Row>,
    lost: i128,
    broken: Vec<String>,
    simulated: Duration,
}

impl Options {
    /// Reads the words after `sim`.
    ///
    /// # Errors
    /// An option that does not exist, or a value that is none.
    pub fn parse(words: &[&str]) -> anyhow::Result<Self> {
        let [name, options @ ..] = words else {
            bail!(
                "usage: lab sim NAME [--seed N] [--seeds N] [--scheduler NAME] [--law NAME|all] \
                   [--data FOLDER] [--speed] [--trace]; NAME is a FILE.toml, or one of {NAMES}"
            )
        };
        let mut parsed = Options {
            name: (*name).into(),
            seed: None,
            seeds: None,
            scheduler: None,
            law: LawName::default(),
            rivals: false,
            data: "../shared/data".into(),
            traces: false,
            speed: false,
        };
        let mut words = options.iter();
        while let Some(&option) = words.next() {
            let mut value = || words.next().with_context(|| format!("{option} needs a value"));
            let problem = |error: String| anyhow::anyhow!(error);
            match option {
                "--seed" => parsed.seed = Some(value()?.parse().context("--seed needs a number")?),
                "--seeds" => {
                    parsed.seeds = Some(value()?.parse().context("--seeds needs a number")?);
                }
                "--scheduler" => parsed.scheduler = Some(value()?.parse().map_err(problem)?),
                "--law" => match *value()? {
                    "all" => parsed.rivals = true,
                    name => parsed.law = name.parse().map_err(problem)?,
                },
                "--data" => parsed.data = value()?.into(),
                "--trace" => parsed.traces = true,
                "--speed" => parsed.speed = true,
                _ => bail!("unknown option {option}"),
            }
        }
        ensure!(parsed.law != LawName::Unlimited, "unlimited is for outputs without a network");
        Ok(parsed)
    }

    fn seed(&self) -> u64 {
        self.seed.unwrap_or(1)
    }

    fn laws(&self) -> Vec<LawName> {
        let rivals = RIVALS.into_iter().filter(|&rival| self.rivals && rival != self.law);
        std::iter::once(self.law).chain(rivals).collect()
    }
}

/// Runs what the options ask for; answers with the lines to print.
///
/// # Errors
/// No such scenario, a file that is none, or a broken promise: then the run is no evidence.
pub fn run(options: &Options) -> anyhow::Result<Vec<String>> {
    let started = Instant::now();
    let mut lab = Lab::default();
    let mut lines = match options.name.as_str() {
        "node-hol" => lab.hol(options)?,
        "node-steps" => lab.steps(options)?,
        "node-seeds" => lab.seeds(options)?,
        "node-janus" => lab.paper(paper::node_janus(options.seed())?),
        "node-tables" => {
            let runs = options.seeds.unwrap_or(RUNS);
            lab.paper(tables::tables(&options.data, options.seed(), runs)?)
        }
        "janus-4g" => {
            lab.overload(janus::virtually(options.seed(), options.seeds.unwrap_or(RUNS))?)
        }
        "mismatch" => lab.paper(paper::fig_2(options.seed())?),
        "held-out" => traces::held_out::run(&options.data, options.seed(), options.law)?,
        "lte-traces" => traces::run(&options.data, options.seed(), &options.laws())?,
        "node-optimum" => optimum::run(options.seed()),
        "fleet-scale" => lab.fleet(fleet::scale(options.seed())),
        "frames-traces" => super::frames::run(&options.data, options.seed())?,
        "frames-step" => super::frames::step(options.traces)?,
        "place-scale" => lab.fleet(super::place::run(options.seed())),
        "fleet-damping" => fleet::damping(options.seed()),
        "janus-tables" => {
            lab.fleet(fleet::tables(options.seed(), &options.data.join("net/mahimahi"))?)
        }
        name if adapt::knows(name) => lab.fleet(adapt::run(name, &options.data)?),
        name if links::knows(name) => links::run(name, options.seed(), options.seeds)?,
        file if file.ends_with(".toml") => lab.file(options, Path::new(file))?,
        other => bail!("no scenario is called {other}: there are {NAMES}"),
    };
    if options.speed {
        let speed = lab.simulated.as_secs_f64() / started.elapsed().as_secs_f64();
        lines.push(figure("virtual_speed", speed, "x"));
    }
    ensure!(lab.broken.is_empty(), "{}\n{}", lines.join("\n"), lab.broken.join("\n"));
    Ok(lines)
}

impl Lab {
    /// Runs a scenario; answers with its rows, which are kept for the table.
    fn play(&mut self, scenario: &Scenario, seed: u64) -> anyhow::Result<Vec<Row>> {
        let outcome = World::new(scenario, seed)?.run();
        let rows = report::rows(scenario, &outcome);
        self.keep(scenario, &outcome);
        self.rows.extend(rows.iter().cloned());
        Ok(rows)
    }

    fn keep(&mut self, scenario: &Scenario, outcome: &Outcome) {
        let (lost, broken) = report::audit(scenario, outcome);
        self.lost += lost;
        let named = |what: String| format!("broken promise in {}: {what}", scenario.name);
        self.broken.extend(broken.into_iter().map(named));
        self.simulated += outcome.ended.since(tidegate_types::units::Time::ZERO);
    }

    fn hol(&mut self, options: &Options) -> anyhow::Result<Vec<String>> {
        let seed = options.seed();
        let base = catalogue::hol().with_law(options.law);
        let mut figures = Vec::new();
        let schedulers = match options.scheduler {
            Some(one) => vec![one],
            None => SchedulerName::ALL.into_iter().rev().collect(),
        };
        for scheduler in schedulers {
            let rows = self.play(&base.clone().with_scheduler(scheduler), seed)?;
            let Some(Alarm { p50, p99, .. }) = rows[0].alarm else { continue };
            let name = scheduler.name();
            figures.push(figure(&format!("alarm_p50_{name}"), p50, "ms"));
            figures.push(figure(&format!("alarm_p99_{name}"), p99, "ms"));
            let ratio = match scheduler {
                SchedulerName::Tidegate => "bulk_goodput_ratio".into(),
                other => format!("bulk_goodput_ratio_{}", other.name()),
            };
            figures.push(figure(&ratio, rows[0].bulk, "1"));
        }
        let mut polled = base.clone();
        polled.name = "polled each 5 ms".into();
        polled.connection.feedback = Feedback::Polled(Span::millis(5));
        let rows = self.play(&polled, seed)?;
        if let Some(alarm) = rows[0].alarm {
            figures.push(figure("alarm_p99_polled", alarm.p99, "ms"));
            figures.push(figure("bulk_goodput_ratio_polled", rows[0].bulk, "1"));
        }
        for law in options.laws().into_iter().skip(1) {
            self.play(&catalogue::hol().with_law(law), seed)?;
        }
        figures.push(figure("lost_accepted", self.lost as f64, "records"));
        Ok(self.lines(figures))
    }

    fn steps(&mut self, options: &Options) -> anyhow::Result<Vec<String>> {
        let mut worst = Worst::default();
        // The law looks for a shorter path now and then; a step may fall into that or not.
        for offset in [0, 1700, 3300] {
            for law in options.laws() {
                let mut scenario = catalogue::steps(offset).with_law(law);
                if offset > 0 {
                    scenario.name = format!("steps, {offset} ms later");
                }
                let rows = self.play(&scenario, options.seed())?;
                if law == options.law {
                    worst.take(&rows);
                }
            }
        }
        let mut figures = worst.figures();
        for disturbance in catalogue::disturbances() {
            for law in options.laws() {
                let rows = self.play(&disturbance.clone().with_law(law), options.seed())?;
                if law == options.law {
                    rows.iter().for_each(|row| figures.extend(row_figures(row)));
                }
            }
        }
        figures.push(figure("lost_accepted", self.lost as f64, "records"));
        Ok(self.lines(figures))
    }

    fn seeds(&mut self, options: &Options) -> anyhow::Result<Vec<String>> {
        let mut lines = Vec::new();
        let mut failed = 0;
        let seeds = options.seeds.unwrap_or(SEEDS);
        for seed in options.seed()..options.seed() + seeds {
            let scenario = seeds::scenario(seed);
            let outcome = World::new(&scenario, seed)?.strict().run();
            let (lost, broken) = seeds::check(&scenario, &outcome);
            self.lost += lost;
            self.simulated += outcome.ended.since(tidegate_types::units::Time::ZERO);
            if !broken.is_empty() {
                failed += 1;
                lines.push(format!("seed {seed} fails:"));
                lines.extend(broken.iter().map(|what| format!("  {what}")));
                self.broken.push(format!("seed {seed}: {}", broken[0]));
            }
        }
        lines.push(figure("seeds_run", seeds as f64, "worlds"));
        lines.push(figure("seeds_failed", f64::from(failed), "worlds"));
        lines.push(figure("lost_accepted", self.lost as f64, "records"));
        Ok(lines)
    }

    fn paper(&mut self, (lines, lost, broken): paper::Report) -> Vec<String> {
        self.lost += lost;
        self.broken.extend(broken);
        lines
    }

    fn overload(&mut self, found: Findings) -> Vec<String> {
        self.broken.extend(found.broken);
        found.lines
    }

    fn fleet(&mut self, (lines, broken): (Vec<String>, Vec<String>)) -> Vec<String> {
        self.broken.extend(broken);
        lines
    }

    fn file(&mut self, options: &Options, path: &Path) -> anyhow::Result<Vec<String>> {
        ensure!(
            options.scheduler.is_none() && !options.rivals && options.law == LawName::default(),
            "a world's node has a configuration: give scheduler and law there"
        );
        let (world, folder) = world::World::read(path)?;
        let played = file::play(&world, &folder, options.seed);
        let played = played.with_context(|| path.display().to_string())?;
        self.simulated += played.simulated;
        self.broken.extend(played.broken);
        self.broken.extend(world::broken(&world, &played.records));
        let lines = world::table(&world, &played.records).into_iter();
        Ok(lines.chain(world::figures(&world, &played.records)).collect())
    }

    fn lines(&self, figures: Vec<String>) -> Vec<String> {
        report::table(&self.rows).into_iter().chain(figures).collect()
    }
}

/// p50, p99 and share of one row.
fn row_figures(row: &Row) -> Vec<String> {
    let name = |what: &str| {
        let text = format!("{} {} {what}", row.case, row.phase);
        let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { ' ' };
        let text: String = text.chars().map(plain).collect();
        text.split_whitespace().collect::<Vec<_>>().join("_").to_lowercase()
    };
    let mut lines = Vec::new();
    if let Some(Alarm { p50, p99, .. }) = row.alarm {
        lines.push(figure(&name("p50"), p50, "ms"));
        lines.push(figure(&name("p99"), p99, "ms"));
    }
    lines.push(figure(&name("share"), row.all, "1"));
    lines
}

/// The worst of several runs of the steps.
#[derive(Debug, Default)]
struct Worst {
    steady_p99: f64,
    drop: f64,
    share: Option<f64>,
}

impl Worst {
    fn take(&mut self, rows: &[Row]) {
        for row in rows {
            let alarm = row.alarm.map_or(0.0, |alarm| alarm.p99);
            match row.phase.as_str() {
                "drop" => {
                    self.drop = self.drop.max(row.alarm.map_or(0.0, |alarm| alarm.worst));
                }
                "from 3 s" => self.share = Some(self.share.unwrap_or(1.0).min(row.all)),
                _ => self.steady_p99 = self.steady_p99.max(alarm),
            }
        }
    }

    fn figures(&self) -> Vec<String> {
        /// Old rate over new, round trip and target queue in ms, and what an alarm may always take.
        const BOUND: f64 = 8.0 * (100.0 + 25.0) + 150.0;
        vec![
            figure("steps_alarm_p99", self.steady_p99, "ms"),
            figure("steps_drop_worst", self.drop, "ms"),
            figure("steps_drop_bound", BOUND, "ms"),
            figure("steps_share_from_3_s", self.share.unwrap_or_default(), "1"),
        ]
    }
}
