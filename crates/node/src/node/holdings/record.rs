//! A record that the node holds, and what the node still owes for it.

use std::sync::Arc;

use tidegate_log::{Destinations, SegmentId};
use tidegate_schedule::queue::DeliveryKey;
use tidegate_types::class::ClassId;
use tidegate_types::limits::{RELAY_ANSWER_MAX, RELAY_CREDIT, RELAY_HOLD_MAX};
use tidegate_types::record::{DropReason, Record, RefuseReason, StreamId};
use tidegate_types::units::{Size, Time};

use super::streams::StreamKey;
use crate::io::OutputId;
use crate::node::outbox::ReplyTo;
use crate::rules::Rule;

/// Where an accepted record waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// In its queues.
    InMemory,
    /// Only in the log, until there is memory to read it back.
    InLog,
}

/// A record that the node holds in memory.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) record: Arc<Record>,
    pub(crate) stream: StreamKey,
    /// Key, properties and payload.
    pub(crate) size: Size,
    /// Deliveries without a fate.
    pub(crate) left: u32,
    /// Why a delivery of it was dropped, if one was.
    pub(crate) dropped: Option<DropReason>,
    /// What is still owed. It is nothing for most records, so it is not kept here.
    pub(crate) owed: Option<Box<Owed>>,
}

impl Held {
    /// What its sender is told once all its deliveries have fates.
    pub(crate) fn verdict(&self) -> Result<(), RefuseReason> {
        self.dropped.map_or(Ok(()), |reason| Err(RefuseReason::Dropped(reason)))
    }
}

/// What the node owes for a record that it holds.
#[derive(Debug, Default)]
pub(crate) struct Owed {
    /// Who waits for its confirmation (accept mode `Confirmed`).
    pub(crate) reply: Option<ReplyTo>,
    /// Its number in its stream.
    pub(crate) seq: u64,
    /// The deliveries of a durable record that have no fate yet.
    pub(crate) legs: Vec<Leg>,
    /// Where the log has it, or will have it.
    pub(crate) logged: Option<Logged>,
    /// Whether it is not sent before the log has it: its sender may send it again, and it must not come twice.
    pub(crate) after_log: bool,
    /// The class that it was read back for, if it was.
    pub(crate) ahead: Option<ClassId>,
}

impl Owed {
    /// A delivery has its fate; answers with what the log must know of it, where the log has the record.
    pub(super) fn end_leg(&mut self, delivery: DeliveryKey) -> Option<EndedLeg> {
        let place = self.legs.iter().position(|leg| leg.delivery == delivery)?;
        let Leg { destinations, .. } = self.legs.swap_remove(place);
        Some(EndedLeg { logged: self.logged?, destinations, is_last: self.legs.is_empty() })
    }
}

/// A delivery of a logged record that ended.
pub(crate) struct EndedLeg {
    pub(crate) logged: Logged,
    pub(crate) destinations: Destinations,
    /// Whether the record has no other delivery.
    pub(crate) is_last: bool,
}

/// A delivery of a durable record that has no fate yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leg {
    pub(crate) delivery: DeliveryKey,
    /// Which of the log's destinations it serves.
    pub(crate) destinations: Destinations,
}

/// Where the log has a record, or will have it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Logged {
    pub(crate) stream: StreamId,
    pub(crate) seq: u64,
    pub(crate) segment: SegmentId,
    /// Number of its append; 0 for one that was read back.
    pub(crate) number: u64,
}

/// The destinations of some legs.
pub(crate) fn all_of(legs: &[Leg]) -> Destinations {
    legs.iter().fold(Destinations::NONE, |all, leg| all | leg.destinations)
}

/// The log's bit of an output.
pub(crate) fn bit_of(output: OutputId) -> Destinations {
    Destinations::one(usize::from(output.0))
}

/// When a record that waits is given up: it expires, or it goes back to the neighbour that sent it.
/// The fleet's custody says why a neighbour's record goes back.
pub(crate) fn end_of(record: &Record, rule: &Rule) -> Option<Time> {
    // Of most records nothing else is to be looked at.
    if rule.relays.is_none() {
        return record.expires;
    }
    ends_of(record, rule).min()
}

/// All times at which it may be given up.
pub(crate) fn ends_of(record: &Record, rule: &Rule) -> impl Iterator<Item = Time> + use<> {
    let is_relayed = rule.relays.is_some();
    let hold = match record.deadline > record.arrived && rule.is_reserved() {
        true => record.deadline.max(record.arrived + RELAY_CREDIT).since(record.arrived),
        // It is late already, and no later for waiting here than elsewhere.
        false => RELAY_HOLD_MAX,
    };
    let ours = [hold.min(RELAY_HOLD_MAX), RELAY_ANSWER_MAX];
    let ours = ours.map(|span| is_relayed.then_some(record.arrived + span));
    ours.into_iter().chain([record.expires]).flatten()
}
