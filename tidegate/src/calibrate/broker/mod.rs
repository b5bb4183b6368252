//! `tidegate calibrate broker`: how long records take at this machine's broker, measured, and the machine's parameters (docs/PLACEMENT.md).

mod client;
mod design;
mod run;
mod stolen;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tidegate_cluster::place::Topic;
use tidegate_cluster::place::model::{
    Measurement, ModelKind, PredictionAccuracy, PredictionCase, TrainedModel, fit, judge,
};

pub use self::design::{Configuration, Designed, design};
pub use self::run::Rig;
use super::{print, say};
use crate::cli::calibrate::BrokerArguments;

/// Configurations below which nothing is fitted.
const RUNS_MIN: usize = 8;
/// How long a configuration is under load, at most: its 90th percentiles then have some hundred records.
const RUN_MAX: Duration = Duration::from_secs(4);
/// Into how many runs a short time is divided.
const RUNS: u32 = 30;

/// Measures, fits, and writes both.
pub(super) fn broker(arguments: &BrokerArguments) -> anyhow::Result<ExitCode> {
    let processors = thread::available_parallelism()?.get() as u32;
    let program = std::env::current_exe().context("this program's own file")?;
    let stop = stopped_by_people()?;
    let rig = Rig::new(&program, arguments.pool, processors, &stop);
    let lines = arguments.measurements.clone().unwrap_or_else(|| beside(&arguments.out));
    // A place that cannot be written to should not be found out after five minutes.
    std::fs::write(&lines, "").with_context(|| lines.display().to_string())?;
    let time = Duration::from_secs(arguments.seconds.into());
    let measured = measure(&rig, time, arguments.seed)?;
    write(&lines, &measured)?;
    ensure!(
        measured.len() >= RUNS_MIN,
        "{} configurations say too little of a machine: at least {RUNS_MIN} (they are in {})",
        measured.len(),
        lines.display()
    );
    let learned = learn(&rig, &measured);
    let text = serde_json::to_string_pretty(&learned)? + "\n";
    std::fs::write(&arguments.out, text).with_context(|| arguments.out.display().to_string())?;
    tell(&learned, &measured);
    if rig.again() > 0 {
        let runs = rig.again();
        print(&format!("{runs} runs were made again: other machines on this host took processors"));
    }
    let (out, lines) = (arguments.out.display(), lines.display());
    print(&format!("measurements: {lines}\ntidegate plan topics.toml --model {out}"));
    let was_stopped = stop.load(Ordering::Relaxed);
    Ok(if was_stopped { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The file of measurements where none is given.
fn beside(out: &Path) -> PathBuf {
    out.with_extension("jsonl")
}

/// Set by the signals that end a program; then it is for us to end.
fn stopped_by_people() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    thread::Builder::new().spawn(move || {
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let Ok(mut ended) = signal(SignalKind::terminate()) else { return };
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = ended.recv() => {}
            }
            told.store(true, Ordering::Relaxed);
        });
    })?;
    Ok(stop)
}

/// Measures one configuration after another until the time is over; stopped by people, what there is until then.
///
/// # Errors
/// A node does not start, or a connection breaks.
pub fn measure(rig: &Rig<'_>, time: Duration, seed: u64) -> anyhow::Result<Vec<Measurement>> {
    let (start, mut measured) = (Instant::now(), Vec::new());
    let each = (time / RUNS).clamp(Duration::from_secs(1), RUN_MAX);
    while start.elapsed() + each < time {
        let number = measured.len() as u64;
        let place = seed.wrapping_mul(1_000_000).wrapping_add(number);
        let has_threads = rig.scheduler == tidegate_cluster::place::model::Dispatch::ThreadPerTopic;
        let configuration = design(place, rig.processors, has_threads);
        let left = time.saturating_sub(start.elapsed()).as_secs();
        let topics = configuration.topics.len();
        say(&format!("{number} configurations, {left} s left: {topics} topics"), false);
        match rig.measure(&configuration, each, place) {
            Ok(one) => measured.push(one),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => break,
            Err(error) => {
                say("", true);
                return Err(error).with_context(|| format!("configuration {place}"));
            }
        }
    }
    say("", true);
    Ok(measured)
}

/// Writes measurements, one a line.
///
/// # Errors
/// The file cannot be written.
pub fn write(file: &Path, measured: &[Measurement]) -> anyhow::Result<()> {
    let mut text = String::new();
    for one in measured {
        text += &serde_json::to_string(one)?;
        text.push('\n');
    }
    std::fs::write(file, text).with_context(|| file.display().to_string())
}

/// The machine's parameters.
pub fn learn(rig: &Rig<'_>, measured: &[Measurement]) -> TrainedModel {
    let (machine, left) = fit(rig.scheduler, measured);
    let seconds: f64 = measured.iter().map(|one| one.seconds).sum();
    let told = format!(
        "{} configurations, {seconds:.0} s under load, {} processors",
        measured.len(),
        rig.processors
    );
    TrainedModel::calibrated(told, rig.scheduler, machine, &left)
}

/// How right a model of a file is about measurements.
///
/// # Errors
/// The file has no such model.
pub fn verdict(
    learned: &TrainedModel,
    by: ModelKind,
    measured: &[Measurement],
) -> anyhow::Result<PredictionAccuracy> {
    let model = learned.by(by)?;
    let (mut cases, mut predicted) = (Vec::new(), Vec::new());
    for one in measured {
        let topics = one.topics();
        let all: Vec<&Topic> = topics.iter().collect();
        predicted.clear();
        model.within(one.seconds, &all, &mut predicted);
        let known = one.topics.iter().zip(&predicted);
        cases.extend(known.map(|(topic, predicted)| PredictionCase {
            predicted: *predicted,
            measured: topic.p90_seconds,
            bound: topic.bound_seconds,
        }));
    }
    Ok(judge(&cases))
}

fn tell(learned: &TrainedModel, measured: &[Measurement]) {
    let machine = learned.machine;
    print(&format!("{}:", learned.measured));
    print(&format!("  {:>8.2}  processors for operators", machine.cores));
    print(&format!("  {:>8.3}  longer for each topic beside it", machine.contention));
    print(&format!("  {:>8.2}  measured over predicted (bias)", machine.bias));
    print(&format!("  {:>8.0}  us of a processor for each record", machine.overhead_seconds * 1e6));
    print(&format!("  {:>8.0}  us for each subscriber's copy", machine.copy_seconds * 1e6));
    print(&format!("  {:>8.0}  us that every record takes", machine.latency_seconds * 1e6));
    let [low, high] = learned.spread.inside.map(f64::exp);
    print(&format!(
        "measured p90 is {low:.2} to {high:.2} of the predicted one in eight of ten cases"
    ));
    if let Ok(PredictionAccuracy { near, near_right, .. }) =
        verdict(learned, ModelKind::Physics, measured)
    {
        let right = near_right * 100.0;
        print(&format!(
            "bounds kept or missed as predicted: {right:.1} % of {near} topics near them"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_stopped_at_once_leaves_nothing_running() {
        let stop = AtomicBool::new(true);
        let program = PathBuf::from("/bin/true");
        let scheduler = tidegate_cluster::place::model::Dispatch::Edf;
        let rig = Rig::new(&program, scheduler, 2, &stop);
        assert!(measure(&rig, Duration::from_secs(3600), 1).unwrap().is_empty());
    }

    #[test]
    fn measurements_stand_beside_the_model() {
        assert_eq!(beside(Path::new("a/edge.json")), Path::new("a/edge.jsonl"));
    }
}
