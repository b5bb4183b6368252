//! What an outbox gets when it has space: retained messages that were asked for, and what waits in the journal.
//!
//! Messages of the journal that are not in memory any more are read by a thread, never by a connection: a slow disk
//! delays only who waits for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidegate_broker::journal::{Flight, MessageNote, Note, Waiter};
use tidegate_broker::{
    Drops, Message, MessageReservation, Outbox, OutboxDropReason, Pulled, SubscriberMessage,
};
use tidegate_types::units::Time;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::seat::{Seat, Subscriber};
use crate::node::journal::{Journal, wall};

/// Bytes that are read back from the journal at a time.
const READ: usize = 64 * 1024;
/// Sessions that are read for at a time: a thread each, of which others have need.
static READERS: Semaphore = Semaphore::const_new(16);
/// How long a disk that fails is left alone, and how often, before a message is given up.
const PAUSE: Duration = Duration::from_secs(1);
const TRIES: u32 = 60;

/// Messages of the journal that are read for an outbox.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// A thread reads.
    is_under_way: bool,
    /// Moves when the connection ends: what is read for it then goes back.
    connection: u64,
    found: Vec<Found>,
    /// How often the disk failed, one time after the other.
    failures: u32,
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
                let number = pulled.number;
                let Some((packet, is_received)) = pulled.flight else { continue };
                // Of one that is given up the subscriber may have the identifier: that is released.
                let delivery = match is_received {
                    true => None,
                    false => self.delivery(journal, now, pulled, note),
                };
                outbox.restore(packet, number, delivery);
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
                runtime.spawn(async move { seat.read(&journal, all, connection).await });
                None
            }
            _ => Some(fetch_all(journal, all, true).unwrap_or_default()),
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
        let Pulled { number, class, waiter, expires, source, flight } = pulled;
        let give_up = |reason| {
            self.hub.counts().dropped(Drops::from([((class, reason), 1)]));
            journal.write_soon(&match flight {
                Some((id, _)) => {
                    Note::Flights(self.id(), vec![Flight { number, id, is_received: true }])
                }
                None => Note::Done(self.id(), vec![number]),
            });
        };
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
                give_up(OutboxDropReason::Full);
                return None;
            }
        };
        if !self.seat.may_get(&message) {
            give_up(OutboxDropReason::Away);
            return None;
        }
        let charge = MessageReservation::default();
        Some(SubscriberMessage { message, qos, retain, ids, charge, number })
    }
}

impl Seat {
    /// Reads messages for an outbox, and tells its connection; where that has ended meanwhile, they go back.
    /// Where the disk fails they go back too, and are read again a little later.
    async fn read(&self, journal: &Arc<Journal>, all: Vec<Pulled>, connection: u64) {
        let numbers = unread(&all);
        let gives_up = self.reading().failures >= TRIES;
        let reader = journal.clone();
        // Nobody closes it.
        let permit = READERS.acquire().await;
        let read = spawn_blocking(move || fetch_all(&reader, all, gives_up)).await;
        drop(permit);
        let found = read.map_err(io::Error::other).flatten();
        let failed = self.found(journal, found, numbers, connection);
        if let Some(error) = failed {
            tracing::error!(%error, "the journal of sessions cannot be read: again in a second");
            sleep(PAUSE).await;
        }
        self.reading().is_under_way = false;
        self.ring();
    }

    /// Messages were read for its outbox, or could not be.
    fn found(
        &self,
        journal: &Journal,
        found: io::Result<Vec<Found>>,
        numbers: Vec<u64>,
        connection: u64,
    ) -> Option<io::Error> {
        let mut reading = self.reading();
        reading.failures = if found.is_ok() { 0 } else { reading.failures + 1 };
        match found {
            Ok(found) if reading.connection == connection => {
                reading.found = found;
                None
            }
            // Before anything else is read: they are older.
            found => {
                self.return_to(journal, &numbers);
                found.err()
            }
        }
    }

    /// Its connection ended: what was read for it goes back.
    pub(super) fn stop_reading(&self, journal: &Journal) {
        let mut reading = self.reading();
        reading.connection += 1;
        let found = std::mem::take(&mut reading.found);
        drop(reading);
        let found: Vec<Pulled> = found.into_iter().map(|(pulled, _)| pulled).collect();
        self.return_to(journal, &unread(&found));
    }

    fn return_to(&self, journal: &Journal, numbers: &[u64]) {
        if !numbers.is_empty() {
            journal.change(|ledger| ledger.give_back(self.id(), numbers));
        }
    }
}

/// Those that are to be read again where they are not delivered. What is under way stays where it is: it is looked for
/// again.
fn unread(all: &[Pulled]) -> Vec<u64> {
    all.iter().filter(|pulled| pulled.flight.is_none()).map(|pulled| pulled.number).collect()
}

/// Whether only its identifier is needed.
fn is_received(pulled: &Pulled) -> bool {
    pulled.flight.is_some_and(|(_, is_received)| is_received)
}

/// Reads them all, or none; one that the disk does not give is given up where `gives_up`.
fn fetch_all(journal: &Journal, all: Vec<Pulled>, gives_up: bool) -> io::Result<Vec<Found>> {
    let fetch = |pulled: Pulled| {
        let place = pulled.source.as_ref().err().copied().filter(|_| !is_received(&pulled));
        match place.map_or(Ok(None), |place| journal.fetch(pulled.number, place)) {
            Err(error) if !gives_up => Err(error),
            note => Ok((pulled, note.unwrap_or_default())),
        }
    };
    all.into_iter().map(fetch).collect()
}
