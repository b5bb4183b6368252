//! What an outbox gets when it has space: retained messages that were asked for, and what waits in the journal.
//!
//! Messages of the journal that are not in memory any more are read by a thread, never by a connection: a slow disk
//! delays only who waits for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_broker::journal::{MessageNote, Note, Waiter};
use tidegate_broker::{
    Drops, Message, MessageReservation, Outbox, OutboxDropReason, Pulled, SubscriberMessage,
};
use tidegate_types::units::Time;
use tokio::runtime::Handle;

use super::seat::{Seat, Subscriber};
use crate::node::journal::{Journal, wall};

/// Bytes that are read back from the journal at a time.
const READ: usize = 64 * 1024;

/// Messages of the journal that are read for an outbox.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// A thread reads.
    is_under_way: bool,
    /// Moves when the connection ends: what is read for it then goes back.
    connection: u64,
    found: Vec<Found>,
}

/// One of them, as it stands on disk; none where it is in memory, or cannot be read.
type Found = (Pulled, Option<Box<MessageNote>>);

impl Subscriber {
    /// Puts some of what is retained and was asked for into the outbox, and of what waits in the journal. True where there
    /// is more to read.
    pub fn refill(&self, now: Time, outbox: &mut Outbox) -> bool {
        let Some(journal) = self.hub.journal().filter(|_| self.seat.is_durable()) else {
            return self.hub.refill(now, outbox);
        };
        if !outbox.is_connected() || !journal.is_loaded() {
            return false;
        }
        // QoS 2 deliveries that an earlier process had under way keep their identifiers: they come first.
        if self.seat.has_flights.load(Ordering::Relaxed) {
            let pull = || journal.change(|ledger| ledger.pull_flights(self.id()));
            let Some(found) = self.look(journal, pull) else { return false };
            self.seat.has_flights.store(false, Ordering::Relaxed);
            for (pulled, note) in found {
                let (number, flight) = (pulled.number, pulled.flight);
                match flight {
                    Some((packet, true)) => outbox.restore(packet, number, None),
                    Some((packet, false)) => {
                        if let Some(delivery) = self.delivery(journal, now, pulled, note) {
                            outbox.restore(packet, number, Some(delivery));
                        }
                    }
                    None => {}
                }
            }
        }
        if outbox.has_again() {
            return true;
        }
        let has_more = self.hub.refill(now, outbox);
        if !outbox.has_space() {
            return has_more;
        }
        let pull = || journal.change(|ledger| ledger.pull(self.id(), READ));
        let Some(found) = self.look(journal, pull) else { return has_more };
        for (pulled, note) in found {
            if let Some(delivery) = self.delivery(journal, now, pulled, note) {
                outbox.put(delivery);
            }
        }
        outbox.has_space() && journal.read(|ledger| ledger.has_unread(self.id())) || has_more
    }

    /// What was read meanwhile, or what is in memory; none while a thread reads, which rings.
    fn look(
        &self,
        journal: &Arc<Journal>,
        pull: impl FnOnce() -> Vec<Pulled>,
    ) -> Option<Vec<Found>> {
        let mut reading = self.seat.reading();
        if reading.is_under_way {
            return None;
        }
        if !reading.found.is_empty() {
            return Some(std::mem::take(&mut reading.found));
        }
        let all = pull();
        let is_on_disk = |pulled: &Pulled| pulled.source.is_err() && !is_received(pulled);
        match Handle::try_current() {
            Ok(runtime) if all.iter().any(is_on_disk) => {
                reading.is_under_way = true;
                let connection = reading.connection;
                drop(reading);
                let (seat, journal) = (self.seat.clone(), journal.clone());
                runtime.spawn_blocking(move || seat.read(&journal, all, connection));
                None
            }
            _ => Some(all.into_iter().map(|pulled| fetch(journal, pulled)).collect()),
        }
    }

    /// A message of the journal, as its outbox gets it.
    fn delivery(
        &self,
        journal: &Journal,
        now: Time,
        pulled: Pulled,
        note: Option<Box<MessageNote>>,
    ) -> Option<SubscriberMessage> {
        let Pulled { number, class, waiter, expires, source, .. } = pulled;
        let Waiter { qos, retain, ids, .. } = waiter;
        let message = match (source, note) {
            (Ok(message), _) => message,
            (Err(_), Some(note)) => {
                let left = |at: u64| Duration::from_nanos(at.saturating_sub(wall()));
                let expires = expires.map(|at| now + left(at));
                Arc::new(Message { class, arrived: now, expires, ..Message::clone(&note.message) })
            }
            (Err(_), None) => {
                tracing::error!(
                    number,
                    "a message cannot be read back from the journal of sessions"
                );
                self.hub.counts().dropped(Drops::from([((class, OutboxDropReason::Full), 1)]));
                journal.write_soon(&Note::Done(self.id(), vec![number]));
                return None;
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
}

impl Seat {
    /// Reads messages for an outbox, and tells its connection; where that has ended meanwhile, they go back.
    fn read(&self, journal: &Journal, all: Vec<Pulled>, connection: u64) {
        let found: Vec<Found> = all.into_iter().map(|pulled| fetch(journal, pulled)).collect();
        let mut reading = self.reading();
        if reading.connection == connection {
            reading.found = found;
        } else {
            // Before anything else is read: they are older.
            self.return_to(journal, found);
        }
        reading.is_under_way = false;
        drop(reading);
        self.ring();
    }

    /// Its connection ended: what was read for it goes back.
    pub(super) fn stop_reading(&self, journal: &Journal) {
        let mut reading = self.reading();
        reading.connection += 1;
        let found = std::mem::take(&mut reading.found);
        drop(reading);
        self.return_to(journal, found);
    }

    fn return_to(&self, journal: &Journal, found: Vec<Found>) {
        let numbers = found.iter().filter(|(pulled, _)| pulled.flight.is_none());
        let numbers: Vec<u64> = numbers.map(|(pulled, _)| pulled.number).collect();
        // Those that are under way stay where they are: they are looked for again.
        if !numbers.is_empty() {
            journal.change(|ledger| ledger.give_back(self.id(), &numbers));
        }
    }
}

/// Whether only its identifier is needed.
fn is_received(pulled: &Pulled) -> bool {
    pulled.flight.is_some_and(|(_, is_received)| is_received)
}

fn fetch(journal: &Journal, pulled: Pulled) -> Found {
    let place = pulled.source.as_ref().err().copied().filter(|_| !is_received(&pulled));
    let note = place.and_then(|place| journal.fetch(pulled.number, place));
    (pulled, note)
}
