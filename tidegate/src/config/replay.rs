//! The `replay` table of an `[[input]]`.

use crate::keys::table::{choices, keys};
use std::path::PathBuf;

/// How fast a file is played.
pub(crate) const SPEED: f64 = 1.0;

keys! {
    /// `replay` of an `[[input]]`.
    pub struct ReplayConfig {
        /// The file.
        pub file: Option<PathBuf>; required() sample("readings.csv"),
        /// What is in it. Default: by the file's ending (.csv, .jsonl, .ndjson, .senml).
        pub format: Option<ReplayFormat>; sample("csv"),
        /// Topic of its records. Default: replay/ and the file's name.
        pub topic: Option<String>; sample("replay/readings"),
        /// Column or field that says when a record was made.
        pub time: Option<String>; sample("timestamp"),
        /// Multiple of the recorded speed.
        pub speed: Option<f64>; usually(SPEED) above_zero("must be larger than 0"),
        /// A steady rate, in place of speed.
        pub records_per_second: Option<f64>; apart("100.0") above_zero("must be larger than 0"),
        /// Begin again at the end.
        pub repeat: bool = false,
    }
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

choices! {
    /// `format` of a replay.
    pub enum ReplayFormat: Copy, Eq {
        /// Comma-separated values with a head line.
        Csv = "csv",
        /// One JSON object a line.
        Jsonl = "jsonl",
        /// SenML packs (RFC 8428), one a line.
        Senml = "senml",
    }
}
