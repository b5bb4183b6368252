//! A subscriber whose session outlives the process: what the journal hears of it, and what its outbox gets from there.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_broker::journal::{Note, SessionNote, Waiter};
use tidegate_broker::{
    DeliveryNews, Drops, Message, MessageReservation, Outbox, OutboxDropReason, Pulled,
    SubscriberMessage,
};
use tidegate_types::units::Time;

use super::seat::Subscriber;
use crate::node::journal::{Journal, wall};

/// Bytes that are read back from the journal at a time.
const READ: usize = 64 * 1024;

impl Subscriber {
    /// Puts some of what is retained and was asked for into the outbox. True where there is more to read.
    pub fn refill(&self, now: Time, outbox: &mut Outbox) -> bool {
        let has_more = self.hub.refill(now, outbox);
        match self.hub.journal().filter(|_| self.seat.is_durable()) {
            Some(journal) => self.read_back(journal, now, outbox) || has_more,
            None => has_more,
        }
    }

    /// Puts some of what waits in the journal into the outbox. True where there is more to read.
    fn read_back(&self, journal: &Journal, now: Time, outbox: &mut Outbox) -> bool {
        if !outbox.is_connected() || !journal.is_loaded() {
            return false;
        }
        let id = self.id();
        if self.seat.has_flights.swap(false, Ordering::Relaxed) {
            for pulled in journal.change(|ledger| ledger.pull_flights(id)) {
                let number = pulled.number;
                match pulled.flight {
                    Some((packet, true)) => outbox.restore(packet, number, None),
                    Some((packet, false)) => {
                        if let Some(delivery) = self.fetch(journal, now, pulled) {
                            outbox.restore(packet, number, Some(delivery));
                        }
                    }
                    None => {}
                }
            }
            if outbox.has_again() {
                return true;
            }
        }
        if !outbox.has_space() {
            return false;
        }
        for pulled in journal.change(|ledger| ledger.pull(id, READ)) {
            if let Some(delivery) = self.fetch(journal, now, pulled) {
                outbox.put(delivery);
            }
        }
        outbox.has_space() && journal.read(|ledger| ledger.has_unread(id))
    }

    /// A message of the journal, as its outbox gets it.
    fn fetch(&self, journal: &Journal, now: Time, pulled: Pulled) -> Option<SubscriberMessage> {
        let Pulled { number, class, waiter, expires, source, .. } = pulled;
        let Waiter { qos, retain, ids, .. } = waiter;
        let message = match source {
            Ok(message) => message,
            Err(place) => {
                let Some(note) = journal.fetch(number, place) else {
                    tracing::error!(
                        number,
                        "a message cannot be read back from the journal of sessions"
                    );
                    self.hub.counts().dropped(Drops::from([((class, OutboxDropReason::Full), 1)]));
                    journal.write_soon(&Note::Done(self.id(), vec![number]));
                    return None;
                };
                let left = |at: u64| Duration::from_nanos(at.saturating_sub(wall()));
                let expires = expires.map(|at| now + left(at));
                Arc::new(Message { class, arrived: now, expires, ..Message::clone(&note.message) })
            }
        };
        if !self.seat.may_get(&message) {
            self.hub.counts().dropped(Drops::from([((class, OutboxDropReason::Away), 1)]));
            journal.write_soon(&Note::Done(self.id(), vec![number]));
            return None;
        }
        let charge = MessageReservation::default();
        Some(SubscriberMessage { message, qos, retain, ids, charge, number })
    }

    /// Begins, or goes on with, a session that outlives the process: the journal hears of it, and its client of nothing
    /// before that is safe.
    pub fn endure(&self, note: SessionNote) {
        self.seat.is_noted.store(true, Ordering::Relaxed);
        if note.expiry > 0 {
            self.seat.is_durable.store(true, Ordering::Relaxed);
        }
        self.write(&Note::Session(Box::new(note)));
    }

    /// Its client is away until the session ends, or its will is due.
    pub fn away(&self, lasting: Duration, will: Option<Duration>) {
        let Some(journal) = self.hub.journal().filter(|_| self.seat.is_noted()) else { return };
        let mut pen = journal.pen();
        let now = pen.wall();
        let Some(kept) = pen.ledger().session(self.id()).filter(|_| !pen.is_frozen()) else {
            return;
        };
        let after = |span: Duration| {
            now.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)).max(1)
        };
        let mut note = kept.note.clone();
        note.ends = after(lasting);
        note.will = note.will.filter(|_| will.is_some());
        if let (Some(note), Some(delay)) = (&mut note.will, will) {
            note.due = after(delay);
        }
        pen.write(&Note::Session(Box::new(note)));
    }

    /// Writes something that must be safe before the next word to its client.
    pub(crate) fn write(&self, note: &Note) {
        if let Some(journal) = self.hub.journal() {
            self.seat.mark.store(journal.write(note), Ordering::Relaxed);
        }
    }

    /// What the journal is to hear of its deliveries.
    pub fn note(&self, news: DeliveryNews) {
        let Some(journal) = self.hub.journal() else { return };
        let DeliveryNews { done, flights, returned } = news;
        if !returned.is_empty() {
            journal.change(|ledger| ledger.give_back(self.id(), &returned));
        }
        let mut pen = journal.pen();
        if !flights.is_empty() {
            pen.write(&Note::Flights(self.id(), flights));
            self.seat.mark.store(pen.urge(), Ordering::Relaxed);
        }
        if !done.is_empty() {
            pen.write(&Note::Done(self.id(), done));
        }
    }
}
