//! `tidegate calibrate`: what a camera's frames cost and what is still found on them, what a channel takes for them
//! (docs/CAMERAS.md), and how long a broker's records take.
//!
//! The encoding is that of a node. The detector is a program of its own (docs/decisions/0066).

mod arguments;
pub mod broker;
mod channel;
pub mod detector;
mod gains;
mod pictures;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, ensure};
use tidegate_frames::calibrate::{Agreement, MeasuredRung, Sample, front, measure};
use tidegate_frames::jpeg::JpegHeader;
use tidegate_frames::knobs::{Artifacts, Knobs};
use tidegate_frames::{RUNGS_MAX, Rung};

pub use self::arguments::{
    BrokerArguments, CALIBRATE_HELP, CalibrateCommand, ChannelArguments, FramesArguments,
    GainsArguments,
};
use self::detector::{Detector, open};
use crate::script::vm::thread_time;
use crate::services::cameras::{
    Shrunk, Written, WrittenArtifacts, WrittenRung, shrink, shrink_after,
};

/// Widths and heights that are tried, eighths.
const SCALES: [u8; 5] = [8, 6, 4, 3, 2];
/// Qualities that are tried at each.
const QUALITIES: [u8; 7] = [85, 75, 60, 45, 30, 20, 12];
/// Of the draws for intervals.
const SEED: u64 = 1;

/// Does what the command line asks for.
///
/// # Errors
/// The pictures, the detector or the file cannot be used.
pub fn calibrate(command: &CalibrateCommand) -> anyhow::Result<ExitCode> {
    match command {
        CalibrateCommand::Frames(arguments) => frames(arguments),
        CalibrateCommand::Channel(arguments) => {
            channel::channel(arguments)?;
            Ok(ExitCode::SUCCESS)
        }
        CalibrateCommand::Gains(arguments) => {
            gains::gains(arguments)?;
            Ok(ExitCode::SUCCESS)
        }
        CalibrateCommand::Broker(arguments) => broker::broker(arguments),
    }
}

/// A way to encode frames.
type Way = (u8, u8, bool, Knobs);

/// The quality beside the paper's knobs: it has none.
const QUALITY_OF_KNOBS: u8 = 75;
/// Its boxes.
const BLURS: [u8; 4] = [5, 8, 10, 15];

/// Each size with each blur, with each artifact removal, and without colour, as far as a JPEG has any of it.
fn ways_of_paper() -> Vec<Way> {
    let blurs = BLURS.map(|blur| Knobs { blur, ..Knobs::default() });
    let removals = [Artifacts::Background, Artifacts::Contours];
    let removals = removals.map(|artifacts| Knobs { artifacts, ..Knobs::default() });
    let knobs = [&[Knobs::default()][..], &blurs, &removals].concat();
    let each = |eighths| {
        let coloured = knobs.iter().map(move |knobs| (eighths, QUALITY_OF_KNOBS, false, *knobs));
        coloured.chain([(eighths, QUALITY_OF_KNOBS, true, Knobs::default())])
    };
    SCALES.into_iter().flat_map(each).collect()
}

fn ways(gray: bool) -> Vec<Way> {
    let colours: &[bool] = if gray { &[false, true] } else { &[false] };
    let mut all = Vec::new();
    for &is_gray in colours {
        for eighths in SCALES {
            all.extend(QUALITIES.map(|quality| (eighths, quality, is_gray, Knobs::default())));
        }
    }
    all
}

/// Its name among exported images.
fn name((eighths, quality, is_gray, knobs): Way) -> String {
    let gray = if is_gray { "-gray" } else { "" };
    let blur = if knobs.blur > 0 { format!("-blur{}", knobs.blur) } else { String::new() };
    let artifacts = match knobs.artifacts {
        Artifacts::Keep => String::new(),
        other => format!("-{}", other.name()),
    };
    format!("{eighths}-{quality}{gray}{blur}{artifacts}")
}

fn rung((eighths, quality, is_gray, knobs): Way) -> Rung {
    let cost = Duration::ZERO;
    Rung { eighths, quality, is_gray, knobs, bytes: 1.0, accuracy: 0.0, accuracy_low: 0.0, cost }
}

fn frames(arguments: &FramesArguments) -> anyhow::Result<ExitCode> {
    let is_measured = arguments.detector != "none";
    ensure!(
        is_measured || arguments.export.is_some(),
        "--detector none measures nothing: give --export FOLDER, or a detector"
    );
    // Who it is comes first: a detector that cannot start should not be found out after a minute of video.
    let mut detector = match is_measured {
        true => {
            Some(open(&arguments.detector, Command::new(&arguments.python), arguments.by_label)?)
        }
        false => None,
    };
    let pictures = pictures::read(&arguments.pictures, arguments.frames as usize)?;
    let mut table = match arguments.mez {
        true => Table::new(ways_of_paper()),
        false => Table::new(ways(arguments.gray)),
    };
    for (at, jpeg) in pictures.iter().enumerate() {
        let within = || format!("picture {} of {}", at + 1, arguments.pictures.display());
        let before = at.checked_sub(1).and_then(|before| pictures.get(before)).map(|one| &one[..]);
        let frame = (before, &jpeg[..]);
        table
            .add(at, frame, detector.as_mut(), arguments.export.as_deref())
            .with_context(within)?;
        let boxes = table.boxes;
        say(&format!("{} of {} pictures, {boxes} boxes", at + 1, pictures.len()), false);
    }
    say("", true);
    let Some(detector) = detector else {
        let folder = arguments.export.as_deref().unwrap_or(Path::new("."));
        print(&format!("{} pictures are in {}", pictures.len(), folder.display()));
        return Ok(ExitCode::SUCCESS);
    };
    ensure!(
        table.boxes > 0,
        "the detector found nothing on any of {} pictures: nothing can be measured with them",
        pictures.len()
    );
    let written = table.written(arguments, &*detector);
    let text = written.text()?;
    match &arguments.out {
        Some(file) => std::fs::write(file, text).with_context(|| file.display().to_string())?,
        None => io::stdout().write_all(text.as_bytes())?,
    }
    tell(&written, arguments.out.as_deref());
    Ok(ExitCode::SUCCESS)
}

/// Processor time of making each rung of a picture, without gray ones: the median of so many times.
///
/// # Errors
/// It is no picture.
///
/// # Panics
/// `times` is 0.
pub fn costs(jpeg: &[u8], times: usize) -> anyhow::Result<Vec<(Rung, Duration)>> {
    assert!(times > 0, "a cost is measured");
    let head = JpegHeader::read(jpeg)?;
    let mut costs = Vec::new();
    for rung in ways(false).into_iter().map(rung) {
        let mut taken = Vec::with_capacity(times);
        for _ in 0..times {
            let before = thread_time();
            shrink(jpeg, &head, &rung)?;
            taken.push(Duration::from_nanos(thread_time() - before));
        }
        taken.sort();
        costs.push((rung, taken[times / 2]));
    }
    Ok(costs)
}

/// Samples of each way.
struct Table {
    samples: BTreeMap<Way, Vec<Sample>>,
    ways: Vec<Way>,
    /// Pictures with a box, and boxes on them.
    frames: u64,
    boxes: u64,
}

impl Table {
    fn new(ways: Vec<Way>) -> Self {
        Table { samples: BTreeMap::new(), ways, frames: 0, boxes: 0 }
    }

    fn add(
        &mut self,
        at: usize,
        (before_it, jpeg): (Option<&[u8]>, &[u8]),
        mut detector: Option<&mut Box<dyn Detector>>,
        export: Option<&Path>,
    ) -> anyhow::Result<()> {
        let head = JpegHeader::read(jpeg)?;
        let keep = |name: &str, jpeg: &[u8]| keep(export, at, name, jpeg);
        keep("source", jpeg)?;
        let truth = match &mut detector {
            Some(detector) => detector.find(&image(at, "source"), jpeg)?,
            None => Vec::new(),
        };
        if detector.is_some() && truth.is_empty() {
            return Ok(());
        }
        for &way in &self.ways {
            let before = thread_time();
            let made = shrink_after(before_it, jpeg, &head, &rung(way))?;
            let Shrunk { jpeg, width, height } = made;
            let cost = Duration::from_nanos(thread_time() - before);
            keep(&name(way), &jpeg)?;
            let Some(detector) = &mut detector else { continue };
            let (wide, high) = (
                f64::from(head.width) / f64::from(width),
                f64::from(head.height) / f64::from(height),
            );
            let found = detector.find(&image(at, &name(way)), &jpeg)?;
            let found: Vec<_> = found.into_iter().map(|found| found.scaled(wide, high)).collect();
            let agreement = Agreement::of(&truth, &found);
            let sample = Sample { agreement, bytes: jpeg.len() as u64, cost };
            self.samples.entry(way).or_default().push(sample);
        }
        self.frames += 1;
        self.boxes += truth.len() as u64;
        Ok(())
    }

    fn written(&self, arguments: &FramesArguments, detector: &dyn Detector) -> Written {
        let all = self.samples.iter().map(|(&way, samples)| measure(&rung(way), samples, SEED));
        let mut rungs = front(all.collect());
        // The smallest ones are of the least use.
        rungs.drain(..rungs.len().saturating_sub(RUNGS_MAX));
        let measured = format!(
            "{} frames with {} boxes of {}; {}, IoU 0.5",
            self.frames,
            self.boxes,
            arguments.pictures.file_name().unwrap_or_default().display(),
            detector.name(),
        );
        let mut written = Written::new(measured, rungs.iter().map(WrittenRung::from).collect());
        written.detector = Some(detector.hash());
        written
    }
}

fn image(at: usize, name: &str) -> String {
    format!("{at:04}/{name}")
}

fn keep(export: Option<&Path>, at: usize, name: &str, jpeg: &[u8]) -> anyhow::Result<()> {
    let Some(folder) = export else { return Ok(()) };
    let file = folder.join(format!("{}.jpg", image(at, name)));
    let parent = file.parent().unwrap_or(folder);
    std::fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
    std::fs::write(&file, jpeg).with_context(|| file.display().to_string())
}

impl From<&MeasuredRung> for WrittenRung {
    fn from(measured: &MeasuredRung) -> Self {
        let rung = measured.rung;
        let short = |accuracy: f64| (accuracy * 1e4).round() / 1e4;
        WrittenRung {
            eighths: rung.eighths,
            quality: rung.quality,
            gray: rung.is_gray,
            blur: rung.knobs.blur,
            artifacts: match rung.knobs.artifacts {
                Artifacts::Keep => None,
                Artifacts::Background => Some(WrittenArtifacts::Background),
                Artifacts::Contours => Some(WrittenArtifacts::Contours),
            },
            bytes: rung.bytes.round(),
            accuracy: short(rung.accuracy),
            accuracy_low: short(rung.accuracy_low),
            cost_us: u64::try_from(rung.cost.as_micros()).unwrap_or(u64::MAX),
            accuracy_high: Some(short(measured.accuracy_high)),
            bytes_quantiles: Some(measured.bytes_quantiles.map(f64::round)),
        }
    }
}

/// A table for people, on standard error: the ladder may go to standard output.
fn tell(written: &Written, out: Option<&Path>) {
    print("scale  quality      kB   (10 - 90 %)  accuracy  (95 %)          ms");
    for rung in &written.rungs {
        let [low, _, high] = rung.bytes_quantiles.unwrap_or([rung.bytes; 3]);
        print(&format!(
            " {}/8   {:>4}{:<5} {:>7.1}  {:>5.1} - {:<6.1} {:.3}   ({:.3} - {:.3})  {:>5.1}{}",
            rung.eighths,
            rung.quality,
            if rung.gray { " gray" } else { "" },
            rung.bytes / 1e3,
            low / 1e3,
            high / 1e3,
            rung.accuracy,
            rung.accuracy_low,
            rung.accuracy_high.unwrap_or(rung.accuracy),
            rung.cost_us as f64 / 1e3,
            knobs_of(rung),
        ));
    }
    print(&written.measured);
    if let Some(file) = out {
        print(&format!("[[camera]] ladder = \"{}\"", file.display()));
    }
}

/// The paper's knobs of a rung, as a table has them at its end.
fn knobs_of(rung: &WrittenRung) -> String {
    let blur = if rung.blur > 0 { format!("  blur {}", rung.blur) } else { String::new() };
    let artifacts = rung.artifacts.map(|one| format!("  {}", Artifacts::from(one).name()));
    blur + &artifacts.unwrap_or_default()
}

/// How far it is, in one line that is written over where people look on.
fn say(line: &str, is_last: bool) {
    let mut out = io::stderr();
    if io::IsTerminal::is_terminal(&out) {
        let end = if is_last { "\r" } else { "" };
        // Nobody who cannot hear has to be told.
        let _ = write!(out, "\r\x1b[K{line}{end}").and_then(|()| out.flush());
    }
}

fn print(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_a_name_of_its_own() {
        let mut names: Vec<String> = ways(true).into_iter().map(name).collect();
        assert_eq!((names.len(), &*names[1], &*names[35]), (70, "8-75", "8-85-gray"));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 70);
        let mut names: Vec<String> = ways_of_paper().into_iter().map(name).collect();
        assert_eq!((names.len(), &*names[5], &*names[6]), (40, "8-75-background", "8-75-contours"));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 40);
    }

    /// What a detector elsewhere would have found on what was exported: two things, one of them lost below
    /// quality 45.
    fn answers(folder: &Path) -> String {
        let mut lines = String::new();
        for at in 0..2 {
            let names = ways(false).into_iter().map(|way| (name(way), way.0, way.1));
            for (name, eighths, quality) in names.chain([("source".into(), 8, 100)]) {
                let part = f64::from(eighths) / 8.0;
                let image = format!("{at:04}/{name}");
                assert!(folder.join(format!("{image}.jpg")).exists(), "{image}");
                let mut boxes = vec![[8.0, 8.0, 16.0, 16.0].map(|side| side * part)];
                if quality >= 45 {
                    boxes.push([40.0, 8.0, 16.0, 16.0].map(|side| side * part));
                }
                lines += &serde_json::json!({"image": image, "boxes": boxes}).to_string();
                lines.push('\n');
            }
        }
        lines
    }

    #[test]
    fn a_ladder_is_measured_with_a_detector_elsewhere() {
        let folder =
            std::env::temp_dir().join(format!("tidegate-calibrate-{}", std::process::id()));
        let of = |name: &str| folder.join(name);
        std::fs::create_dir_all(of("shots")).unwrap();
        for at in 0..2 {
            let jpeg = crate::services::cameras::test_picture(64 + 16 * at, 48, 95);
            std::fs::write(of("shots").join(format!("{at}.jpg")), jpeg).unwrap();
        }
        let mut arguments = FramesArguments {
            pictures: of("shots"),
            detector: "none".into(),
            out: None,
            frames: 10,
            mez: false,
            gray: false,
            by_label: false,
            export: Some(of("all")),
            python: "python3".into(),
        };
        frames(&arguments).unwrap();
        std::fs::write(of("found.jsonl"), answers(&of("all"))).unwrap();
        arguments.detector = format!("labels:{}", of("found.jsonl").display());
        (arguments.out, arguments.export) = (Some(of("ladder.json")), None);
        frames(&arguments).unwrap();
        let ladder =
            crate::services::cameras::load_ladder(arguments.out.as_deref(), false).unwrap();
        let rungs = ladder.ladder.rungs();
        assert!(!ladder.is_generic && rungs.len() == 2, "{rungs:?}");
        assert!((rungs[0].accuracy - 2.0 / 3.0).abs() < 1e-3 && rungs[0].eighths == 2);
        assert!((rungs[1].accuracy - 1.0).abs() < 1e-12 && rungs[1].quality == 45);
        std::fs::write(of("found.jsonl"), "").unwrap();
        let error = format!("{:#}", frames(&arguments).unwrap_err());
        assert!(error.contains("has no line for image \"0000/source\""), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
