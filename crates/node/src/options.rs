//! What a node is made of: plain values that the runtime converts its configuration into.

use std::sync::Arc;

use tidegate_capacity::RateControllerName;
pub use tidegate_capacity::UplinkOptions;
use tidegate_schedule::SchedulerName;
use tidegate_types::class::{ClassId, Classes};
use tidegate_types::limits::{LOG_SEGMENT_MAX, OUTPUTS_MAX};
use tidegate_types::record::AcceptMode;
use tidegate_types::units::{Rate, Size};

use crate::io::{OutputId, UplinkId};
use crate::rules::{RuleError, Rules};

/// One output of the node.
#[derive(Clone, Debug)]
pub struct OutputOptions {
    /// Name, as in `to = ["cloud"]`.
    pub name: Arc<str>,
    /// The uplink whose capacity it uses.
    pub uplink: UplinkId,
    /// Framing that each record costs on this output beside payload, key and properties.
    pub overhead: Size,
    /// Records that may be unconfirmed at once: what a lost connection sends twice at most. Of the last
    /// tenth every class but the most urgent may use only a part.
    pub unconfirmed_max: usize,
    /// Whether all classes share one connection: for a far end that lets a client in only once.
    pub one_lane: bool,
    /// Whether it is there no more: it keeps its place, and gets nothing.
    pub is_gone: bool,
}

/// Everything a node is made of.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The node's name in every identity.
    pub name: Arc<str>,
    /// New whenever the node's log is new.
    pub incarnation: u64,
    /// Its classes, most urgent first.
    pub classes: Classes,
    /// Its rules, first match wins.
    pub rules: Rules,
    /// Its uplinks.
    pub uplinks: Vec<UplinkOptions>,
    /// Its outputs.
    pub outputs: Vec<OutputOptions>,
    /// Which scheduler picks.
    pub scheduler: SchedulerName,
    /// Bound on the bytes held in memory. Of its last tenth every class but the most urgent may use
    /// only a part, so that a bulk backlog never shuts out an alarm.
    pub memory: Size,
    /// Bytes/s of payload, keys and properties that it lets in, if it is to hold its inputs back.
    pub inbound: Option<Rate>,
    /// Bound on one record's size: key, properties and payload.
    pub record_max: Size,
    /// Its log; without one it cannot promise `Durable`.
    pub log: Option<LogOptions>,
    /// Its place in a fleet, if it is part of one.
    pub fleet: Option<FleetSeat>,
}

/// What of a node takes part in a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetSeat {
    /// The output whose records neighbours may carry, and to which theirs go.
    pub output: OutputId,
    /// The class of neighbours' records, the last of all: what is before it is our own.
    pub relayed: ClassId,
}

/// A node's log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// A random number of this process: it stands in the identities of records that the log does not
    /// know, so that none of them ever repeats either.
    pub boot: u64,
    /// Bound on the bytes of all segments. Records may fill seven eighths of it; the rest is for what
    /// makes room again. At least four segments.
    pub bound: Size,
    /// Bytes at which a segment is finished, `LOG_SEGMENT_MAX` at most.
    pub segment: Size,
    /// Which of the records on disk are read back first.
    pub backlog: BacklogOrder,
}

/// Which records of a class's backlog on disk go first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BacklogOrder {
    /// The oldest.
    #[default]
    OldestFirst,
    /// Those of the newest segment; inside a segment the oldest.
    NewestFirst,
}

/// What is wrong with the options of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// No output.
    #[error("a node needs at least one output")]
    NoOutput,
    /// More than `OUTPUTS_MAX`.
    #[error("{0} outputs are more than {OUTPUTS_MAX}")]
    TooManyOutputs(usize),
    /// An output on an uplink that does not exist.
    #[error("output {0:?} is on an uplink that does not exist")]
    NoUplink(Arc<str>),
    /// Too many rules, or one without a destination.
    #[error(transparent)]
    Rules(#[from] RuleError),
    /// A rule to an output that does not exist.
    #[error("stream {0:?} goes to an output that does not exist")]
    NoDestination(Arc<str>),
    /// A rule of a class that does not exist.
    #[error("stream {0:?} is of a class that does not exist")]
    NoClass(Arc<str>),
    /// An output that may send nothing.
    #[error("output {0:?} needs room for at least one unconfirmed record")]
    NoWindow(Arc<str>),
    /// An inbound limit that lets nothing in.
    #[error("the inbound limit must be above zero: leave it out for no limit")]
    NoInbound,
    /// The rate controller `known` without a rate.
    #[error("uplink {0:?} has the law \"known\" and no rate: give it one, or rate = \"auto\"")]
    NoRate(Arc<str>),
    /// A durable rule without a log.
    #[error("stream {0:?} is to be durable, and the node has no log")]
    NoLog(Arc<str>),
    /// A place in a fleet that does not exist.
    #[error("a fleet's output must exist, and the class of neighbours' records be the last one")]
    NoSeat,
    /// A log too small for its segments.
    #[error("a log needs room for four segments, of {LOG_SEGMENT_MAX:?} each at most")]
    LogTooSmall,
}

impl NodeOptions {
    /// How much memory a class may fill: the most urgent one all of it, the least urgent nine tenths.
    pub fn memory_for(&self, class: ClassId) -> Size {
        Size(self.part_for(class, self.memory.0))
    }

    /// The connection of an output that carries a class. Each class has its own, so that an urgent record overtakes a
    /// large one, unless the output has one for all.
    #[inline]
    pub fn lane_of(&self, output: OutputId, class: ClassId) -> u8 {
        if self.outputs[usize::from(output.0)].one_lane { 0 } else { self.scheduler.lane_of(class) }
    }

    /// How many connections an output has.
    pub fn lanes(&self, output: OutputId) -> u8 {
        let of_one = self.outputs[usize::from(output.0)].one_lane;
        if of_one { 1 } else { self.scheduler.lanes(&self.classes) }
    }

    /// Of the records that may be unconfirmed at once on an output, how many there may be before this class must wait:
    /// as with memory, a bulk backlog never shuts out an alarm.
    pub fn window_for(&self, class: ClassId, all: usize) -> usize {
        if !self.scheduler.has_classes() {
            // One FIFO has no head-room: nothing overtakes.
            return all;
        }
        (self.part_for(class, all as u64) as usize).max(1)
    }

    fn part_for(&self, class: ClassId, all: u64) -> u64 {
        let below = self.classes.len().saturating_sub(1).max(1) as u64;
        all - all.div_ceil(10) * class.index() as u64 / below
    }

    /// Whether there is such an output.
    pub fn has_output(&self, output: OutputId) -> bool {
        self.outputs.get(usize::from(output.0)).is_some_and(|output| !output.is_gone)
    }

    /// Checks that every name leads somewhere.
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub fn check(&self) -> Result<(), OptionsError> {
        if self.outputs.iter().all(|output| output.is_gone) {
            return Err(OptionsError::NoOutput);
        }
        if self.outputs.len() > OUTPUTS_MAX {
            return Err(OptionsError::TooManyOutputs(self.outputs.len()));
        }
        let on_no_uplink =
            |output: &&OutputOptions| usize::from(output.uplink.0) >= self.uplinks.len();
        if let Some(output) = self.outputs.iter().find(on_no_uplink) {
            return Err(OptionsError::NoUplink(output.name.clone()));
        }
        if let Some(output) = self.outputs.iter().find(|output| output.unconfirmed_max == 0) {
            return Err(OptionsError::NoWindow(output.name.clone()));
        }
        self.check_rules(&self.rules)?;
        if self.inbound.is_some_and(Rate::is_zero) {
            return Err(OptionsError::NoInbound);
        }
        self.check_log()?;
        let is_seat = |seat: &FleetSeat| {
            let last = self.classes.len() - 1;
            usize::from(seat.output.0) < self.outputs.len() && seat.relayed.index() == last
        };
        if self.fleet.as_ref().is_some_and(|seat| !is_seat(seat)) {
            return Err(OptionsError::NoSeat);
        }
        let unknown = |uplink: &&UplinkOptions| {
            uplink.controller == RateControllerName::Known && uplink.cap.is_none()
        };
        match self.uplinks.iter().find(unknown) {
            Some(uplink) => Err(OptionsError::NoRate(uplink.name.clone())),
            None => Ok(()),
        }
    }

    /// Checks that rules lead somewhere.
    ///
    /// # Errors
    /// See [`OptionsError`].
    pub fn check_rules(&self, rules: &Rules) -> Result<(), OptionsError> {
        for (_, rule) in rules.iter() {
            if rule.to.iter().any(|output| usize::from(output.0) >= self.outputs.len()) {
                return Err(OptionsError::NoDestination(rule.name.clone()));
            }
            if rule.class.index() >= self.classes.len() {
                return Err(OptionsError::NoClass(rule.name.clone()));
            }
            if rule.accept == AcceptMode::Durable && self.log.is_none() {
                return Err(OptionsError::NoLog(rule.name.clone()));
            }
        }
        Ok(())
    }

    fn check_log(&self) -> Result<(), OptionsError> {
        let Some(log) = &self.log else { return Ok(()) };
        let is_large = log.segment <= LOG_SEGMENT_MAX && log.bound.0 / 4 >= log.segment.0;
        if is_large { Ok(()) } else { Err(OptionsError::LogTooSmall) }
    }
}
