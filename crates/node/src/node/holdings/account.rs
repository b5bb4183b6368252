//! The accounts: how many deliveries and bytes each stream holds, and the node. Only this file writes them.
//!
//! A *stored* delivery is one whose record only the log holds. What a stream holds is in memory or stored;
//! the node's own bytes are those in memory. Each entry below is one thing that can happen to a record, and
//! books it in the stream's account, in the node's and in the rule's counts at once.

use tidegate_schedule::queue::Delivery;
use tidegate_types::record::{DropReason, Fate};
use tidegate_types::units::{Size, Time};

use super::record::Keep;
use super::streams::{Stream, StreamKey, Streams};
use super::tally::Tally;
use crate::rules::RuleId;
use crate::status::{Counts, Stages};

/// What a stream holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    deliveries: u64,
    stored: u64,
    bytes: Size,
    stored_bytes: Size,
}

impl Account {
    /// Deliveries without a fate, in memory or stored.
    pub(crate) fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// Those of them that are stored.
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    /// Bytes of the records held, wherever they are.
    pub(crate) fn bytes(&self) -> Size {
        self.bytes
    }

    /// Bytes of the records held in memory.
    pub(crate) fn in_memory(&self) -> Size {
        self.bytes - self.stored_bytes
    }

    fn add(&mut self, deliveries: u64, size: Size) {
        self.deliveries += deliveries;
        self.bytes += size;
    }

    fn remove(&mut self, deliveries: u64, size: Size) {
        self.deliveries -= deliveries;
        self.bytes -= size;
    }

    fn add_stored(&mut self, deliveries: u64, size: Size) {
        self.add(deliveries, size);
        self.stored += deliveries;
        self.stored_bytes += size;
    }

    fn remove_stored(&mut self, deliveries: u64, size: Size) {
        self.remove(deliveries, size);
        self.stored -= deliveries;
        self.stored_bytes -= size;
    }
}

/// What the node holds, and what became of all that it ever accepted.
#[derive(Debug)]
pub(super) struct Accounts {
    /// Bytes in memory.
    bytes: Size,
    /// Deliveries that are stored, those on their way to the log included.
    stored: u64,
    tally: Tally,
}

impl Accounts {
    pub(super) fn new(rules: usize) -> Self {
        Accounts { bytes: Size::ZERO, stored: 0, tally: Tally::new(rules) }
    }

    /// Bytes in memory: keys, properties and payloads.
    pub(super) fn bytes(&self) -> Size {
        self.bytes
    }

    /// Deliveries that are stored.
    pub(super) fn stored(&self) -> u64 {
        self.stored
    }

    /// All counts since start.
    pub(super) fn total(&self) -> Counts {
        self.tally.total()
    }

    /// Counts and times of each rule.
    pub(super) fn of_rules(&self) -> &[(Counts, Stages)] {
        self.tally.rules()
    }

    /// There are more rules now.
    pub(super) fn extend(&mut self, rules: usize) {
        self.tally.extend(rules);
    }

    /// An offer was refused, perhaps before a rule was found.
    pub(super) fn refused(&mut self, rule: Option<RuleId>) {
        self.tally.refused(rule);
    }

    /// A record was accepted with so many deliveries; `counted` are the bytes that the rule's counts show.
    pub(super) fn accepted(
        &mut self,
        stream: &mut Stream,
        keep: Keep,
        deliveries: u64,
        size: Size,
        counted: Size,
    ) {
        match keep {
            Keep::InMemory => {
                stream.account.add(deliveries, size);
                self.bytes += size;
            }
            Keep::InLog => {
                stream.account.add_stored(deliveries, size);
                self.stored += deliveries;
            }
        }
        self.tally.accepted(stream.rule, deliveries, counted);
    }

    /// A record was accepted and dropped at once.
    pub(super) fn accepted_and_dropped(&mut self, rule: RuleId, count: u64, reason: DropReason) {
        self.tally.accepted_and_dropped(rule, count, reason);
    }

    /// The last byte of a delivery was handed to the wire.
    pub(super) fn handed(&mut self, now: Time, delivery: &mut Delivery) {
        self.tally.handed(now, delivery);
    }

    /// The deadline of a delivery passed while it waited.
    pub(super) fn violated(&mut self, rule: RuleId) {
        self.tally.violated(rule);
    }

    /// A delivery is sent again, for its connection was lost.
    pub(super) fn again(&mut self, rule: RuleId) {
        self.tally.again(rule);
    }

    /// A delivery in memory has its fate.
    pub(super) fn ended(
        &mut self,
        now: Time,
        stream: &mut Stream,
        delivery: &Delivery,
        fate: Fate,
    ) {
        stream.account.remove(1, Size::ZERO);
        self.tally.finished(now, delivery, fate);
    }

    /// All deliveries of a record in memory have their fates: its bytes are free.
    pub(super) fn released(&mut self, stream: &mut Stream, size: Size) {
        stream.account.remove(0, size);
        self.bytes -= size;
    }

    /// A delivery carries other content beside its record.
    pub(super) fn replaced(&mut self, stream: &mut Stream, size: Size) {
        stream.account.add(0, size);
        self.bytes += size;
    }

    /// A record in memory belongs to another stream now, with all its deliveries and what they carry.
    pub(super) fn moved(
        &mut self,
        streams: &mut Streams,
        (from, to): (StreamKey, StreamKey),
        deliveries: u64,
        size: Size,
    ) {
        streams.get_mut(from).account.remove(deliveries, size);
        streams.get_mut(to).account.add(deliveries, size);
        self.tally.moved(streams.get(from).rule, streams.get(to).rule, deliveries);
    }

    /// A record that the log has left memory. It is stored for the stream that its log's records count for.
    pub(super) fn left(
        &mut self,
        streams: &mut Streams,
        (from, to): (StreamKey, StreamKey),
        deliveries: u64,
        size: Size,
    ) {
        self.bytes -= size;
        self.stored += deliveries;
        streams.get_mut(from).account.remove(deliveries, size);
        streams.get_mut(to).account.add_stored(deliveries, size);
        self.tally.moved(streams.get(from).rule, streams.get(to).rule, deliveries);
    }

    /// A stored record is in the log. It counts for another stream from now on.
    pub(super) fn filed(
        &mut self,
        streams: &mut Streams,
        (from, to): (StreamKey, StreamKey),
        deliveries: u64,
        size: Size,
    ) {
        streams.get_mut(from).account.remove_stored(deliveries, size);
        streams.get_mut(to).account.add_stored(deliveries, size);
        self.tally.moved(streams.get(from).rule, streams.get(to).rule, deliveries);
    }

    /// A stored record leaves the log's account to come to memory.
    pub(super) fn taken_back(&mut self, stream: &mut Stream, deliveries: u64, size: Size) {
        self.stored -= deliveries;
        stream.account.remove_stored(deliveries, size);
    }

    /// It is in memory, with `deliveries` of the `stored` ones that it had; the others go nowhere any more.
    pub(super) fn read_back(
        &mut self,
        (from, to): (RuleId, &mut Stream),
        stored: u64,
        deliveries: u64,
        size: Size,
        unroutable: u64,
    ) {
        self.bytes += size;
        to.account.add(deliveries, size);
        self.tally.moved(from, to.rule, stored);
        self.tally.dropped(to.rule, unroutable, DropReason::Unroutable);
    }

    /// Stored deliveries of a rule have their fates.
    pub(super) fn stored_ended(
        &mut self,
        stream: &mut Stream,
        rule: RuleId,
        deliveries: u64,
        size: Size,
        reason: DropReason,
    ) {
        self.stored -= deliveries;
        stream.account.remove_stored(deliveries, size);
        self.tally.dropped(rule, deliveries, reason);
    }

    /// A log that was recovered has these; `gone` deliveries of them go nowhere any more.
    pub(super) fn restored(
        &mut self,
        stream: &mut Stream,
        records: u64,
        deliveries: u64,
        size: Size,
        gone: u64,
    ) {
        self.stored += deliveries;
        stream.account.add_stored(deliveries, size);
        self.tally.restored(stream.rule, records, deliveries + gone, size);
        self.tally.dropped(stream.rule, gone, DropReason::Unroutable);
    }
}
