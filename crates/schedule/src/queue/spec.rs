//! What a queue is, and the words for what is done with it.

use tidegate_types::class::ClassId;
use tidegate_types::ids::{OutputId, RuleId};
use tidegate_types::units::Size;

use crate::discipline::Discipline;

/// What a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSpec {
    /// The rule of its stream.
    pub rule: RuleId,
    /// Class that serves it.
    pub class: ClassId,
    /// Where its records go.
    pub output: OutputId,
    /// The output of the rule that they would go to: another one where a script sent them elsewhere.
    pub home: OutputId,
    /// Which record goes next.
    pub discipline: Discipline,
    /// Nothing overtakes inside the queue, late records included.
    pub strict_order: bool,
}

/// How records of a class rank against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranking {
    /// Earliest deadline first; past the deadline a record is late.
    Deadline,
    /// In the order of acceptance; nothing is ever late (one FIFO).
    Arrival,
}

/// Where to move a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveTarget {
    /// Before all others of its list.
    Next,
    /// After them.
    Last,
}

/// Records and bytes that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Before their deadline (or not yet found to be past it).
    pub live_records: u64,
    /// Past it.
    pub late_records: u64,
    /// Bytes of both.
    pub bytes: Size,
}

impl Backlog {
    /// Records of both.
    pub fn records(&self) -> u64 {
        self.live_records + self.late_records
    }
}
