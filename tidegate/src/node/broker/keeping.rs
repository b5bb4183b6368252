//! What is published for subscribers whose sessions outlive the process, and what is retained, goes to the journal: each
//! message once.

use std::sync::Arc;

use tidegate_broker::journal::{MessageNote, Note, Waiter};
use tidegate_broker::{Drops, Message, OutboxDropReason, Recipient};
use tidegate_node::io::SessionId;

use super::publisher::Publisher;
use super::seat::Seat;
use crate::node::journal::Journal;

/// Who waits for a message.
pub(super) type Waiting<'w> = Vec<(&'w Arc<Seat>, &'w Recipient)>;

/// What the journal is to know of who publishes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sender {
    pub(super) packet: Option<(SessionId, u16)>,
    pub(super) will_of: Option<SessionId>,
}

impl Publisher {
    /// What must be safe in the journal before what was published is acknowledged.
    pub fn mark(&self) -> u64 {
        self.mark
    }

    /// Hands a QoS 2 message to its subscribers, which came under a packet identifier.
    pub fn publish_once(&mut self, (packet, message): (Option<u16>, Arc<Message>)) {
        self.sender.packet = self.session.zip(packet);
        self.publish(message);
        self.sender.packet = None;
    }

    /// What is published until this is said again is the will of a session.
    pub(crate) fn speak_as_will(&mut self, session: Option<SessionId>) {
        self.sender.will_of = session;
    }

    /// Writes a run of messages to the journal, each once, for those who wait for it there.
    pub(super) fn keep(
        &mut self,
        journal: &Journal,
        run: &[Arc<Message>],
        waiters: Vec<Waiting<'_>>,
    ) {
        let is_kept =
            |(message, waiters): (&Arc<Message>, &Vec<_>)| message.retain || !waiters.is_empty();
        if !run.iter().zip(&waiters).any(is_kept) {
            return;
        }
        let mut pen = journal.pen();
        for (message, seats) in run.iter().zip(waiters) {
            // Under the pen: what is retained last here is so in the journal.
            let is_retained = message.retain && self.hub.retain(message);
            if message.retain && !is_retained {
                pen.write(&Note::Unretained(message.topic.clone()));
            }
            if is_retained || !seats.is_empty() {
                let left = message.expires.map(|at| at.since(message.arrived).as_nanos());
                let left = left.map(|left| u64::try_from(left).unwrap_or(u64::MAX));
                let waiter = |(seat, target): &(&Arc<Seat>, &Recipient)| Waiter {
                    session: seat.id(),
                    qos: message.qos.min(target.qos),
                    retain: message.retain && target.retain_as_published,
                    ids: target.ids.clone(),
                };
                let Sender { packet, will_of } = self.sender;
                let applied = pen.write(&Note::Message(Box::new(MessageNote {
                    number: pen.number(),
                    message: message.clone(),
                    expires: left.map(|left| pen.wall().saturating_add(left)),
                    is_retained,
                    waiters: seats.iter().map(waiter).collect(),
                    packet,
                    will_of,
                })));
                let mut news = applied.news.iter().peekable();
                for (seat, _) in seats {
                    if news.next_if_eq(&&seat.id()).is_some() {
                        seat.ring();
                    }
                }
                for (_, _, class) in applied.dropped {
                    self.hub.counts().dropped(Drops::from([((class, OutboxDropReason::Full), 1)]));
                }
            }
            if message.qos > 0 {
                self.mark = pen.urge();
            }
        }
    }
}

/// Whether a message goes to a subscriber by the journal.
#[inline]
pub(super) fn is_kept(seat: &Seat, target: &Recipient, message: &Message) -> bool {
    seat.is_durable() && message.qos.min(target.qos) > 0
}
