//! What follows from the name of a scheduler. The names are listed in `lib.rs`.

use tidegate_types::class::{ClassId, Classes};

use crate::SchedulerName;
use crate::queue::Ranking;
use crate::scheduler::Scheduler;

impl SchedulerName {
    /// A scheduler of this name for one uplink.
    pub fn build(self, classes: &Classes) -> Box<dyn Scheduler> {
        (self.entry().build)(classes)
    }

    /// How it ranks records inside a class.
    pub fn ranking(self) -> Ranking {
        self.entry().ranking
    }

    /// Whether live records of the most urgent class may overdraw the uplink by a cut.
    pub fn favours_alarms(self) -> bool {
        self.entry().favours_alarms
    }

    /// Whether classes are told apart at all.
    pub fn has_classes(self) -> bool {
        self.entry().has_classes
    }

    /// The connection of an output that carries a class. Each class has its own, so that an urgent record overtakes a
    /// large one; a scheduler without classes uses the first for all.
    pub fn lane_of(self, class: ClassId) -> u8 {
        if self.has_classes() { class.0 } else { 0 }
    }

    /// How many connections an output has where each class has its own.
    pub fn lanes(self, classes: &Classes) -> u8 {
        if self.has_classes() { classes.len() as u8 } else { 1 }
    }
}
