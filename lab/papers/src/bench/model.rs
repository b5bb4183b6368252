//! Latency models against the broker of this machine: calibrated for some minutes, then asked about configurations that they have not seen
//! (topic placement, section VI-B, and docs/algorithms-place.md).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use tidegate::cli::calibrate::broker::{self, Rig, design};
use tidegate_cluster::place::model::{
    Dispatch, Measurement, ModelKind, PredictionAccuracy, PredictionCase, TrainedModel, judge,
};

use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};

/// Of configurations that are held out: none of calibration's.
const HELD_OUT: u64 = 7_000_000_000;
/// Every so many of them run twice.
const TWICE: usize = 3;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// How long calibration takes, in seconds
    #[arg(long, default_value_t = 300)]
    pub(crate) seconds: u64,
    /// Configurations that are held out; a third of them run twice
    #[arg(long, default_value_t = 60)]
    pub(crate) configurations: usize,
    /// How long each of these is under load, in seconds
    #[arg(long, default_value_t = 4.0)]
    pub(crate) each: f64,
    /// A thread for each topic in place of the pool
    #[arg(long)]
    pub(crate) threads: bool,
    /// Of configurations and arrivals
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Python with scikit-learn, for the models that are trained
    #[arg(long, default_value = "target/python/bin/python")]
    pub(crate) python: PathBuf,
    /// Where measurements and models are kept
    #[arg(long, default_value = "target/model")]
    pub(crate) out: PathBuf,
    /// Measure nothing: judge what is in --out by now
    #[arg(long)]
    pub(crate) again: bool,
}

/// Runs the benchmark; returns what was found.
///
/// # Errors
/// A process that does not start, a connection that breaks, or a file that cannot be written.
pub fn run(options: &Options, tidegate: &Path) -> anyhow::Result<Findings> {
    let of = |name: &str| options.out.join(name);
    let (calibration, held_out) = (of("calibration.jsonl"), of("held-out.jsonl"));
    let mut disturbed = 0;
    if !options.again {
        std::fs::create_dir_all(&options.out).context("--out")?;
        disturbed = measure(options, tidegate, &calibration, &held_out)?;
    }
    let known = read(&calibration)?;
    let held = read(&held_out)?;
    ensure!(!known.is_empty() && !held.is_empty(), "nothing was measured");
    let mut lines = vec![
        format!(
            "{} configurations of calibration and {} runs of others, {:.0} and {:.0} s under load",
            known.len(),
            held.len(),
            under_load(&known),
            under_load(&held)
        ),
        format!(
            "  {:<28}{:>8}{:>10}{:>7}{:>9}{:>9}{:>9}{:>9}{:>9}",
            "", "topics", "R2 log", "near", "right", "right", "missed", "miss", "refused"
        ),
    ];
    if disturbed > 0 {
        let why = "other machines on this host took processors";
        lines.insert(1, format!("  {disturbed} runs were made again: {why}"));
    }
    let mut figures = Vec::new();
    let mut tell = |name: &str, verdict: &PredictionAccuracy| {
        lines.push(row(name, verdict));
        figures.extend(told(name, verdict));
    };
    let calibrated = calibrated(&known);
    tell("physics, calibrated", &broker::verdict(&calibrated, ModelKind::Physics, &held)?);
    let trained = of("model.json");
    match train(&options.python, &calibration, &trained) {
        Ok(learned) => {
            for (name, by) in
                [("physics and trees", ModelKind::Learned), ("paper", ModelKind::Paper)]
            {
                if let Ok(verdict) = broker::verdict(&learned, by, &held) {
                    tell(name, &verdict);
                }
            }
        }
        Err(error) => lines.push(format!("skipped: models that Python trains: {error:#}")),
    }
    let twice = twice(&held);
    if !twice.is_empty() {
        let verdict = judge(&twice);
        lines.push(row("the same run twice", &verdict));
        figures.extend(told("twice", &verdict));
    }
    Ok((lines, figures).into())
}

/// Returns how many runs were made again.
fn measure(options: &Options, tidegate: &Path, known: &Path, held: &Path) -> anyhow::Result<u32> {
    let _awake = Spinners::start().context("spinners")?;
    let stop = AtomicBool::new(false);
    let processors = std::thread::available_parallelism()?.get() as u32;
    let scheduler = if options.threads { Dispatch::ThreadPerTopic } else { Dispatch::Edf };
    let rig = Rig::new(tidegate, scheduler, processors, &stop);
    let measured = broker::measure(&rig, Duration::from_secs(options.seconds), options.seed)?;
    broker::write(known, &measured)?;
    let progress = Progress::new("model", options.configurations + options.configurations / TWICE);
    let time = Duration::from_secs_f64(options.each.max(0.5));
    let mut measured = Vec::new();
    // Second runs come after all first ones: a machine that drifts is part of the ceiling.
    for round in 0..2_u64 {
        for number in (0..options.configurations).filter(|number| round == 0 || number % TWICE == 0)
        {
            let place = HELD_OUT + options.seed * 1_000_000 + number as u64;
            progress.step(&format!("configuration {number}"), None);
            let configuration = design(place, processors, options.threads);
            measured.push(rig.measure(&configuration, time, place + round * 500_000)?);
        }
    }
    broker::write(held, &measured)?;
    Ok(rig.again())
}

fn read(file: &Path) -> anyhow::Result<Vec<Measurement>> {
    let within = || file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(within)?;
    Measurement::read(&text).with_context(within)
}

fn under_load(measured: &[Measurement]) -> f64 {
    measured.iter().map(|one| one.seconds).sum()
}

fn calibrated(known: &[Measurement]) -> TrainedModel {
    let stop = AtomicBool::new(false);
    let (scheduler, processors) = (known[0].scheduler, known[0].processors);
    broker::learn(&Rig::new(Path::new(""), scheduler, processors, &stop), known)
}

/// Trains in Python, with the package of this repository.
fn train(python: &Path, known: &Path, out: &Path) -> anyhow::Result<TrainedModel> {
    let done = Command::new(python)
        .args(["-m", "tidegate.model", "train", "--quiet", "--out"])
        .args([out, known])
        .env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/src"))
        .output()
        .with_context(|| python.display().to_string())?;
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    ensure!(done.status.success(), "{said}");
    Ok(TrainedModel::read(&std::fs::read_to_string(out)?)?)
}

/// What the first run of a configuration says of its second one.
fn twice(held: &[Measurement]) -> Vec<PredictionCase> {
    let mut first: BTreeMap<&str, &Measurement> = BTreeMap::new();
    let mut cases = Vec::new();
    for one in held {
        let Some(before) = first.insert(&one.configuration, one) else { continue };
        let topics = before.topics.iter().zip(&one.topics);
        cases.extend(topics.map(|(before, topic)| PredictionCase {
            predicted: before.p90_seconds,
            measured: topic.p90_seconds,
            bound: topic.bound_seconds,
        }));
    }
    cases
}

fn row(name: &str, verdict: &PredictionAccuracy) -> String {
    let PredictionAccuracy { cases, r2, near, near_right, right, missed, miss, refused } = verdict;
    format!(
        "  {name:<28}{cases:>8}{r2:>10.3}{near:>7}{near_right:>9.3}{right:>9.3}{missed:>9.3}{miss:>9.3}{refused:>9.3}"
    )
}

fn told(name: &str, verdict: &PredictionAccuracy) -> [Figure; 3] {
    let name = name.replace(", ", "_").replace(' ', "_");
    [
        figure(&format!("model_{name}_r2"), verdict.r2, "r2"),
        figure(&format!("model_{name}_near_right"), verdict.near_right, "share"),
        figure(&format!("model_{name}_missed"), verdict.missed, "share"),
    ]
}

#[cfg(test)]
mod tests {
    use tidegate_cluster::place::model::{MeasuredTopic, VERSION};

    use super::*;

    fn run(name: &str, p90_seconds: f64) -> Measurement {
        let topic = MeasuredTopic {
            rate: 10.0,
            work_seconds: 0.001,
            work_cv: 0.0,
            subscribers: 1,
            bound_seconds: 0.01,
            serial: false,
            p50_seconds: p90_seconds,
            p90_seconds,
            p99_seconds: p90_seconds,
            count: 30,
            arrived: 1.0,
        };
        Measurement {
            version: VERSION,
            configuration: name.into(),
            scheduler: Dispatch::Edf,
            processors: 2,
            seconds: 4.0,
            topics: vec![topic],
        }
    }

    #[test]
    fn only_what_ran_twice_is_compared() {
        let cases = twice(&[run("1", 0.008), run("2", 0.001), run("1", 0.012)]);
        assert_eq!(cases, [PredictionCase { predicted: 0.008, measured: 0.012, bound: 0.01 }]);
    }

    #[test]
    fn what_is_held_out_is_none_of_calibrations() {
        assert_ne!(
            design(HELD_OUT + 1_000_000, 2, false).topics,
            design(1_000_000, 2, false).topics
        );
    }
}
