//! The schedulers by name, and what else of a node follows from the choice. A new one is a file of its own and a line
//! in each of these lists.

use tidegate_types::class::{ClassId, Classes};

use crate::queue::Ranking;
use crate::scheduler::Scheduler;
use crate::{baselines, tidegate};

tidegate_types::named! {
    /// The schedulers, by name.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum SchedulerName: "scheduler" {
        /// One FIFO for everything: the paper's baseline.
        Native = "native",
        /// The paper's, as printed: rates granted an interval ahead, after a violation.
        JanusPaper = "janus-paper",
        /// The paper's, read kindly: rates granted an interval ahead, in every interval.
        Janus = "janus",
        /// Ours: urgent first, minimum shares, caps, everything unused lent downward at once.
        #[default]
        Tidegate = "tidegate",
    }
}

impl SchedulerName {
    /// A scheduler of this name for one uplink.
    pub fn build(self, classes: &Classes) -> Box<dyn Scheduler> {
        match self {
            SchedulerName::Native => Box::new(baselines::native::Native),
            SchedulerName::JanusPaper => Box::new(baselines::janus_paper::JanusPaper::new(classes)),
            SchedulerName::Janus => Box::new(baselines::janus::Janus::new(classes)),
            SchedulerName::Tidegate => Box::new(tidegate::Tidegate::new(classes)),
        }
    }

    /// How it ranks records inside a class.
    pub fn ranking(self) -> Ranking {
        match self {
            SchedulerName::Native | SchedulerName::JanusPaper | SchedulerName::Janus => {
                Ranking::Arrival
            }
            SchedulerName::Tidegate => Ranking::Deadline,
        }
    }

    /// Whether live records of the most urgent class may overdraw the uplink by a cut.
    pub fn favours_alarms(self) -> bool {
        self == SchedulerName::Tidegate
    }

    /// Whether classes are told apart at all.
    pub fn has_classes(self) -> bool {
        self != SchedulerName::Native
    }

    /// Which connection of an output carries a class: each class its own, so that an urgent record
    /// overtakes a large one; with one FIFO all share the first.
    pub fn lane_of(self, class: ClassId) -> u8 {
        if self.has_classes() { class.0 } else { 0 }
    }

    /// How many connections an output needs.
    pub fn lanes(self, classes: &Classes) -> u8 {
        if self.has_classes() { classes.len() as u8 } else { 1 }
    }
}
