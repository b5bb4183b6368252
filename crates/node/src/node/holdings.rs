//! What the node holds: records, their deliveries in queues, the streams that they belong to, and the
//! accounts of all of it.
//!
//! Its fields are private, and it lends nothing that can be written: whatever changes a count or a number of
//! bytes is a method here. In the order of reading:
//!
//! | file | what it has |
//! |---|---|
//! | `record.rs` | a record in memory, and what the node owes for it |
//! | `streams.rs` | the table of streams |
//! | `account.rs`, `tally.rs` | deliveries and bytes of streams, node and rules: the only writers |
//! | `open.rs` | streams are opened and found |
//! | `enqueue.rs` | a record comes into its queues, new or read back from the log |
//! | this file | what is there; a delivery ends; a record goes to the log |
//! | `coflows.rs` | sets of records with one bound |
//! | `waiting.rs` | what waits is picked, comes back, is moved or changed |
//! | `reload.rs` | new rules: what waits goes where it belongs now |

mod account;
mod coflows;
mod enqueue;
mod open;
mod record;
mod reload;
mod streams;
mod tally;
mod waiting;

use std::collections::BTreeSet;
use std::sync::Arc;

use slotmap::{SlotMap, SparseSecondaryMap};
use tidegate_log::Destinations;
use tidegate_schedule::queue::{
    Delivery, DeliveryKey, DeliveryState, QueueSpec, Queues, RecordKey,
};
use tidegate_types::record::{DropReason, Fate, Record};
use tidegate_types::units::{Size, Time};

use self::account::DeliveryAccount;
use self::coflows::Coflows;
pub(super) use self::enqueue::{Fresh, ReadBack};
pub(super) use self::record::{EndedLeg, Held, Keep, Leg, Logged, Owed, all_of, bit_of};
use self::streams::Streams;
pub(super) use self::streams::{OwnerKey, Payer, Room, StreamKey};
use self::tally::Tally;
pub(super) use self::waiting::Cut;
use crate::io::OutputId;
use crate::options::NodeOptions;
use crate::rules::{Rule, RuleId};
use crate::status::{Counts, Stages};

/// Everything that the node holds.
#[derive(Debug)]
pub(super) struct Holdings {
    /// Those in force: rules, and what outputs add to a record.
    options: Arc<NodeOptions>,
    streams: Streams,
    records: SlotMap<RecordKey, Held>,
    queues: Queues,
    /// Of all streams together.
    account: DeliveryAccount,
    tally: Tally,
    coflows: Coflows,
    /// When deliveries are given up.
    expiry: BTreeSet<(Time, DeliveryKey)>,
    /// What deliveries carry in place of their records.
    replaced: SparseSecondaryMap<DeliveryKey, Arc<Record>>,
    /// Accepted records, ever: the order of acceptance.
    last_order: u64,
    /// The delivery that was accepted last.
    newest: Option<DeliveryKey>,
}

/// What a delivery's end leaves to do for others.
pub(super) struct Ended {
    pub(super) delivery: Delivery,
    /// What the log must know of it.
    pub(super) leg: Option<EndedLeg>,
    /// Its record, if this was the last delivery of it.
    pub(super) released: Option<Held>,
}

/// A record that went from memory to the log.
pub(super) struct Left {
    pub(super) held: Held,
    pub(super) owed: Box<Owed>,
    /// Where an attempt to send it may have arrived.
    pub(super) may_be_there: Destinations,
}

/// An entry in the accounts of the node and of a stream.
type Booking = fn(&mut DeliveryAccount, &mut DeliveryAccount, u64, Size);

/// What the queue of a rule's stream for one of its outputs is.
fn queue_spec(id: RuleId, rule: &Rule, output: OutputId) -> QueueSpec {
    let Rule { class, discipline, strict_order, .. } = *rule;
    QueueSpec { rule: id, class, output, home: output, discipline, strict_order }
}

impl Holdings {
    pub(super) fn new(options: Arc<NodeOptions>) -> Self {
        let (classes, outputs) = (options.classes.len(), options.outputs.len());
        Holdings {
            streams: Streams::default(),
            records: SlotMap::with_key(),
            queues: Queues::new(options.scheduler.ranking(), classes, outputs),
            account: DeliveryAccount::default(),
            tally: Tally::new(options.rules.len()),
            coflows: Coflows::default(),
            expiry: BTreeSet::new(),
            replaced: SparseSecondaryMap::new(),
            last_order: 0,
            newest: None,
            options,
        }
    }

    /// Bytes in memory: keys, properties and payloads.
    pub(super) fn bytes(&self) -> Size {
        self.account.in_memory()
    }

    /// Deliveries that only the log holds.
    pub(super) fn stored(&self) -> u64 {
        self.account.stored()
    }

    /// Deliveries without a fate, in memory or in the log.
    pub(super) fn deliveries(&self) -> u64 {
        self.queues.len() as u64 + self.account.stored()
    }

    /// All counts since start.
    pub(super) fn total(&self) -> Counts {
        self.tally.total()
    }

    /// Counts and times of each rule.
    pub(super) fn of_rules(&self) -> &[(Counts, Stages)] {
        self.tally.rules()
    }

    /// An offer was refused, perhaps before a rule was found.
    pub(super) fn count_refused(&mut self, rule: Option<RuleId>) {
        self.tally.refused(rule);
    }

    /// Everything that waits, to be looked at.
    pub(super) fn queues(&self) -> &Queues {
        &self.queues
    }

    /// A delivery; `None` for a stale handle.
    #[inline]
    pub(super) fn delivery(&self, key: DeliveryKey) -> Option<&Delivery> {
        self.queues.get(key)
    }

    /// What a delivery carries: its record, or what a script put in its place.
    pub(super) fn content(&self, key: DeliveryKey) -> Option<&Arc<Record>> {
        let delivery = self.queues.get(key)?;
        let own = || self.records.get(delivery.record).map(|held| &held.record);
        self.replaced(key).or_else(own)
    }

    fn replaced(&self, key: DeliveryKey) -> Option<&Arc<Record>> {
        // For most nodes there is nothing, and this is asked for every record.
        if self.replaced.is_empty() { None } else { self.replaced.get(key) }
    }

    /// A record in memory; `None` for a stale handle.
    pub(super) fn record(&self, key: RecordKey) -> Option<&Held> {
        self.records.get(key)
    }

    /// All records in memory.
    pub(super) fn records(&self) -> impl Iterator<Item = &Held> {
        self.records.values()
    }

    /// Whether nothing is in memory.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// What is owed for a record. Nothing of it is counted.
    pub(super) fn owed_mut(&mut self, record: RecordKey) -> Option<&mut Owed> {
        self.records.get_mut(record)?.owed.as_deref_mut()
    }

    /// Who waits for a record's confirmation.
    pub(super) fn owe_answer(&mut self, record: RecordKey, reply: super::outbox::ReplyTo) {
        self.records[record].owed.get_or_insert_default().reply = Some(reply);
    }

    /// Whether a record must be in the log before it is sent, and is not yet.
    pub(super) fn waits_for_log(&self, record: RecordKey) -> bool {
        let owed = self.records.get(record).and_then(|held| held.owed.as_ref());
        owed.is_some_and(|owed| owed.after_log)
    }

    /// Whether a delivery's record was read back from the log.
    #[inline]
    pub(super) fn is_backlog(&self, key: DeliveryKey) -> bool {
        let record = self.queues.get(key).and_then(|delivery| self.records.get(delivery.record));
        let owed = record.and_then(|held| held.owed.as_ref());
        owed.is_some_and(|owed| owed.ahead.is_some())
    }

    /// Where the log has a record, or will have it.
    pub(super) fn logged_of(&self, record: RecordKey) -> Option<Logged> {
        self.records.get(record)?.owed.as_ref()?.logged
    }

    /// The deliveries of a durable record that have no fate.
    pub(super) fn legs_of(&self, record: RecordKey) -> Vec<DeliveryKey> {
        let owed = self.records.get(record).and_then(|held| held.owed.as_ref());
        owed.into_iter().flat_map(|owed| &owed.legs).map(|leg| leg.delivery).collect()
    }

    /// Whether a delivery stands in a queue.
    pub(super) fn is_waiting(&self, key: DeliveryKey) -> bool {
        matches!(self.queues.get(key).map(Delivery::place), Some(DeliveryState::Waiting(_)))
    }

    /// The delivery that was accepted last.
    pub(super) fn newest(&self) -> Option<DeliveryKey> {
        self.newest
    }

    /// When the next delivery is given up.
    pub(super) fn next_expiry(&self) -> Option<Time> {
        self.expiry.first().map(|&(at, _)| at)
    }

    /// The next delivery whose time is over.
    pub(super) fn pop_expired(&mut self, now: Time) -> Option<DeliveryKey> {
        let &(_, key) = self.expiry.first().filter(|(at, _)| *at <= now)?;
        self.expiry.pop_first();
        Some(key)
    }

    /// Looks at a delivery again at a time.
    pub(super) fn expire_at(&mut self, at: Time, key: DeliveryKey) {
        self.expiry.insert((at, key));
    }

    /// Gives a delivery its fate, once, and frees what nothing needs any more.
    #[inline]
    pub(super) fn end(&mut self, now: Time, key: DeliveryKey, fate: Fate) -> Option<Ended> {
        let delivery = self.queues.forget(key)?;
        self.forget_replaced(key, delivery.record);
        self.coflows.forget(key);
        let held = &mut self.records[delivery.record];
        let leg = held.owed.as_mut().and_then(|owed| owed.end_leg(key));
        if delivery.can_expire {
            let rule = self.options.rules.get(delivery.spec.rule);
            for at in record::ends_of(&held.record, rule) {
                self.expiry.remove(&(at, key));
            }
        }
        held.left -= 1;
        self.account.free(&mut self.streams.get_mut(held.stream).account, 1, Size::ZERO);
        self.tally.finished(now, &delivery, fate);
        if let Fate::Dropped(reason) = fate {
            held.dropped.get_or_insert(reason);
        }
        let released = (held.left == 0).then(|| self.release(delivery.record));
        Some(Ended { delivery, leg, released })
    }

    /// Forgets a record of which every delivery has its fate.
    fn release(&mut self, key: RecordKey) -> Held {
        let held = self.records.remove(key).expect("a record is released once");
        let stream = self.streams.get_mut(held.stream);
        self.account.free(&mut stream.account, 0, held.size);
        stream.forget_newest(&held.record.key, key);
        held
    }

    /// Takes a record out of memory that the log has.
    pub(super) fn leave(&mut self, record: RecordKey) -> Left {
        let legs = self.legs_of(record);
        let may_be_there = self.may_be_there(record);
        legs.into_iter().for_each(|key| self.forget_replaced(key, record));
        let mut held = self.records.remove(record).expect("a record is left once");
        let owed = held.owed.take().expect("what is logged is owed");
        for leg in &owed.legs {
            self.queues.forget(leg.delivery);
            self.coflows.forget(leg.delivery);
            if let Some(at) = held.record.expires {
                self.expiry.remove(&(at, leg.delivery));
            }
        }
        Left { held, owed, may_be_there }
    }

    /// A record that left memory is stored for a stream.
    pub(super) fn count_left(&mut self, left: &Left, to: StreamKey) {
        let (from, deliveries) = (left.held.stream, left.owed.legs.len() as u64);
        let entries = [DeliveryAccount::free, DeliveryAccount::store];
        self.transfer([from, to], deliveries, left.held.size, entries);
        self.streams.note_idle(from);
    }

    /// What counted for one stream counts for another one, which may be the same.
    fn transfer(
        &mut self,
        [from, to]: [StreamKey; 2],
        deliveries: u64,
        size: Size,
        [take, put]: [Booking; 2],
    ) {
        take(&mut self.account, &mut self.streams.get_mut(from).account, deliveries, size);
        put(&mut self.account, &mut self.streams.get_mut(to).account, deliveries, size);
        let [from, to] = [from, to].map(|key| self.streams.get(key).rule);
        self.tally.moved(from, to, deliveries);
    }

    /// Where an attempt to send a record may have arrived.
    fn may_be_there(&self, record: RecordKey) -> Destinations {
        let owed = self.records.get(record).and_then(|held| held.owed.as_ref());
        let legs = owed.into_iter().flat_map(|owed| &owed.legs);
        let is_marked =
            |leg: &&Leg| self.queues.get(leg.delivery).is_some_and(|one| one.progress.again);
        legs.filter(is_marked).fold(Destinations::NONE, |all, leg| all | leg.destinations)
    }

    /// A stored record is in the log, where it counts for a stream.
    pub(super) fn filed(&mut self, from: StreamKey, to: StreamKey, deliveries: u64, size: Size) {
        self.transfer(
            [from, to],
            deliveries,
            size,
            [DeliveryAccount::unstore, DeliveryAccount::store],
        );
        self.streams.note_idle(from);
    }

    /// Stored deliveries of a stream have their fates.
    pub(super) fn stored_ended(
        &mut self,
        key: StreamKey,
        deliveries: u64,
        size: Size,
        reason: DropReason,
    ) {
        let stream = self.streams.get_mut(key);
        self.account.unstore(&mut stream.account, deliveries, size);
        self.tally.dropped(stream.rule, deliveries, reason);
        self.streams.note_idle(key);
    }

    /// A stored record is about to come to memory.
    pub(super) fn taken_back(&mut self, stream: StreamKey, deliveries: u64, size: Size) {
        self.account.unstore(&mut self.streams.get_mut(stream).account, deliveries, size);
    }

    /// A log that was recovered has these; `gone` deliveries of them go nowhere any more.
    pub(super) fn restored(
        &mut self,
        stream: StreamKey,
        records: u64,
        deliveries: u64,
        size: Size,
        gone: u64,
    ) {
        let stream = self.streams.get_mut(stream);
        self.account.store(&mut stream.account, deliveries, size);
        self.tally.accepted(stream.rule, records, deliveries + gone, size);
        self.tally.dropped(stream.rule, gone, DropReason::Unroutable);
    }
}
