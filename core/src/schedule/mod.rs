//! Which class the uplink serves next.
//!
//! A scheduler sees, for each class, the most urgent record that could go now, and answers with a class
//! and a list of it. It is asked as late as possible: when the pacer says that the wire is free.

mod native;
mod tidegate;

use std::str::FromStr;

use crate::class::{ClassId, Classes};
use crate::queue::{Ranking, Timing};
use crate::units::{Size, Time};

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

/// Picks for one uplink. `views` has one entry a class, most urgent first.
pub trait Scheduler: std::fmt::Debug + Send {
    /// Who goes now; `None` if nobody can or may.
    fn next(&mut self, now: Time, views: &[ClassView]) -> Option<Choice>;
    /// The choice was followed: so many bytes went. `views` is what `next` saw.
    fn sent(&mut self, now: Time, choice: Choice, bytes: Size, views: &[ClassView]);
    /// When a class that must not send now may send again.
    fn next_timeout(&self, now: Time, views: &[ClassView]) -> Option<Time>;
}

impl SchedulerName {
    /// A scheduler of this name for one uplink.
    pub fn build(self, classes: &Classes) -> Box<dyn Scheduler> {
        match self {
            SchedulerName::Native => Box::new(native::Native),
            SchedulerName::Tidegate => Box::new(tidegate::Tidegate::new(classes)),
        }
    }

    /// How it ranks records inside a class.
    pub fn ranking(self) -> Ranking {
        match self {
            SchedulerName::Native => Ranking::Arrival,
            SchedulerName::Tidegate => Ranking::Deadline,
        }
    }

    /// Which connection of an output carries a class: each class its own, so that an urgent record
    /// overtakes a large one; with one FIFO all share the first.
    pub fn lane_of(self, class: ClassId) -> u8 {
        match self {
            SchedulerName::Native => 0,
            SchedulerName::Tidegate => class.0,
        }
    }

    /// How many connections an output needs.
    pub fn lanes(self, classes: &Classes) -> u8 {
        match self {
            SchedulerName::Native => 1,
            SchedulerName::Tidegate => classes.len() as u8,
        }
    }
}
