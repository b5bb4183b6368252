//! Which class the uplink serves next.
//!
//! A scheduler sees, for each class, the most urgent record that could go now, and answers with a class
//! and a list of it. It is asked as late as possible: when the pacer says that the wire is free.

use std::str::FromStr;

/// The schedulers, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerName {
    /// One FIFO for everything: the paper's baseline.
    Native,
    /// Ours: urgent first, minimum shares, caps, everything unused lent downward at once.
    #[default]
    Tidegate,
}

impl SchedulerName {
    /// Every scheduler.
    pub const ALL: [SchedulerName; 2] = [SchedulerName::Native, SchedulerName::Tidegate];

    /// As in configuration.
    pub fn name(self) -> &'static str {
        match self {
            SchedulerName::Native => "native",
            SchedulerName::Tidegate => "tidegate",
        }
    }
}

impl FromStr for SchedulerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = SchedulerName::ALL.into_iter().find(|scheduler| scheduler.name() == text);
        found.ok_or_else(|| {
            format!("no scheduler is called {text:?}: there are native and tidegate")
        })
    }
}
