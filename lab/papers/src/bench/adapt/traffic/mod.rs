//! `lab bench adapt-traffic`: BumbleBee's first case, detection of vehicles: a strong detector in the cloud, a weak
//! one at the edge, and the HTTP sidecar with the stock scripts between camera and uplink.
//!
//! Real: proxy, sockets, an emulated uplink, the frames of a road clip as JPEG. Replayed: what detectors find, computed
//! once by `scripts/detections.sh`; they answer at once, so latency is that of network and queues.

mod clip;
mod road;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use self::clip::Clip;
use self::road::{DELAY, Detector, Frame, Run, play};
use super::Verdict;
use crate::bench::median;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::Findings;
use crate::rig::versions::Program;

const FALLBACK: &str = include_str!("../../../../../../tidegate/lua/fallback.luau");
const DOWNSAMPLE: &str = include_str!("../../../../../../tidegate/lua/downsample.luau");
/// Part of the clip's own rate that the slow uplink carries.
const PART: f64 = 0.6;
/// The fast one, as a multiple.
const PLENTY: f64 = 4.0;
/// TCP's shortest time-out, beside a round trip (Linux).
const TIME_OUT: f64 = 0.2;
/// From that time-out until frames that wait are redirected: the promise.
const REDIRECT_MAX: f64 = 0.15;
/// When the queue of one who sends everything has grown, in seconds.
const GROWN: f64 = 10.0;
/// Latency beside that of sending everything at full resolution: the promise.
const LATENCY_MAX: f64 = 0.5;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Frames and detections (scripts/detections.sh makes them); adapt/traffic in cargo's target folder otherwise
    #[arg(long, value_name = "FOLDER")]
    pub(crate) clip: Option<PathBuf>,
    /// How long frames are sent over the slow uplink, in seconds: three times the clip
    #[arg(long, default_value_t = 90.0)]
    pub(crate) seconds: f64,
}

/// Runs it and returns what was found.
pub async fn run(options: Options) -> anyhow::Result<Findings> {
    let folder = options.clip.unwrap_or_else(|| super::target_folder().join("traffic"));
    let Some(clip) = Clip::read(&folder)? else {
        let line = format!(
            "skipped: needs {} (scripts/detections.sh computes the detections once), not found",
            folder.display()
        );
        return Ok(vec![line].into());
    };
    let clip = Arc::new(clip);
    let _awake = Spinners::start()?;
    let mut verdict = Verdict::new("adapt_traffic");
    verdict.say(format!(
        "{} frames at {}/s, {:.2} Mbit/s at full resolution; uplink with {} ms one way",
        clip.len(),
        clip.frames_per_second,
        clip.rate() / 1e6,
        DELAY.as_millis()
    ));
    let progress = Progress::new("adapt-traffic", 4);
    progress.step("disconnections", None);
    disconnections(&clip, &mut verdict).await?;
    let mut slow = Vec::new();
    for name in ["full", "half", "adapted"] {
        progress.step(name, None);
        let frames = play(&clip, &slow_run(&clip, name, options.seconds)).await?;
        slow.push(outcome(name, &clip, &frames, &mut verdict));
    }
    compare(&slow, &mut verdict);
    Ok(verdict.findings(&[Program::Tidegate]))
}

/// Two disconnections: who gets the frames, and when.
async fn disconnections(clip: &Arc<Clip>, verdict: &mut Verdict) -> anyhow::Result<()> {
    let frames = |seconds: f64| (seconds * clip.frames_per_second) as usize;
    let run = Run {
        rate: (clip.rate() * PLENTY) as u64,
        script: Some(("fallback", FALLBACK)),
        keys: String::new(),
        in_flight: 1,
        sends_half: false,
        seconds: 40.0,
        cuts: vec![(frames(8.0), frames(14.0)), (frames(24.0), frames(30.0))],
    };
    let all = play(clip, &run).await?;
    verdict.say("two disconnections of 6 s, fallback.luau:".into());
    audit("disconnections", &all, verdict);
    let mut worst = f64::NEG_INFINITY;
    for (from, until) in &run.cuts {
        let first = all[*from].due;
        let timed_out = first + TIME_OUT + 2.0 * DELAY.as_secs_f64();
        let weak = |frame: &&Frame| frame.seen.iter().any(|seen| seen.1 == Detector::Weak);
        let cut = &all[*from..*until];
        let arrived = |frame: &Frame| frame.seen.first().map_or(f64::INFINITY, |seen| seen.0);
        let Some(found) = cut.iter().filter(weak).map(arrived).min_by(f64::total_cmp) else {
            verdict.breaks("nothing was redirected in a disconnection".into());
            continue;
        };
        // What waited then: due by that time, and not in the kernel's hands already.
        let waiting = cut.iter().filter(weak).filter(|frame| frame.due <= found);
        let last = waiting.map(arrived).fold(found, f64::max);
        let stuck = cut.iter().filter(|frame| !weak(frame)).count();
        let returned = all[*until..].iter().find(|frame| !weak(frame));
        let after = (last - timed_out) * 1e3;
        worst = worst.max(after);
        verdict.say(format!(
            "  first byte without an answer at {first:.2} s: redirected {:.0} ms later, {after:.0} ms after its \
             time-out; {stuck} frame in the kernel's hands until the link returned; the cloud again {:.2} s after that",
            (last - first) * 1e3,
            returned.map_or(f64::NAN, |frame| frame.due - all[*until].due),
        ));
    }
    verdict.at_most("redirected_after_time_out", worst, REDIRECT_MAX * 1e3, "ms");
    let found: u64 = all.iter().map(|frame| frame.found(clip)).sum();
    let possible: u64 =
        all.iter().map(|frame| clip.seen.strong_full[frame.number % clip.len()]).sum();
    verdict.figure("disconnected_detections", found as f64 / possible as f64, "1");
    Ok(())
}

fn slow_run(clip: &Clip, name: &str, seconds: f64) -> Run {
    let is_adapted = name == "adapted";
    Run {
        rate: (clip.rate() * PART) as u64,
        script: is_adapted.then_some(("downsample", DOWNSAMPLE)),
        keys: "parameters = { queued = 0.3, to = \"half\" }\ntransform = { half = \"SMALL\" }\n"
            .into(),
        in_flight: 3,
        sends_half: name == "half",
        seconds,
        cuts: Vec::new(),
    }
}

/// Every frame is answered, and came to one detector once.
fn audit(name: &str, frames: &[Frame], verdict: &mut Verdict) {
    let unanswered: Vec<&Frame> = frames.iter().filter(|frame| frame.status != "200").collect();
    let lost = frames.iter().filter(|frame| frame.seen.is_empty()).count();
    let twice = frames.iter().filter(|frame| frame.seen.len() > 1).count();
    if let Some(first) = unanswered.first() {
        let count = unanswered.len();
        let (number, status) = (first.number, &first.status);
        verdict.breaks(format!("{name}: {count} frames not answered; frame {number}: {status}"));
    }
    verdict.at_most(&format!("{name}_lost"), lost as f64, 0.0, "frames");
    verdict.figure(&format!("{name}_twice"), twice as f64, "frames");
}

/// What a run over the slow uplink came to.
struct Outcome {
    /// Seconds, of frames that were due when the queue had grown.
    median: f64,
    found: u64,
}

fn outcome(name: &str, clip: &Clip, frames: &[Frame], verdict: &mut Verdict) -> Outcome {
    audit(name, frames, verdict);
    let took = |frame: &Frame| frame.answered.map_or(f64::INFINITY, |at| at - frame.due);
    let grown = frames.iter().filter(|frame| frame.due >= GROWN).map(took).collect();
    let median = median(grown);
    let found = frames.iter().map(|frame| frame.found(clip)).sum();
    let small = frames.iter().filter(|frame| frame.seen.first().is_some_and(|seen| seen.2)).count();
    verdict.say(format!(
        "  {name:<10} median {median:>7.3} s after {GROWN} s, {found} vehicles in {} frames, {small} of them at half",
        frames.len()
    ));
    verdict.figure(&format!("{name}_p50"), median * 1e3, "ms");
    verdict.figure(&format!("{name}_detections"), found as f64, "vehicles");
    verdict.figure(&format!("{name}_at_half"), small as f64, "frames");
    Outcome { median, found }
}

fn compare(slow: &[Outcome], verdict: &mut Verdict) {
    let [full, half, adapted] = slow else { return };
    verdict.at_most("latency_of_full", adapted.median / full.median, LATENCY_MAX, "1");
    verdict.above("detections_of_half", adapted.found as f64 / half.found as f64, 1.0, "1");
}
