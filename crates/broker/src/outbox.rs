//! What one subscriber still has to get: bounded, the most urgent first.
//!
//! A topic is in one class, and a class is a queue: what is published to a topic arrives in its order. Among
//! the classes the earliest deadline goes first while it can be met; what is late waits until nothing is
//! live. A full outbox drops what is least urgent: the oldest of the last class that is not more urgent than
//! the new message, or the new one where all that waits is more urgent.

use tidegate_types::account::{Account, Kind, Reservation};
use tidegate_types::class::ClassId;
use tidegate_types::limits::CLASSES_MAX;
use tidegate_types::units::Time;

use self::queue::{ClassQueue, cost};
use super::delivery::{AckOutcome, Drops, NextMessage, NextSend, OutboxDropReason, OutboxLimits};
use super::in_flight::FlightWindow;
use super::message::{Message, MessageReservation, SubscriberMessage};
use super::pending::PendingRetained;
use super::retained::{Retained, RetainedItem};

/// Places that are reserved at a time, and how many a subscriber has beside them, with its session.
const PLACES: usize = 64;
const PLACES_FREE: usize = 8;
/// Memory of messages for which a subscriber that is here needs no reservation: it is among what its
/// connection costs. Who keeps up with what comes never needs one.
const FREE: usize = 16 * 1024;
/// The part of what may wait from which it is much.
const CROWDED_PART: usize = 2;
/// Retained messages are read while no more than this waits, or than a part of what may.
const REFILL: usize = 64 * 1024;
const REFILL_PART: usize = 4;
/// The part of its bounds that a window may take: the rest is for what waits.
const WINDOW_PART: usize = 2;

/// The messages of one session.
#[derive(Debug)]
pub struct Outbox {
    bounds: OutboxLimits,
    /// By class.
    waiting: Vec<ClassQueue>,
    count: usize,
    bytes: usize,
    /// Memory of messages that are gone and whose runs are not.
    spent: usize,
    window: FlightWindow,
    is_connected: bool,
    /// The subscriber found nothing, and wants to be told.
    is_asleep: bool,
    drops: Drops,
    /// Retained messages that were asked for and are still to be read.
    pending: PendingRetained,
    /// For places.
    held: Reservation,
}

impl Outbox {
    /// An empty one, of a subscriber that is away; what it holds is reserved of the account.
    pub fn new(bounds: OutboxLimits, account: &Account) -> Self {
        Outbox {
            bounds,
            pending: PendingRetained::default(),
            held: account.empty(Kind::Messages),
            waiting: Vec::new(),
            count: 0,
            bytes: 0,
            spent: 0,
            window: FlightWindow::default(),
            is_connected: false,
            is_asleep: false,
            drops: Drops::new(),
        }
    }

    /// The subscriber is here, and takes so many unacknowledged publishes.
    pub fn connect(&mut self, receive_maximum: u16) {
        self.is_connected = true;
        self.is_asleep = false;
        self.window.connect(receive_maximum);
    }

    /// The subscriber is away: QoS 0 does not wait for it.
    pub fn disconnect(&mut self) {
        self.is_connected = false;
        self.give_back();
        self.retain(OutboxDropReason::Away, |delivery| delivery.qos > 0);
        // What was among a connection's costs has none any more.
        let account = self.held.account().clone();
        let mut has_room = |delivery: &mut SubscriberMessage| {
            // What is under way of the journal is little: it read no more than that.
            if !delivery.charge.is_set() && delivery.number == 0 {
                match MessageReservation::of(delivery.message.footprint(), &account) {
                    Ok(charge) => delivery.charge = charge,
                    Err(_) => return false,
                }
            }
            true
        };
        let is_held = self.window.deliveries().all(&mut has_room);
        self.retain(OutboxDropReason::Full, |delivery| is_held && has_room(delivery));
        self.tidy();
    }

    /// The subscriber is gone for good: nothing waits, and nothing will.
    pub fn close(&mut self) {
        self.is_connected = false;
        self.bounds = OutboxLimits { count: 0, bytes: 0 };
        (self.waiting, self.count, self.bytes, self.spent) = (Vec::new(), 0, 0, 0);
        (self.window, self.pending) = (FlightWindow::default(), PendingRetained::default());
        self.held.shrink(self.held.bytes());
    }

    /// Whether the subscriber is here.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Puts a message behind the others of its class. True where the subscriber is to be told.
    pub fn push(&mut self, mut delivery: SubscriberMessage) -> bool {
        let class = delivery.message.class;
        if delivery.qos == 0 && !self.is_connected {
            self.drop_one(class, OutboxDropReason::Away);
            return false;
        }
        let cost = cost(&delivery);
        while self.count >= self.bounds.count || self.held_bytes() + cost > self.bounds.bytes {
            if !self.make_room(class) {
                self.drop_one(class, OutboxDropReason::Full);
                return false;
            }
        }
        if !self.has_memory(&mut delivery) {
            self.drop_one(class, OutboxDropReason::Full);
            return false;
        }
        self.insert(delivery)
    }

    fn insert(&mut self, delivery: SubscriberMessage) -> bool {
        self.add(delivery);
        std::mem::take(&mut self.is_asleep)
    }

    fn add(&mut self, delivery: SubscriberMessage) {
        self.count += 1;
        self.bytes += cost(&delivery);
        self.queue(delivery.message.class).push(delivery);
    }

    fn queue(&mut self, class: ClassId) -> &mut ClassQueue {
        let class = class.index().min(CLASSES_MAX - 1);
        if self.waiting.len() <= class {
            self.waiting.resize_with(class + 1, ClassQueue::default);
        }
        &mut self.waiting[class]
    }

    /// Drops the oldest message of the last class that is not more urgent than `class`, and not of the journal: of those
    /// the outbox has few.
    fn make_room(&mut self, class: ClassId) -> bool {
        let victim = (class.index()..self.waiting.len())
            .rev()
            .find_map(|class| Some((class, self.waiting[class].first_free()?)));
        let Some((class, place)) = victim else { return false };
        self.take(class, place);
        self.drop_one(ClassId(class as u8), OutboxDropReason::Full);
        true
    }

    fn take(&mut self, class: usize, place: usize) -> Option<SubscriberMessage> {
        let delivery = self.waiting[class].take(place, &mut self.spent)?;
        self.count -= 1;
        self.bytes -= cost(&delivery);
        Some(delivery)
    }

    /// What goes now; `None` where there is nothing, or nothing that may go: then `push` tells when there
    /// is, and an acknowledgement may make room.
    pub fn next(&mut self, now: Time) -> Option<NextSend<'_>> {
        if self.window.has_again() {
            return self.window.again();
        }
        while let Some(class) = self.choose(now) {
            let places = self.waiting[class].len();
            let Some(delivery) = self.take(class, 0) else { break };
            // The rest of a run keeps its place: one of it needs another in the window.
            let is_split = delivery.qos > 0 && self.waiting[class].len() == places;
            let reason = match delivery.message.is_expired(now) {
                true => Some(OutboxDropReason::Expired),
                false if is_split && !self.has_place() => Some(OutboxDropReason::Full),
                false => None,
            };
            if let Some(reason) = reason {
                self.drop_one(delivery.message.class, reason);
                self.done(delivery.number);
                continue;
            }
            let (id, delivery) = if delivery.qos == 0 {
                self.tidy();
                (None, NextMessage::Done(delivery))
            } else {
                let id = self.window.begin(delivery);
                self.tidy();
                (Some(id), NextMessage::Kept(self.window.newest()?))
            };
            return Some(NextSend::Publish { delivery, id, again: false });
        }
        self.tidy();
        self.is_asleep = self.is_connected;
        None
    }

    /// The class whose turn it is.
    fn choose(&self, now: Time) -> Option<usize> {
        let is_over = self.window.bytes() > self.bounds.bytes / WINDOW_PART;
        let has_room = self.window.has_room() && !is_over;
        let heads = self.waiting.iter().enumerate();
        let ready = heads.filter_map(|(class, queue)| Some((class, queue.head()?)));
        let ready = ready.filter(|(_, (_, qos))| *qos == 0 || has_room);
        // The late ones come behind, by class.
        let order = |(class, (head, _)): &(usize, (&Message, u8))| {
            let deadline = head.deadline;
            if deadline > now { (false, deadline, *class) } else { (true, Time::ZERO, *class) }
        };
        ready.min_by_key(order).map(|(class, _)| class)
    }

    /// Whether something may go. Where nothing may, `push` tells when there is.
    pub fn has_ready(&mut self, now: Time) -> bool {
        let has_ready = self.choose(now).is_some();
        self.is_asleep = self.is_connected && !has_ready;
        has_ready
    }

    /// A PUBACK.
    pub fn acknowledged(&mut self, id: u16) -> AckOutcome {
        // What it had reserved goes with the next look at what waits.
        self.window.acknowledged(id, 1)
    }

    /// A PUBREC: the answer is a PUBREL, or none where the publish was refused.
    pub fn received(&mut self, id: u16, is_taken: bool) -> AckOutcome {
        if is_taken { self.window.received(id) } else { self.window.acknowledged(id, 2) }
    }

    /// A PUBCOMP.
    pub fn completed(&mut self, id: u16) -> AckOutcome {
        self.window.completed(id)
    }

    /// What `next` said cannot be sent: a message of this class is larger than the subscriber takes. `kept` is the
    /// identifier and QoS of one that waits for its acknowledgement.
    pub fn give_up(&mut self, class: ClassId, kept: Option<(u16, u8)>) {
        if let Some((id, qos)) = kept {
            self.window.acknowledged(id, qos);
        }
        self.drop_one(class, OutboxDropReason::Oversize);
    }

    /// Forgets messages to whose topics the subscriber has no right any more.
    pub fn forbid(&mut self, mut is_allowed: impl FnMut(&SubscriberMessage) -> bool) {
        self.retain(OutboxDropReason::Away, |delivery| is_allowed(delivery));
    }

    fn retain(
        &mut self,
        why: OutboxDropReason,
        mut is_kept: impl FnMut(&mut SubscriberMessage) -> bool,
    ) {
        for class in 0..self.waiting.len() {
            let mut before = std::mem::take(&mut self.waiting[class]);
            while let Some(mut delivery) = before.take(0, &mut self.spent) {
                self.count -= 1;
                self.bytes -= cost(&delivery);
                let reason = match is_kept(&mut delivery) {
                    false => why,
                    // One of a run has its own place from now on.
                    true if delivery.number == 0 && !self.has_place() => OutboxDropReason::Full,
                    true => {
                        self.add(delivery);
                        continue;
                    }
                };
                self.drop_one(ClassId(class as u8), reason);
                self.done(delivery.number);
            }
        }
    }

    fn drop_one(&mut self, class: ClassId, why: OutboxDropReason) {
        *self.drops.entry((class, why)).or_default() += 1;
    }

    /// What was dropped since this was asked last.
    pub fn take_drops(&mut self) -> Drops {
        if self.drops.is_empty() { Drops::new() } else { std::mem::take(&mut self.drops) }
    }

    /// Messages that wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of those that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether those that wait take a good part of what they may.
    pub fn is_crowded(&self) -> bool {
        self.bytes > self.bounds.bytes.saturating_sub(self.window.bytes()) / CROWDED_PART
    }

    /// Retained messages that are still to be read.
    pub fn pending(&mut self) -> &mut PendingRetained {
        &mut self.pending
    }

    /// Puts what is retained behind what waits, as far as it is small: up to so many `steps` of reading.
    /// True where there is more to read, and room for it.
    pub fn refill(&mut self, now: Time, retained: &mut Retained, mut steps: usize) -> bool {
        while self.has_appetite() {
            match self.pending.next(now, retained, &mut steps) {
                RetainedItem::Message(message) => {
                    let mut delivery = self.pending.delivery(message);
                    let class = delivery.message.class;
                    if self.has_memory(&mut delivery) {
                        self.insert(delivery);
                    } else {
                        self.drop_one(class, OutboxDropReason::Full);
                    }
                }
                RetainedItem::Later => return true,
                RetainedItem::End => return false,
            }
        }
        false
    }

    /// Whether there is something retained to read, and little that waits.
    pub fn has_appetite(&self) -> bool {
        self.has_space() && !self.pending.is_empty()
    }

    /// Messages that are sent and not acknowledged.
    pub fn in_flight(&self) -> usize {
        self.window.len()
    }
}

mod journaled;
mod memory;
mod queue;
mod runs;
#[cfg(test)]
mod tests;
