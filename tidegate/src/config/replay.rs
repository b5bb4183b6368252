//! The `replay` table of an `[[input]]`.

use std::path::PathBuf;

use serde::Deserialize;

/// `replay` of an `[[input]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReplayConfig {
    /// The file.
    pub file: Option<PathBuf>,
    /// What is in it; told by the file's ending if left out.
    pub format: Option<ReplayFormat>,
    /// Topic of its records.
    pub topic: Option<String>,
    /// Column or field that says when each record was made.
    pub time: Option<String>,
    /// Multiple of the recorded speed.
    pub speed: Option<f64>,
    /// Records a second, in place of the recorded times.
    pub records_per_second: Option<f64>,
    /// Begin again at the end.
    pub repeat: bool,
}

impl ReplayConfig {
    /// The format that the file's ending tells.
    pub fn guessed_format(&self) -> Option<ReplayFormat> {
        let ending = self.file.as_ref()?.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "csv" => Some(ReplayFormat::Csv),
            "jsonl" | "ndjson" => Some(ReplayFormat::Jsonl),
            "senml" => Some(ReplayFormat::Senml),
            _ => None,
        }
    }
}

/// `format` of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayFormat {
    /// Comma-separated values with a header line.
    Csv,
    /// One JSON object a line.
    Jsonl,
    /// SenML packs (RFC 8428), one a line.
    Senml,
}
