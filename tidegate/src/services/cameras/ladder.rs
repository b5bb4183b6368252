//! Ladders as files: JSON, read at the start of a node (docs/CAMERAS.md).

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use tidegate_frames::knobs::{Artifacts, Knobs};
use tidegate_frames::{Ladder, Rung};

use crate::support::files;

/// The version that is written; others are refused.
const VERSION: u32 = 1;
/// Larger files are no ladders.
const FILE_MAX: u64 = 1 << 20;
/// For cameras that nobody has calibrated.
const GENERIC: &str = include_str!("generic.json");
/// The Mez paper's knobs.
const MEZ: (&str, &str) = ("mez", include_str!("mez.json"));

/// A ladder, and where it comes from.
#[derive(Clone, Debug)]
pub struct LadderFile {
    /// The rungs.
    pub ladder: Ladder,
    /// Whether it was measured with other pictures than the camera's.
    pub is_generic: bool,
}

impl LadderFile {
    /// Whether one of its rungs needs the frame before.
    pub(super) fn looks_back(&self) -> bool {
        self.ladder.rungs().iter().any(|rung| rung.knobs.artifacts != Artifacts::Keep)
    }
}

/// The file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Of the format.
    pub version: u32,
    /// Whether it is meant for any camera.
    #[serde(default)]
    pub is_generic: bool,
    /// With which frames and which detector it was measured, in words.
    #[serde(default)]
    pub measured: String,
    /// Of the detector that it was measured with: `sha256:HEX` of its model, program or answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detector: Option<String>,
    /// In any order.
    pub rungs: Vec<WrittenRung>,
}

/// A rung in a file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenRung {
    /// Width and height, in eighths.
    pub eighths: u8,
    /// Of the JPEG, 1 to 100.
    pub quality: u8,
    /// Without chroma.
    #[serde(default)]
    pub gray: bool,
    /// Side of a box that is averaged, pixels of the source.
    #[serde(default, skip_serializing_if = "is_none")]
    pub blur: u8,
    /// What is taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<WrittenArtifacts>,
    /// Mean of a frame.
    pub bytes: f64,
    /// 0 to 1.
    pub accuracy: f64,
    /// Lower end of its 95 % interval.
    pub accuracy_low: f64,
    /// Processor time, microseconds.
    #[serde(default)]
    pub cost_us: u64,
    /// Upper end of the accuracy's 95 % interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_high: Option<f64>,
    /// Bytes of frames: the 10 %, 50 % and 90 % quantile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_quantiles: Option<[f64; 3]>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(side: &u8) -> bool {
    *side == 0
}

/// What is taken away, in a file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WrittenArtifacts {
    /// What does not move.
    Background,
    /// All but outlines of what moves.
    Contours,
}

impl From<WrittenArtifacts> for Artifacts {
    fn from(artifacts: WrittenArtifacts) -> Self {
        match artifacts {
            WrittenArtifacts::Background => Artifacts::Background,
            WrittenArtifacts::Contours => Artifacts::Contours,
        }
    }
}

impl From<WrittenRung> for Rung {
    fn from(rung: WrittenRung) -> Self {
        let artifacts = rung.artifacts.map(Artifacts::from).unwrap_or_default();
        Rung {
            eighths: rung.eighths,
            quality: rung.quality,
            is_gray: rung.gray,
            knobs: Knobs { blur: rung.blur, artifacts },
            bytes: rung.bytes,
            accuracy: rung.accuracy,
            accuracy_low: rung.accuracy_low,
            cost: Duration::from_micros(rung.cost_us),
        }
    }
}

impl Written {
    /// A file of these rungs.
    pub fn new(measured: String, rungs: Vec<WrittenRung>) -> Self {
        Written { version: VERSION, is_generic: false, measured, detector: None, rungs }
    }

    /// As a file has it: a line for each rung.
    ///
    /// # Errors
    /// A number that JSON has no word for.
    pub fn text(&self) -> anyhow::Result<String> {
        let rungs = self.rungs.iter().map(serde_json::to_string);
        let rungs = rungs.collect::<Result<Vec<_>, _>>()?.join(",\n  ");
        let head = serde_json::to_string(&Written { rungs: Vec::new(), ..self.clone() })?;
        let head = head.strip_suffix("[]}").context("rungs come last")?;
        Ok(format!("{head}[\n  {rungs}\n]}}\n"))
    }

    fn ladder(self, with_gray: bool) -> anyhow::Result<LadderFile> {
        let version = self.version;
        ensure!(version == VERSION, "version {version}: this program reads version {VERSION}");
        let rungs = self.rungs.into_iter().filter(|rung| with_gray || !rung.gray);
        let ladder = Ladder::new(rungs.map(Rung::from).collect())?;
        Ok(LadderFile { ladder, is_generic: self.is_generic })
    }
}

/// The ladder of a file, or the generic one; without gray rungs unless they are wanted.
///
/// # Errors
/// The file cannot be read, or is no ladder.
pub fn load(file: Option<&Path>, with_gray: bool) -> anyhow::Result<LadderFile> {
    let Some(file) = file else {
        let written: Written = serde_json::from_str(GENERIC).context("the generic ladder")?;
        return written.ladder(with_gray).context("the generic ladder");
    };
    if file == Path::new(MEZ.0) {
        let written: Written = serde_json::from_str(MEZ.1).context("the ladder mez")?;
        // One of its colour spaces is none.
        return written.ladder(true).context("the ladder mez");
    }
    let name = || file.display().to_string();
    let text = files::read_text(file, FILE_MAX).with_context(name)?;
    let written: Written = serde_json::from_str(&text).with_context(name)?;
    written.ladder(with_gray).with_context(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generic_ladder_is_one_and_says_so() {
        let generic = load(None, false).unwrap();
        assert!(generic.is_generic);
        let rungs = generic.ladder.rungs();
        assert!(rungs.len() >= 4 && rungs.iter().all(|rung| !rung.is_gray), "{rungs:?}");
    }

    #[test]
    fn the_papers_knobs_are_a_ladder_by_name() {
        let mez = load(Some(Path::new("mez")), false).unwrap();
        let rungs = mez.ladder.rungs();
        assert!(mez.is_generic && mez.looks_back() && !load(None, false).unwrap().looks_back());
        let knobs = |of: fn(&Rung) -> bool| rungs.iter().any(of);
        assert!(knobs(|rung| rung.knobs.blur > 0) && knobs(|rung| rung.is_gray));
        assert!(knobs(|rung| rung.eighths < 8 && rung.knobs.is_none() && !rung.is_gray));
    }

    #[test]
    fn what_is_written_is_read() {
        let written: Written = serde_json::from_str(GENERIC).unwrap();
        let mut written = Written::new("here".into(), written.rungs);
        written.rungs[0].bytes_quantiles = Some([1.0, 2.0, 3.0]);
        written.detector = Some("sha256:00".into());
        let text = written.text().unwrap();
        assert_eq!(text.lines().count(), written.rungs.len() + 2);
        let read: Written = serde_json::from_str(&text).unwrap();
        assert_eq!(read.rungs[0].bytes_quantiles, Some([1.0, 2.0, 3.0]));
        assert_eq!((read.detector.as_deref(), read.is_generic), (Some("sha256:00"), false));
        assert_eq!(read.ladder(false).unwrap().ladder.rungs().len(), written.rungs.len());
    }

    #[test]
    fn files_that_are_no_ladders_are_named() {
        let file = std::env::temp_dir().join(format!("tidegate-ladder-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            format!("{:#}", load(Some(&file), true).unwrap_err())
        };
        let newer = read(r#"{"version": 2, "rungs": []}"#);
        assert!(newer.ends_with("version 2: this program reads version 1"), "{newer}");
        let empty = read(r#"{"version": 1, "rungs": []}"#);
        assert!(empty.ends_with("a ladder needs at least one rung"), "{empty}");
        assert!(read("{}").contains("tidegate-ladder"));
        std::fs::remove_file(&file).unwrap();
    }
}
