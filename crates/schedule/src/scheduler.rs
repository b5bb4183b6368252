//! What a scheduler is: what it sees of the classes of an uplink, and what it answers.

use std::time::Duration;

use tidegate_types::class::{ClassId, Classes};
use tidegate_types::units::{Rate, Size, Time};

use crate::queue::{Ranking, Timing};
use crate::shares::UplinkShares;

/// What would go next of a list: one cut of its most urgent ready record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextCut {
    /// Bytes of the cut.
    pub size: Size,
    /// The record's place in the node's order of acceptance.
    pub order: u64,
}

/// What a class could send now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassView {
    /// Of its live records.
    pub live: Option<NextCut>,
    /// Of its late ones.
    pub late: Option<NextCut>,
    /// Whether live records wait on a connection that is up, even if none can go at this moment: a class
    /// whose connection has all that it takes ahead keeps its claims.
    pub has_live: bool,
    /// The same of late ones.
    pub has_late: bool,
}

impl ClassView {
    /// A view of a class of which everything that waits could go.
    pub fn new(live: Option<NextCut>, late: Option<NextCut>) -> Self {
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
    /// How much faster than its estimate the uplink may be used, so that a rate controller can find that it grew: a
    /// scheduler that holds the classes to the estimate would hold the estimate where it is.
    pub(crate) fn gain(&self) -> f64 {
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
    fn shares(&self) -> Option<&UplinkShares> {
        None
    }
}

/// What a scheduler's file tells the list of schedulers, in its constant `ENTRY`.
pub(crate) struct SchedulerEntry {
    /// A scheduler for one uplink with these classes.
    pub(crate) build: fn(&Classes) -> Box<dyn Scheduler>,
    /// How records are ranked inside a class.
    pub(crate) ranking: Ranking,
    /// Whether classes are told apart: each has its connection then.
    pub(crate) has_classes: bool,
    /// Whether live records of the most urgent class may overdraw the uplink by a cut.
    pub(crate) favours_alarms: bool,
}

/// Longest and shortest interval between reallocations: t of JANUS, Alg. 1.
const INTERVALS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(1)];

/// The interval between reallocations: at most the smallest bound, for at `t` > δ Eq. 22 turns negative
/// and beyond 4/3 δ it swings for ever. Bounds below a millisecond get one.
pub(crate) fn interval(classes: &Classes) -> Duration {
    let [longest, shortest] = INTERVALS;
    let smallest = classes.iter().map(|(_, spec)| spec.latency).min().unwrap_or(longest);
    smallest.clamp(shortest, longest)
}
