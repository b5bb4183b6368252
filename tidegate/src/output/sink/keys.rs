//! The keys of a sink: what they say, what is wrong with them, and what comes of them.

use std::path::{Path, PathBuf};

use tidegate_types::units::Size;

use super::{FileOptions, SinkOptions};
use crate::keys::table::keys;
use crate::keys::units::ByteSize;
use crate::output::kind::{Below, Driver, OutputKind, Surroundings};

keys! {
    /// `sink` of an `[[output]]`.
    pub struct SinkConfig: Eq {
        /// Folder of the files.
        pub directory: PathBuf = "tidegate-data".into(),
        /// A file of this size is closed and a new one begun.
        pub file_max: ByteSize = ByteSize(Size::from_mib(64));
            at_least(ByteSize(Size::from_kib(4)), "too small for a file"),
        /// Files kept; the oldest goes.
        pub files: u32 = 8; at_least(1, "nothing could be kept"),
        /// Make lines safe on disk before their records are confirmed, all that wait by one sync. false: confirmed is
        /// what the kernel has, and a power cut loses it.
        pub sync: bool = true,
        /// Write nothing: confirm and forget.
        pub discard: bool = false,
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
