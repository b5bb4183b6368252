//! What subscribers are sent.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tidegate_broker::{NextSend, Outbox};
use tidegate_types::units::Time;

use super::Session;
use crate::mqtt::deliver::{self, Alias};
use crate::mqtt::{Version, write};
use crate::node::broker::{Seat, Subscriber};

/// Bytes that are encoded before they are written: several writes' worth, and no more.
const OUT_MAX: usize = 64 * 1024;
/// Topic aliases that are used toward one client: each keeps its topic in memory.
const ALIASES_MAX: u16 = 64;
/// Longer topics get none.
const ALIASED_MAX: usize = 256;
/// Unacknowledged publishes to one client, whatever it takes.
const RECEIVE_MAXIMUM: u16 = 4096;

/// What a client said of how it wants to be sent publishes.
#[derive(Debug, Default)]
pub(super) struct Outward {
    receive_maximum: u16,
    aliases: Aliases,
}

impl Outward {
    pub(super) fn new(receive_maximum: u16, topic_alias_maximum: u16) -> Self {
        Outward {
            receive_maximum: receive_maximum.min(RECEIVE_MAXIMUM),
            aliases: Aliases {
                maximum: topic_alias_maximum.min(ALIASES_MAX),
                ..Aliases::default()
            },
        }
    }
}

/// The aliases of a connection, outward: the first topics get them.
#[derive(Debug, Default)]
struct Aliases {
    maximum: u16,
    numbers: HashMap<Bytes, u16>,
}

impl Aliases {
    fn of(&mut self, topic: &Bytes) -> Option<Alias> {
        if self.maximum == 0 {
            return None;
        }
        if topic.len() > ALIASED_MAX {
            return None;
        }
        if let Some(&number) = self.numbers.get(topic) {
            return Some(Alias { number, is_known: true });
        }
        let number = self.numbers.len() as u16 + 1;
        (number <= self.maximum).then(|| {
            self.numbers.insert(topic.clone(), number);
            Alias { number, is_known: false }
        })
    }

    /// A publish that would have told the alias was not sent.
    fn forget(&mut self, topic: &Bytes) {
        self.numbers.remove(topic);
    }
}

impl Session {
    /// The session's subscriptions, if it ever had any.
    pub(crate) fn subscriber(&self) -> Option<&Subscriber> {
        self.answers.memory.subscriber.as_ref()
    }

    /// How long the log is to know the session: not at all once it has subscribed. Subscriptions do not
    /// outlive the process, and a client that found its session without them would wait in vain.
    pub(crate) fn logged_expiry(&self) -> Duration {
        if self.subscriber().is_some() { Duration::ZERO } else { self.session_expiry() }
    }

    /// The session's place at the broker.
    pub(crate) fn seat(&self) -> Option<&Arc<Seat>> {
        self.subscriber().map(Subscriber::seat)
    }

    pub(super) fn outbox(&self) -> Option<MutexGuard<'_, Outbox>> {
        self.seat().map(|seat| seat.outbox())
    }

    /// The session has subscribed for the first time.
    pub(crate) fn set_subscriber(&mut self, subscriber: Subscriber) {
        self.answers.memory.subscriber = Some(subscriber);
        self.begin_delivery();
    }

    /// The client takes messages from now on; what it has not acknowledged comes again.
    pub(super) fn begin_delivery(&mut self) {
        let receive_maximum = self.outward.receive_maximum;
        if let Some(subscriber) = self.subscriber() {
            subscriber.connect();
            subscriber.seat().outbox().connect(receive_maximum);
        }
    }

    /// Writes what the subscriber is to get, up to a bound. True where there may be more at once.
    pub(crate) fn deliver(&mut self, now: Time, out: &mut Vec<u8>) -> bool {
        let (Some(version), Some(seat)) = (self.version, self.seat().cloned()) else {
            return false;
        };
        let maximum = self.client_maximum as usize;
        let mut outbox = seat.outbox();
        let mut count = 0;
        let mut times = Vec::new();
        let has_more = loop {
            if out.len() >= OUT_MAX {
                break true;
            }
            match outbox.next(now) {
                None => {
                    // Read as it is taken, and looked for again where there was nothing yet.
                    let subscriber = self.answers.memory.subscriber.as_ref();
                    let has_more =
                        subscriber.is_some_and(|subscriber| subscriber.refill(now, &mut outbox));
                    if outbox.has_ready(now) {
                        continue;
                    }
                    break has_more;
                }
                Some(NextSend::Release(id)) => write::release(out, id),
                Some(NextSend::Publish { delivery, id, again }) => {
                    let message = &delivery.message;
                    let is_new = version == Version::V5;
                    let alias = self.outward.aliases.of(&message.topic).filter(|_| is_new);
                    let expires = message.expires.filter(|_| is_new);
                    // A second that has begun counts: 0 would be "not at all".
                    let expiry = expires.map(|at| at.since(now).as_secs_f64().ceil() as u32);
                    let outward =
                        deliver::Outward { delivery: &delivery, id, again, alias, expiry };
                    if deliver::publish(out, version, &outward, maximum) {
                        count += 1;
                        let meter = message.meter.filter(|_| !again);
                        times.extend(meter.map(|meter| (meter, now.since(message.arrived))));
                        continue;
                    }
                    if alias.is_some_and(|alias| !alias.is_known) {
                        self.outward.aliases.forget(&message.topic);
                    }
                    let (class, kept) = (message.class, id.map(|id| (id, delivery.qos)));
                    drop(delivery);
                    outbox.give_up(class, kept);
                }
            }
        };
        let drops = outbox.take_drops();
        drop(outbox);
        if let Some(subscriber) = self.subscriber() {
            subscriber.delivered(count, drops, &times);
        }
        has_more
    }
}
