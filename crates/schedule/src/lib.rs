//! Where records wait, and which of them the uplink serves next.
//!
//! A *queue* holds the records of one stream for one output; a class groups queues. A *scheduler* sees, for each class,
//! the most urgent record that could go now, and answers with a class and a list of it. It is asked as late as
//! possible: when the pacer says that the wire is free.
//!
//! | file | what |
//! |---|---|
//! | `queue` | queues, groups, live and late lists, exact in bytes |
//! | `discipline` | the order within one queue |
//! | `estimate`, `allocate` | rates of arrival; shares of the uplink among classes |
//! | `tidegate`, `shares`, `throttle` | the default scheduler |
//! | `janus`, `janus_paper`, `native` | the paper's schedulers and a plain FIFO, by name |
//!
//! ```
//! use tidegate_schedule::SchedulerName;
//!
//! assert_eq!("janus".parse(), Ok(SchedulerName::Janus));
//! assert!(!SchedulerName::Native.has_classes());
//! ```

#![forbid(unsafe_code)]

pub mod allocate;
pub mod discipline;
pub mod estimate;
mod janus;
mod janus_paper;
mod native;
pub mod queue;
mod shares;
#[cfg(test)]
mod tests;
mod throttle;
mod tidegate;

use std::str::FromStr;
use std::time::Duration;

use tidegate_types::class::{ClassId, Classes};
use tidegate_types::units::{Rate, Size, Time};

pub use self::shares::{Shares, Shortage, Spare};
use crate::queue::{Ranking, Timing};

/// The schedulers, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerName {
    /// One FIFO for everything: the paper's baseline.
    Native,
    /// The paper's, as printed: rates granted an interval ahead, after a violation.
    JanusPaper,
    /// The paper's, read kindly: rates granted an interval ahead, in every interval.
    Janus,
    /// Ours: urgent first, minimum shares, caps, everything unused lent downward at once.
    #[default]
    Tidegate,
}

impl SchedulerName {
    /// Every scheduler.
    pub const ALL: [SchedulerName; 4] = [
        SchedulerName::Native,
        SchedulerName::JanusPaper,
        SchedulerName::Janus,
        SchedulerName::Tidegate,
    ];

    /// As in configuration.
    pub fn name(self) -> &'static str {
        match self {
            SchedulerName::Native => "native",
            SchedulerName::JanusPaper => "janus-paper",
            SchedulerName::Janus => "janus",
            SchedulerName::Tidegate => "tidegate",
        }
    }
}

impl FromStr for SchedulerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = SchedulerName::ALL.into_iter().find(|scheduler| scheduler.name() == text);
        found.ok_or_else(|| {
            let names = SchedulerName::ALL.map(SchedulerName::name).join(", ");
            format!("no scheduler is called {text:?}: there are {names}")
        })
    }
}

/// What would go next of a list: one cut of its most urgent ready record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Bytes of the cut.
    pub size: Size,
    /// The record's place in the node's order of acceptance.
    pub order: u64,
}

/// What a class could send now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassView {
    /// Of its live records.
    pub live: Option<Piece>,
    /// Of its late ones.
    pub late: Option<Piece>,
    /// Whether live records wait on a connection that is up, even if none can go at this moment: a class
    /// whose connection has all that it takes ahead keeps its claims.
    pub has_live: bool,
    /// The same of late ones.
    pub has_late: bool,
}

impl ClassView {
    /// A view of a class of which everything that waits could go.
    pub fn new(live: Option<Piece>, late: Option<Piece>) -> Self {
        ClassView { live, late, has_live: live.is_some(), has_late: late.is_some() }
    }
}

/// A scheduler's answer: the class and the list to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which class.
    pub class: ClassId,
    /// Which of its lists.
    pub timing: Timing,
}

/// What a class brings to an uplink.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassLoad {
    /// Bytes that ever came into the class.
    pub arrived: Size,
    /// Bytes/s that come in, averaged.
    pub input: Rate,
    /// Bytes that wait.
    pub backlog: Size,
}

/// What a scheduler that grants rates must know of its uplink.
#[derive(Clone, Copy, Debug)]
pub struct UplinkLoad<'a> {
    /// C, in bytes/s; zero while it is unknown.
    pub capacity: Rate,
    /// The pace at which the uplink takes bytes, in bytes/s; zero where it has none.
    pub pace: Rate,
    /// The node's own processing delay (ε).
    pub processing: Duration,
    /// Most urgent first.
    pub classes: &'a [ClassLoad],
}

impl UplinkLoad<'_> {
    /// How much faster than its estimate the uplink may be used, so that a law can find that it grew: a
    /// scheduler that holds the classes to the estimate would hold the estimate where it is.
    fn gain(&self) -> f64 {
        (self.pace.as_f64() / self.capacity.as_f64()).max(1.0)
    }
}

/// Picks for one uplink. `views` has one entry a class, most urgent first.
pub trait Scheduler: std::fmt::Debug + Send {
    /// Who goes now; `None` if nobody can or may.
    fn next(&mut self, now: Time, views: &[ClassView]) -> Option<Choice>;
    /// The choice was followed: so many bytes went. `views` is what `next` saw.
    fn sent(&mut self, now: Time, choice: Choice, bytes: Size, views: &[ClassView]);
    /// When a class that must not send now may send again.
    fn next_timeout(&self, now: Time, views: &[ClassView]) -> Option<Time>;
    /// When `reallocate` is wanted; `None` where nothing is granted ahead.
    fn next_reallocation(&self) -> Option<Time> {
        None
    }
    /// Divides the uplink for the next interval.
    fn reallocate(&mut self, _now: Time, _load: &UplinkLoad<'_>) {}
    /// How it is divided now; `None` where nothing is granted ahead, or the capacity is unknown.
    fn shares(&self) -> Option<&Shares> {
        None
    }
}

/// Longest and shortest interval between reallocations: t of JANUS, Alg. 1.
const INTERVALS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(1)];

/// The interval between reallocations: at most the smallest bound, for at `t` > δ Eq. 22 turns negative
/// and beyond 4/3 δ it swings for ever. Bounds below a millisecond get one.
fn interval(classes: &Classes) -> Duration {
    let [longest, shortest] = INTERVALS;
    let smallest = classes.iter().map(|(_, spec)| spec.latency).min().unwrap_or(longest);
    smallest.clamp(shortest, longest)
}

impl SchedulerName {
    /// A scheduler of this name for one uplink.
    pub fn build(self, classes: &Classes) -> Box<dyn Scheduler> {
        match self {
            SchedulerName::Native => Box::new(native::Native),
            SchedulerName::JanusPaper => Box::new(janus_paper::JanusPaper::new(classes)),
            SchedulerName::Janus => Box::new(janus::Janus::new(classes)),
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
