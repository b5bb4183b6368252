//! `lab bench frames-step`: a camera whose channel falls from 40 to 4 Mbit/s and rises again.
//!
//! A camera node, a link and an edge server as processes on an emulated channel, at 15 and at 5 frames a second.
//! *Settled* is how long the fall troubles: from the fall to when the first frame was taken from which on all
//! frames of a second arrive within 100 ms. *Up* is how long the quality takes to return: from the rise to when a
//! frame arrives in time whose rung is at most one below the middle one of the second before the fall.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tidegate::frames::wire::SubscribeRequest;
use tokio::sync::{mpsc, watch};

use super::BOUND_MS;
use super::client::{self, Schedule, all_ready, now_ns, on, sleep_until};
use super::film::Film;
use super::rig::{Rig, camera};
use super::score::{Fate, Score, returned, settled};
use crate::bench::{figure, median};
use crate::link::{Change, Options as Way, Profile, Service};
use crate::net::namespace::{Link, Side};
use crate::net::pump;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::Findings;
use crate::rig::versions::Program;

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

/// What to run.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Folder of the clips, above vision/clips; a picture is made where it is absent
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub data: PathBuf,
    /// How long the channel stays low, and high, in seconds
    #[arg(long, default_value_t = 6)]
    pub seconds: u64,
    /// How often it falls and rises, at each rate of frames; figures are medians
    #[arg(long, default_value_t = 3)]
    pub steps: u64,
    /// Accuracy that the subscriber asks for; what fits goes where it cannot be kept
    #[arg(long, default_value_t = 0.9)]
    pub accuracy: f64,
}

/// What one rate of frames showed.
struct Outcome {
    fates: Vec<Fate>,
    /// When the channel fell, and when it rose.
    steps: Vec<(u64, u64)>,
    end_ns: u64,
}

/// Runs both rates of frames.
///
/// # Errors
/// Links cannot be made here, or a process or client fails.
pub async fn run(options: Options) -> anyhow::Result<Findings> {
    let _awake = Spinners::start()?;
    let scratch = Scratch::new()?;
    let film = Arc::new(Film::load(&options.data, scratch.path()));
    let mut lines = vec![format!("frames: {}, {:.0} bytes each (mean)", film.source, film.mean())];
    let progress = Progress::new("frames-step", CASES.len());
    let mut rows = vec![format!(
        "{:<10} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9}",
        "frames/s", "settled", "worst", "up", "worst", "p95", "in time"
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
    lines.extend(figures);
    let versions = Program::all_with_versions(&[Program::Tidegate]).into_iter().collect();
    Ok(Findings { lines, versions, ..Findings::default() })
}

async fn play(options: &Options, per_second: u64, film: &Arc<Film>) -> anyhow::Result<Outcome> {
    let scratch = Scratch::new()?;
    let way = || Way::new(RATES.0, DELAY, QUEUE);
    let link = Link::emulated([way(), way()], 1)?;
    let rig = Rig::start(&link, &scratch, 1).await?;
    let (ready, mut is_ready) = mpsc::channel(1);
    let (stop, until) = watch::channel(false);
    let request = SubscribeRequest {
        camera: camera(0),
        latency_ms: BOUND_MS,
        accuracy: options.accuracy,
        ..SubscribeRequest::default()
    };
    let seat = rig.server_seat()?;
    let came = on(&link, Side::Cloud, move || client::watch(seat, request, ready, until))?;
    all_ready(&mut is_ready, 1).await?;
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
    Ok(Outcome { fates, steps, end_ns })
}

fn report(
    per_second: u64,
    target: f64,
    outcome: &Outcome,
    rows: &mut Vec<String>,
    figures: &mut Vec<String>,
) -> anyhow::Result<()> {
    let bound = Duration::from_millis(BOUND_MS.into());
    let ladder = tidegate::frames::load_ladder(None, false)?.ladder;
    let ms = |took: Option<Duration>| took.map_or(f64::INFINITY, |took| took.as_secs_f64() * 1e3);
    let Outcome { fates, steps, end_ns } = outcome;
    let falls: Vec<f64> =
        steps.iter().map(|&(fall, rise)| ms(settled(fates, fall, rise, bound))).collect();
    let rises = steps.iter().enumerate().map(|(at, &(fall, rise))| {
        let next = steps.get(at + 1).map_or(*end_ns, |&(fall, _)| fall);
        let until: Vec<Fate> = fates.iter().filter(|one| one.due_ns < next).copied().collect();
        ms(returned(&until, ladder.rungs(), (fall - SECOND_NS, fall), rise, bound))
    });
    let rises: Vec<f64> = rises.collect();
    let warm = fates.first().map_or(0, |first| first.due_ns) + SECOND_NS;
    let counted: Vec<Fate> = fates.iter().filter(|one| one.due_ns >= warm).copied().collect();
    let mut score = Score::default();
    score.add(&counted, bound);
    let worst = |all: &[f64]| all.iter().copied().fold(0.0, f64::max);
    let (fall, rise) = (median(falls.clone()), median(rises.clone()));
    rows.push(format!(
        "{per_second:<10} {fall:>7.0} ms {:>7.0} ms {rise:>7.0} ms {:>7.0} ms {:>6.1} ms {:>9.3}",
        worst(&falls),
        worst(&rises),
        score.quantile(0.95),
        score.in_time()
    ));
    let keeps = |is_kept: bool| if is_kept { "kept" } else { "MISSED" };
    rows.push(format!(
        "           settled within {target:.0} ms: {}; up within {UP_MS:.0} ms: {}; accuracy {:.3}",
        keeps(fall <= target),
        keeps(rise <= UP_MS),
        score.accuracy()
    ));
    let name = |what: &str| format!("frames_step_{per_second}fps_{what}");
    figures.extend([
        figure(&name("settled"), fall, "ms"),
        figure(&name("settled_worst"), worst(&falls), "ms"),
        figure(&name("up"), rise, "ms"),
        figure(&name("p95"), score.quantile(0.95), "ms"),
        figure(&name("in_time"), score.in_time(), "1"),
        figure(&name("accuracy"), score.accuracy(), "1"),
    ]);
    Ok(())
}
