//! What one subscriber still has to get: bounded, the most urgent first.
//!
//! A topic is in one class, and a class is a queue: what is published to a topic arrives in its order. Among
//! the classes the earliest deadline goes first while it can be met; what is late waits until nothing is
//! live. A full outbox drops what is least urgent: the oldest of the last class that is not more urgent than
//! the new message, or the new one where all that waits is more urgent.

use std::collections::{BTreeMap, VecDeque};

use super::message::Delivery;
use super::window::Window;
use crate::class::ClassId;
use crate::limits::CLASSES_MAX;
use crate::units::Time;

/// Bytes that a delivery costs beside its message.
const OVERHEAD: usize = 64;

/// Why a subscriber does not get a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The outbox was full.
    Full,
    /// Its time was over.
    Expired,
    /// It is larger than the subscriber takes.
    Oversize,
    /// QoS 0, and the subscriber was away.
    Away,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 4] = [Reason::Full, Reason::Expired, Reason::Oversize, Reason::Away];

    /// A word for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Full => "full",
            Reason::Expired => "expired",
            Reason::Oversize => "oversize",
            Reason::Away => "away",
        }
    }
}

/// How many messages of which class were dropped, and why.
pub type Drops = BTreeMap<(ClassId, Reason), u64>;

/// What an outbox holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Messages.
    pub count: usize,
    /// Bytes, each message counted for each of its subscribers.
    pub bytes: usize,
}

/// What a subscriber is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A PUBLISH.
    Publish {
        /// The message.
        delivery: Delivery,
        /// Its packet identifier, for QoS 1 and 2.
        id: Option<u16>,
        /// Whether it was sent before.
        again: bool,
    },
    /// A PUBREL.
    Release(u16),
}

/// What an acknowledgement was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A publish that waited for it.
    Expected,
    /// Nothing that is known.
    Unknown,
    /// A publish that waits for an acknowledgement of another kind.
    Wrong,
}

/// The messages of one session.
#[derive(Debug)]
pub struct Outbox {
    bounds: Bounds,
    /// By class.
    waiting: Vec<VecDeque<Delivery>>,
    count: usize,
    bytes: usize,
    window: Window,
    is_connected: bool,
    /// The subscriber found nothing, and wants to be told.
    is_asleep: bool,
    drops: Drops,
}

impl Outbox {
    /// An empty one, of a subscriber that is away.
    pub fn new(bounds: Bounds) -> Self {
        Outbox {
            bounds,
            waiting: Vec::new(),
            count: 0,
            bytes: 0,
            window: Window::default(),
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
        self.retain(Reason::Away, |delivery| delivery.qos > 0);
    }

    /// Whether the subscriber is here.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Puts a message behind the others of its class. True where the subscriber is to be told.
    pub fn push(&mut self, delivery: Delivery) -> bool {
        let class = delivery.message.class;
        if delivery.qos == 0 && !self.is_connected {
            self.drop_one(class, Reason::Away);
            return false;
        }
        let cost = cost(&delivery);
        while self.count >= self.bounds.count || self.bytes + cost > self.bounds.bytes {
            if !self.make_room(class) {
                self.drop_one(class, Reason::Full);
                return false;
            }
        }
        self.insert(delivery)
    }

    /// The same for a retained message, which is in memory anyway: the bounds do not count for it.
    pub fn push_retained(&mut self, delivery: Delivery) -> bool {
        self.insert(delivery)
    }

    fn insert(&mut self, delivery: Delivery) -> bool {
        let class = delivery.message.class.index().min(CLASSES_MAX - 1);
        if self.waiting.len() <= class {
            self.waiting.resize_with(class + 1, VecDeque::new);
        }
        self.count += 1;
        self.bytes += cost(&delivery);
        self.waiting[class].push_back(delivery);
        std::mem::take(&mut self.is_asleep)
    }

    /// Drops the oldest message of the last class that is not more urgent than `class`.
    fn make_room(&mut self, class: ClassId) -> bool {
        let victim = (class.index()..self.waiting.len()).rev();
        let Some(victim) = victim.into_iter().find(|&place| !self.waiting[place].is_empty()) else {
            return false;
        };
        self.take(victim);
        self.drop_one(ClassId(victim as u8), Reason::Full);
        true
    }

    fn take(&mut self, class: usize) -> Option<Delivery> {
        let delivery = self.waiting[class].pop_front()?;
        self.count -= 1;
        self.bytes -= cost(&delivery);
        Some(delivery)
    }

    /// What goes now; `None` where there is nothing, or nothing that may go: then `push` tells when there
    /// is, and an acknowledgement may make room.
    pub fn next(&mut self, now: Time) -> Option<Next> {
        if let Some(again) = self.window.again() {
            return Some(again);
        }
        while let Some(class) = self.choose(now) {
            let Some(delivery) = self.take(class) else { break };
            if delivery.message.is_expired(now) {
                self.drop_one(delivery.message.class, Reason::Expired);
                continue;
            }
            let id = (delivery.qos > 0).then(|| self.window.begin(delivery.clone()));
            return Some(Next::Publish { delivery, id, again: false });
        }
        self.is_asleep = self.is_connected;
        None
    }

    /// The class whose turn it is.
    fn choose(&self, now: Time) -> Option<usize> {
        let has_room = self.window.has_room();
        let heads = self.waiting.iter().enumerate();
        let ready = heads.filter_map(|(class, queue)| Some((class, queue.front()?)));
        let ready = ready.filter(|(_, head)| head.qos == 0 || has_room);
        // The late ones come behind, by class.
        let order = |(class, head): &(usize, &Delivery)| {
            let deadline = head.message.deadline;
            if deadline > now { (false, deadline, *class) } else { (true, Time::ZERO, *class) }
        };
        ready.min_by_key(order).map(|(class, _)| class)
    }

    /// A PUBACK.
    pub fn acknowledged(&mut self, id: u16) -> Told {
        self.window.acknowledged(id, 1)
    }

    /// A PUBREC: the answer is a PUBREL, or none where the publish was refused.
    pub fn received(&mut self, id: u16, is_taken: bool) -> Told {
        if is_taken { self.window.received(id) } else { self.window.acknowledged(id, 2) }
    }

    /// A PUBCOMP.
    pub fn completed(&mut self, id: u16) -> Told {
        self.window.completed(id)
    }

    /// What `next` said cannot be sent: it is larger than the subscriber takes.
    pub fn give_up(&mut self, delivery: &Delivery, id: Option<u16>) {
        if let Some(id) = id {
            self.window.acknowledged(id, delivery.qos);
        }
        self.drop_one(delivery.message.class, Reason::Oversize);
    }

    /// Forgets messages to whose topics the subscriber has no right any more.
    pub fn forbid(&mut self, mut is_allowed: impl FnMut(&Delivery) -> bool) {
        self.retain(Reason::Away, |delivery| is_allowed(delivery));
    }

    fn retain(&mut self, why: Reason, mut is_kept: impl FnMut(&Delivery) -> bool) {
        for class in 0..self.waiting.len() {
            let (mut gone, mut bytes) = (0, 0);
            self.waiting[class].retain(|delivery| {
                let is_kept = is_kept(delivery);
                if !is_kept {
                    gone += 1;
                    bytes += cost(delivery);
                }
                is_kept
            });
            self.count -= gone;
            self.bytes -= bytes;
            if gone > 0 {
                *self.drops.entry((ClassId(class as u8), why)).or_default() += gone as u64;
            }
        }
    }

    fn drop_one(&mut self, class: ClassId, why: Reason) {
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

    /// Messages that are sent and not acknowledged.
    pub fn in_flight(&self) -> usize {
        self.window.len()
    }
}

fn cost(delivery: &Delivery) -> usize {
    delivery.message.size() + OVERHEAD
}

#[cfg(test)]
mod tests;
