//! The keys of a sink: what they say, what is wrong with them, and what comes of them.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tidegate_types::units::Size;

use super::{FileOptions, SinkOptions};
use crate::keys::findings::Findings;
use crate::keys::places::Place;
use crate::keys::reference::{File, quoted};
use crate::keys::units::ByteSize;
use crate::output::kind::{Below, Driver, OutputKind, Surroundings};

/// `sink` of an `[[output]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SinkConfig {
    /// Folder of the JSON lines files.
    pub directory: PathBuf,
    /// A file that has grown to this is closed and a new one begun.
    pub file_max: ByteSize,
    /// Files kept; the oldest goes.
    pub files: u32,
    /// Make lines safe on disk before their records are confirmed.
    pub sync: bool,
    /// Write nothing: count, confirm and forget.
    pub discard: bool,
}

impl Default for SinkConfig {
    fn default() -> Self {
        SinkConfig {
            directory: "tidegate-data".into(),
            file_max: ByteSize(Size::from_mib(64)),
            files: 8,
            sync: true,
            discard: false,
        }
    }
}

impl SinkConfig {
    /// What the sink is told.
    pub fn options(&self, surroundings: &Surroundings) -> SinkOptions {
        if self.discard {
            return SinkOptions::Discard;
        }
        SinkOptions::Files(FileOptions {
            directory: self.directory.clone(),
            file_max: self.file_max.0,
            files: self.files,
            sync: self.sync,
            classes: surroundings.classes.clone(),
        })
    }
}

impl OutputKind for SinkConfig {
    fn name(&self) -> &'static str {
        "sink"
    }

    fn explain(&self, file: &mut File) {
        let SinkConfig { directory, file_max, files, sync, discard } = self;
        file.table("sink", "JSON lines files on this machine: sink = {} has all defaults.");
        file.key("sink.directory", &quoted(directory.display()), "Folder of the files.");
        file.key(
            "sink.file_max",
            &quoted(file_max),
            "A file of this size is closed and a new one begun.",
        );
        file.key("sink.files", &files.to_string(), "Files kept; the oldest goes.");
        file.key(
            "sink.sync",
            &sync.to_string(),
            "Make lines safe on disk before their records are confirmed, all that wait by one sync. false:\n\
             confirmed is what the kernel has, and a power cut loses it.",
        );
        file.key("sink.discard", &discard.to_string(), "Write nothing: confirm and forget.");
    }

    fn example(&self) -> &'static str {
        "archive"
    }

    fn check(&self, place: &Place, findings: &mut Findings) {
        if self.files == 0 {
            findings.error(place.to("files"), "nothing could be kept: give at least 1");
        }
        if self.file_max.0 < Size::from_kib(4) {
            findings.error(place.to("file_max"), "too small for a file: give at least 4KiB");
        }
    }

    fn is_default(&self) -> bool {
        true
    }

    fn folder(&self) -> Option<(&'static str, &Path)> {
        (!self.discard).then_some(("directory", &self.directory))
    }

    fn destination(&self) -> String {
        match self.discard {
            true => "nowhere".into(),
            false => format!("files in {}", self.directory.display()),
        }
    }

    fn confirms(&self) -> &'static str {
        match self {
            SinkConfig { discard: true, .. } => "at once: nothing is kept",
            SinkConfig { sync: true, .. } => "when its line is synced to this machine's disk",
            _ => "when the kernel has its line: a power cut takes what is not on disk yet",
        }
    }

    fn below(&self) -> Below {
        Below::Nothing
    }

    fn overhead(&self) -> Size {
        Size::ZERO
    }

    fn build(&self, surroundings: &Surroundings) -> anyhow::Result<Box<dyn Driver>> {
        Ok(Box::new(self.options(surroundings)))
    }
}
