//! `lab bench frames-ladder`: bytes at equal accuracy of our ladder and of the paper's five knobs on PNG, on the same
//! frames with the same detectors; and what making a rung of a 1080p frame costs.
//!
//! Ours is measured by `tidegate calibrate frames`, theirs by `lab/papers/detect/paper.py`, both into one folder. Gray is on
//! neither side.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use serde::Deserialize;
use tidegate::cli::calibrate::costs;
use tidegate::cli::calibrate::detector::open;
use tidegate::services::cameras::{Shrunk, Written, shrink};
use tidegate_frames::Rung;
use tidegate_frames::jpeg::JpegHeader;
use tidegate_frames::knobs::Knobs;

use crate::bench::median;
use crate::report::{Findings, figure};
use crate::rig;

/// Accuracies at which bytes are compared.
const ACCURACIES: [f64; 3] = [0.95, 0.97, 0.99];
/// Our bytes over the paper's: the promise.
const RATIO_MAX: f64 = 0.28;
/// Processor time of any rung of a 1080p frame, and of one at half scale or below, milliseconds: the promise.
const COST_MAX: (f64, f64) = (9.1, 6.0);
/// Times that each rung is made; the median counts.
const TIMES: usize = 15;
/// In `vision` of the data.
const DETECTORS: [&str; 2] = ["coco_rep/yolox_nano.onnx", "FastestDet.onnx"];
/// Parts of the width that detectors look at.
const EIGHTHS: [u8; 5] = [8, 6, 4, 3, 2];
const SCRIPT: &str = "lab/papers/detect/paper.py";

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Folder whose `vision` has frames and detectors
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub(crate) data: PathBuf,
    /// Python with the package's `onnx` extra (scripts/python.sh installs one)
    #[arg(long, value_name = "PROGRAM", default_value = "target/python/bin/python")]
    pub(crate) python: PathBuf,
    /// Where frames and measurements are; the paper's side is measured once, for it takes minutes
    #[arg(long, value_name = "FOLDER", default_value = "target/frames-ladder")]
    pub(crate) folder: PathBuf,
    /// Only what rungs cost
    #[arg(long)]
    pub(crate) only_cost: bool,
}

/// What the paper's knobs came to.
#[derive(Debug, Deserialize)]
struct Theirs {
    frames: u64,
    boxes: u64,
    source_bytes: f64,
    settings: Vec<Setting>,
}

/// One combination of knobs.
#[derive(Debug, Deserialize)]
struct Setting {
    setting: serde_json::Value,
    bytes: f64,
    accuracy: f64,
}

/// Runs it and returns what was found.
pub fn run(options: &Options) -> anyhow::Result<Findings> {
    let vision = options.data.join("vision");
    for (needed, cure) in
        [(&vision, "frames and detectors"), (&options.python, "scripts/python.sh")]
    {
        if !needed.exists() {
            let line = format!("skipped: needs {} ({cure}), not found", needed.display());
            return Ok(vec![line].into());
        }
    }
    let frames = options.folder.join("frames");
    if !frames.exists() {
        let mut python = Command::new(&options.python);
        succeed(python.args([SCRIPT, "frames"]).arg(&options.data).arg(&frames))?;
    }
    let mut found = Findings::default();
    if !options.only_cost {
        for detector in DETECTORS {
            compare(options, &vision.join(detector), &frames, &mut found)?;
        }
    }
    let large = options.folder.join("1080p.jpg");
    cost(&large, &mut found)?;
    for detector in DETECTORS {
        looking(options, &vision.join(detector), &large, &mut found)?;
    }
    Ok(found)
}

fn compare(
    options: &Options,
    detector: &Path,
    frames: &Path,
    found: &mut Findings,
) -> anyhow::Result<()> {
    let name = detector.file_stem().unwrap_or_default().display().to_string();
    let file = |side: &str| options.folder.join(format!("{side}-{name}.json"));
    if !file("paper").exists() {
        let mut python = Command::new(&options.python);
        let python = python.args([SCRIPT, "measure"]).args([frames, detector]);
        succeed(python.arg(file("paper")))?;
    }
    let mut ours = Command::new(rig::tidegate_program()?);
    ours.args(["calibrate", "frames", "--frames", "10000", "--detector"]).arg(detector);
    ours.arg("--python").arg(&options.python).arg("--out").arg(file("ours")).arg(frames);
    succeed(ours.env("PYTHONPATH", "python/src"))?;
    let ours: Written = read(&file("ours"))?;
    let theirs: Theirs = read(&file("paper"))?;
    let Theirs { frames, boxes, source_bytes, .. } = theirs;
    found.lines.push(format!(
        "{name}: {frames} frames with {boxes} boxes, JPEGs of {:.1} kB in the mean",
        source_bytes / 1e3
    ));
    for accuracy in ACCURACIES {
        let rungs = ours.rungs.iter().filter(|rung| rung.accuracy >= accuracy);
        // Above the ladder a frame goes as it is.
        let mine = rungs.map(|rung| rung.bytes).fold(source_bytes, f64::min);
        let knobs = theirs.settings.iter().filter(|setting| setting.accuracy >= accuracy);
        let best =
            knobs.min_by(|a, b| a.bytes.total_cmp(&b.bytes)).context("PNG itself is exact")?;
        let ratio = mine / best.bytes;
        let verdict = if ratio <= RATIO_MAX { "kept" } else { "MISSED" };
        found.lines.push(format!(
            "  accuracy {accuracy}: ours {:.1} kB, the paper's {:.1} kB ({}), {ratio:.3} of it (target {RATIO_MAX}): {verdict}",
            mine / 1e3,
            best.bytes / 1e3,
            best.setting
        ));
        let percent = (accuracy * 100.0).round();
        found.figures.push(figure(&format!("frames_ladder_{name}_{percent}_ratio"), ratio, "1"));
        if ratio > RATIO_MAX {
            found.broken.push(format!(
                "{name}, accuracy {accuracy}: {ratio:.3} of the paper's bytes, {RATIO_MAX} promised"
            ));
        }
    }
    Ok(())
}

/// What each rung of a large frame costs.
fn cost(file: &Path, found: &mut Findings) -> anyhow::Result<()> {
    let jpeg = std::fs::read(file).with_context(|| file.display().to_string())?;
    let costs = costs(&jpeg, TIMES)?;
    found.lines.push(format!("1080p, {:.0} kB, ms of one processor:", jpeg.len() as f64 / 1e3));
    let mut most = (0.0_f64, 0.0_f64);
    for (rung, time) in &costs {
        let ms = time.as_secs_f64() * 1e3;
        most.0 = most.0.max(ms);
        if rung.eighths <= 4 {
            most.1 = most.1.max(ms);
        }
        found.lines.push(format!("  {}/8 quality {:>2}: {ms:.2}", rung.eighths, rung.quality));
    }
    for (what, ms, target) in
        [("any rung", most.0, COST_MAX.0), ("half scale and below", most.1, COST_MAX.1)]
    {
        let verdict = if ms <= target { "kept" } else { "MISSED" };
        found.lines.push(format!("  {what}: at most {ms:.2} ms (target {target}): {verdict}"));
        if ms > target {
            found
                .broken
                .push(format!("{what} of a 1080p frame takes {ms:.2} ms, {target} promised"));
        }
    }
    found.lines.push("  what is small enough goes as it is: 0 ms".into());
    found.figures.push(figure("frames_ladder_cost_any", most.0, "ms"));
    found.figures.push(figure("frames_ladder_cost_half", most.1, "ms"));
    Ok(())
}

/// How long a detector takes for a frame of each width, its decoding with it: the paper's Fig. 17.
fn looking(
    options: &Options,
    model: &Path,
    file: &Path,
    found: &mut Findings,
) -> anyhow::Result<()> {
    let mut python = Command::new(&options.python);
    python.env("PYTHONPATH", "python/src");
    let mut detector = open(model.to_str().context("a detector's path")?, python, false)?;
    let jpeg = std::fs::read(file).with_context(|| file.display().to_string())?;
    let head = JpegHeader::read(&jpeg)?;
    found.lines.push(format!("{}, ms for a frame with its decoding:", detector.name()));
    for eighths in EIGHTHS {
        let (cost, quality, is_gray) = (Duration::ZERO, 75, false);
        let rung = Rung {
            eighths,
            quality,
            is_gray,
            knobs: Knobs::default(),
            bytes: 1.0,
            accuracy: 0.0,
            accuracy_low: 0.0,
            cost,
        };
        let shrunk = shrink(&jpeg, &head, &rung)?;
        let mut took = Vec::with_capacity(TIMES);
        for _ in 0..TIMES {
            let begun = Instant::now();
            detector.find("", &shrunk.jpeg)?;
            took.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let ms = median(took);
        let Shrunk { width, height, .. } = shrunk;
        found.lines.push(format!("  {width} x {height}: {ms:.1}"));
        let name = model.file_stem().unwrap_or_default().display();
        found.figures.push(figure(&format!("frames_ladder_{name}_{width}_wide"), ms, "ms"));
    }
    Ok(())
}

fn succeed(command: &mut Command) -> anyhow::Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(file: &Path) -> anyhow::Result<T> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    serde_json::from_str(&text).with_context(|| file.display().to_string())
}
