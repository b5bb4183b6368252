//! `lab bench frames-step`: a camera whose channel falls from 40 to 4 Mbit/s and rises again.
//!
//! A camera node, a link and an edge server as processes on an emulated channel, at 15 and at 5 frames a second.
//! *Settled* is how long the fall troubles: from the fall to when the first frame was taken from which on all
//! frames of a second arrive within 100 ms. *Up* is how long the quality takes to return: from the rise to when a
//! frame arrives in time whose rung is at most one below the middle one of the second before the fall.
//!
//! Where the machine itself stood still meanwhile (`net/watch.rs`), a fall or a rise is left out, and the run says how
//! many were and what they were like with them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tidegate::services::cameras::wire::SubscribeRequest;
use tokio::sync::{mpsc, watch};

use super::BOUND_MS;
use super::client::{self, Schedule, Watching, all_ready, now_ns, ns_of, on, sleep_until};
use super::film::{CLIP, Film};
use super::rig::{Rig, camera};
use super::score::{Fate, Score, returned, settled};
use crate::bench::median;
use crate::link::{Change, Options as Way, Profile, Service};
use crate::net::namespace::{Link, Side};
use crate::net::pump;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};
use crate::rig::versions::Program;
use crate::watch::Watch;

/// Bits a second, high and low.
const RATES: (u64, u64) = (40_000_000, 4_000_000);
const DELAY: Duration = Duration::from_millis(5);
/// 50 ms at the high rate, half a second at the low one.
const QUEUE: u64 = 256_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Before the first fall: the node gets to know the channel.
const WARM: u64 = 5;
/// Frames a second, and the targets of settling and of return, milliseconds.
const CASES: [(u64, f64); 2] = [(15, 250.0), (5, 500.0)];
const UP_MS: f64 = 2000.0;
/// A standstill of the machine that makes frames late whatever a node does.
const STILL_NS: u64 = 15_000_000;
/// How long before a fall or a rise, and after it, no standstill may be.
const CALM_NS: (u64, u64) = (SECOND_NS / 2, 2 * SECOND_NS);

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Folder of the clips, above vision/clips; a picture is made where it is absent
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub(crate) data: PathBuf,
    /// How long the channel stays low, and high, in seconds
    #[arg(long, default_value_t = 6)]
    pub(crate) seconds: u64,
    /// How often it falls and rises, at each rate of frames; figures are medians
    #[arg(long, default_value_t = 6)]
    pub(crate) steps: u64,
    /// Accuracy that the subscriber asks for; what fits goes where it cannot be kept
    #[arg(long, default_value_t = 0.9)]
    pub(crate) accuracy: f64,
}

/// What one rate of frames showed.
struct Outcome {
    fates: Vec<Fate>,
    /// When the channel fell, and when it rose.
    steps: Vec<(u64, u64)>,
    end_ns: u64,
    /// From when to when the machine stood still.
    stills: Vec<(u64, u64)>,
}

impl Outcome {
    /// Whether the machine ran all the time around this change.
    fn is_calm(&self, at_ns: u64) -> bool {
        let around = (at_ns - CALM_NS.0, at_ns + CALM_NS.1);
        let is_long = |still: &&(u64, u64)| still.1 - still.0 >= STILL_NS;
        !self.stills.iter().filter(is_long).any(|still| still.0 < around.1 && still.1 > around.0)
    }
}

/// Runs both rates of frames.
///
/// # Errors
/// Links cannot be made here, or a process or client fails.
pub async fn run(options: Options) -> anyhow::Result<Findings> {
    let _awake = Spinners::start()?;
    let scratch = Scratch::new()?;
    let film = Arc::new(Film::load(&options.data, CLIP, scratch.path()));
    let mut lines = vec![format!("frames: {}, {:.0} bytes each (mean)", film.source, film.mean())];
    let progress = Progress::new("frames-step", CASES.len());
    let mut rows = vec![format!(
        "{:<22} {:>6} {:>10} {:>10} {:>6} {:>10} {:>10}",
        "frames/s", "falls", "settled", "worst", "rises", "up", "worst"
    )];
    let mut figures = Vec::new();
    for (per_second, target) in CASES {
        let length = WARM + 2 * options.steps * options.seconds + 1;
        progress.step(&format!("{per_second} frames/s"), Some(Duration::from_secs(length)));
        let outcome = play(&options, per_second, &film).await?;
        report(per_second, target, &outcome, &mut rows, &mut figures)?;
    }
    drop(progress);
    lines.extend(rows);
    let versions = Program::all_with_versions(&[Program::Tidegate]).into_iter().collect();
    Ok(Findings { lines, figures, versions, ..Findings::default() })
}

async fn play(options: &Options, per_second: u64, film: &Arc<Film>) -> anyhow::Result<Outcome> {
    let scratch = Scratch::new()?;
    let way = || Way::new(RATES.0, DELAY, QUEUE);
    let link = Link::emulated([way(), way()], 1)?;
    let rig = Rig::start(&link, &scratch, 1, None).await?;
    let (ready, mut is_ready) = mpsc::channel(1);
    let (stop, until) = watch::channel(false);
    let request = SubscribeRequest {
        camera: camera(0),
        latency_ms: BOUND_MS,
        accuracy: options.accuracy,
        ..SubscribeRequest::default()
    };
    let seat = rig.server_seat()?;
    let watching = Watching { ready, until, kept: None };
    let came = on(&link, Side::Cloud, move || client::watch(seat, request, watching))?;
    all_ready(&mut is_ready, 1).await?;
    let watch = Watch::start();
    let first_ns = now_ns() + SECOND_NS / 2;
    let seconds = WARM + 2 * options.steps * options.seconds;
    let schedule =
        Schedule { first_ns, period_ns: SECOND_NS / per_second, count: seconds * per_second };
    let (seat, film) = (rig.camera_seat(0)?, film.clone());
    let published =
        on(&link, Side::Edge, move || client::publish(seat, camera(0), film, 0, schedule))?;
    let wire = link.wire().context("the link is emulated")?;
    let half = options.seconds * SECOND_NS;
    let mut steps = Vec::new();
    for step in 0..options.steps {
        // Between frames, each time elsewhere.
        let shift = schedule.period_ns * (2 * step + 1) / (2 * options.steps);
        let fall = first_ns + WARM * SECOND_NS + 2 * step * half + shift;
        for (at_ns, rate) in [(fall, RATES.1), (fall + half, RATES.0)] {
            sleep_until(at_ns).await;
            let service = Service::Rate(Profile::constant(rate));
            wire.change(pump::Way::Uplink, Change::Service(service));
        }
        steps.push((fall, fall + half));
    }
    let refused = published.await??;
    anyhow::ensure!(refused == 0, "{refused} frames were refused");
    let end_ns = first_ns + seconds * SECOND_NS;
    sleep_until(end_ns + SECOND_NS).await;
    stop.send_replace(true);
    let fates = Fate::all(schedule.dues(), &came.await??);
    let stills = watch.take().iter().map(|one| (ns_of(one.from), ns_of(one.to))).collect();
    Ok(Outcome { fates, steps, end_ns, stills })
}

fn report(
    per_second: u64,
    target: f64,
    outcome: &Outcome,
    rows: &mut Vec<String>,
    figures: &mut Vec<Figure>,
) -> anyhow::Result<()> {
    let bound = Duration::from_millis(BOUND_MS.into());
    let ladder = tidegate::services::cameras::load_ladder(None, false)?.ladder;
    let ms = |took: Option<Duration>| took.map_or(f64::INFINITY, |took| took.as_secs_f64() * 1e3);
    let Outcome { fates, steps, end_ns, .. } = outcome;
    let falls = steps.iter().map(|&(fall, rise)| (fall, ms(settled(fates, fall, rise, bound))));
    let rises = steps.iter().enumerate().map(|(at, &(fall, rise))| {
        let next = steps.get(at + 1).map_or(*end_ns, |&(fall, _)| fall);
        let until: Vec<Fate> = fates.iter().filter(|one| one.due_ns < next).copied().collect();
        let before = (fall - SECOND_NS, fall);
        (rise, ms(returned(&until, ladder.rungs(), before, rise, bound)))
    });
    let (falls, rises): (Vec<_>, Vec<_>) = (falls.collect(), rises.collect());
    let warm = fates.first().map_or(0, |first| first.due_ns) + SECOND_NS;
    let counted: Vec<Fate> = fates.iter().filter(|one| one.due_ns >= warm).copied().collect();
    let mut score = Score::default();
    score.add(&counted, bound);
    let all = (falls.iter().map(|one| one.1).collect(), rises.iter().map(|one| one.1).collect());
    let calm = |changes: &[(u64, f64)]| -> Vec<f64> {
        let calm = changes.iter().filter(|(at_ns, _)| outcome.is_calm(*at_ns));
        calm.map(|one| one.1).collect()
    };
    let (falls, rises) = (calm(&falls), calm(&rises));
    rows.push(row(&format!("{per_second}"), &falls, &rises));
    let (all_falls, all_rises): (Vec<f64>, Vec<f64>) = all;
    rows.push(row("  disturbed ones too", &all_falls, &all_rises));
    let (fall, rise) = (median(falls.clone()), median(rises.clone()));
    let keeps = |is_kept: bool| if is_kept { "kept" } else { "MISSED" };
    rows.push(format!(
        "  settled within {target:.0} ms: {}; up within {UP_MS:.0} ms: {}; all frames: p95 {:.1} ms, in time {:.3}, accuracy {:.3}",
        keeps(fall <= target),
        keeps(rise <= UP_MS),
        score.quantile(0.95),
        score.in_time(),
        score.accuracy()
    ));
    let name = |what: &str| format!("frames_step_{per_second}fps_{what}");
    figures.extend([
        figure(&name("settled"), fall, "ms"),
        figure(&name("settled_worst"), worst(&falls), "ms"),
        figure(&name("settled_disturbed_too"), median(all_falls), "ms"),
        figure(&name("up"), rise, "ms"),
        figure(&name("p95"), score.quantile(0.95), "ms"),
        figure(&name("in_time"), score.in_time(), "1"),
        figure(&name("accuracy"), score.accuracy(), "1"),
    ]);
    Ok(())
}

fn worst(all: &[f64]) -> f64 {
    all.iter().copied().fold(f64::NAN, f64::max)
}

fn row(name: &str, falls: &[f64], rises: &[f64]) -> String {
    format!(
        "{name:<22} {:>6} {:>7.0} ms {:>7.0} ms {:>6} {:>7.0} ms {:>7.0} ms",
        falls.len(),
        median(falls.to_vec()),
        worst(falls),
        rises.len(),
        median(rises.to_vec()),
        worst(rises)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_beside_a_standstill_are_left_out() {
        let at = |seconds: f64| (seconds * SECOND_NS as f64) as u64;
        let still = |from: f64, ms: u64| (at(from), at(from) + ms * 1_000_000);
        let stills = vec![still(10.0, 15), still(20.0, 14)];
        let outcome = Outcome { fates: Vec::new(), steps: Vec::new(), end_ns: 0, stills };
        let calm = [7.9, 8.1, 10.4, 10.6, 19.0, 20.0].map(|seconds| outcome.is_calm(at(seconds)));
        assert_eq!(calm, [true, false, false, true, true, true]);
    }
}
