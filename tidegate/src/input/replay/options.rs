//! What can be chosen for a replay.

use std::path::PathBuf;

use super::error::ReplayError;
use super::parser::Rules;

/// One file of a replay.
#[derive(Clone, Debug)]
pub struct ReplayFile {
    /// Where it is.
    pub path: PathBuf,
    /// How its rows become records.
    pub rules: Rules,
}

/// How fast records come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As recorded, so many times faster.
    Recorded {
        /// 1 is as recorded.
        speed: f64,
    },
    /// Evenly, whatever was recorded.
    Even {
        /// Records a second.
        rate: f64,
    },
}

/// What a record's source time is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceTime {
    /// When the record was due, so that the latency of a live stream can be measured; a replay that
    /// falls behind shows in it.
    #[default]
    Due,
    /// When it was recorded.
    Recorded,
}

/// Options of a replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// What its streams are called by.
    pub name: String,
    /// Files that are replayed side by side, each on its own clock: all begin at once.
    pub files: Vec<ReplayFile>,
    /// How fast records come.
    pub pace: Pace,
    /// What a record's source time is.
    pub source_time: SourceTime,
    /// Whether the replay begins again at its end.
    pub repeat: bool,
    /// Whether a record that is refused for lack of room is offered again until it is accepted. Each
    /// batch then waits for its answers.
    pub reliable: bool,
}

impl ReplayOptions {
    /// These files at their recorded pace, once, without waiting for acceptance.
    pub fn new(name: &str, files: Vec<ReplayFile>) -> Self {
        ReplayOptions {
            name: name.into(),
            files,
            pace: Pace::Recorded { speed: 1.0 },
            source_time: SourceTime::Due,
            repeat: false,
            reliable: false,
        }
    }

    pub(super) fn check(&self) -> Result<(), ReplayError> {
        let (name, value) = match self.pace {
            Pace::Recorded { speed } => ("speed", speed),
            Pace::Even { rate } => ("rate", rate),
        };
        if self.files.is_empty() {
            return Err(ReplayError::NoFile);
        }
        // Within these bounds no time overflows.
        if !(1e-9..=1e9).contains(&value) {
            return Err(ReplayError::Pace(name));
        }
        Ok(())
    }
}
