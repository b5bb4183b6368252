//! A subscriber's place: its outbox, and the bell that tells its connection of new messages.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_broker::journal::{Note, SessionNote, Waiter};
use tidegate_broker::{
    DeliveryNews, Drops, Message, MessageReservation, Outbox, OutboxDropReason, OutboxLimits, Pulled,
    SubscriberMessage, Subscription, footprint,
};
use tidegate_node::io::SessionId;
use tidegate_types::account::{Kind, Refusal, Reservation};
use tidegate_types::class::ClassId;
use tidegate_types::units::Time;
use tokio::sync::Notify;

use super::hub::{Hub, Payer, SubscribeError};
use crate::node::journal::{Journal, wall};

/// Bytes that are read back from the journal at a time.
const READ: usize = 64 * 1024;

/// Bytes of subscriptions for which a session that is here needs no reservation: they are among what its
/// connection costs.
const FREE: usize = 4096;

/// What a session's subscriptions take, and what is reserved for it.
#[derive(Debug)]
pub(super) struct Holding {
    bytes: usize,
    /// Bytes that need no reservation.
    free: usize,
    held: Reservation,
    /// As many of its owner's quota.
    counted: Reservation,
}

impl Holding {
    /// A subscription more.
    pub(super) fn grow(&mut self, more: usize) -> Result<(), SubscribeError> {
        self.counted.grow(1).map_err(|_| SubscribeError::Quota)?;
        if let Err(refusal) = self.held.resize((self.bytes + more).saturating_sub(self.free)) {
            self.counted.shrink(1);
            return Err(refusal.into());
        }
        self.bytes += more;
        Ok(())
    }

    fn shrink(&mut self, less: usize) {
        self.counted.shrink(1);
        self.bytes -= less;
        let is_less = self.held.resize(self.bytes.saturating_sub(self.free));
        debug_assert!(is_less.is_ok(), "less fits always");
    }

    /// Its connection pays for so much.
    fn pays(&mut self, free: usize) -> Result<(), Refusal> {
        self.held.resize(self.bytes.saturating_sub(free))?;
        self.free = free;
        Ok(())
    }
}

/// One subscriber. Publishers and its connection share it.
#[derive(Debug)]
pub struct Seat {
    id: SessionId,
    client: Arc<str>,
    holding: Mutex<Holding>,
    outbox: Mutex<Outbox>,
    /// Rung when something came to an outbox that was found empty.
    bell: Notify,
    /// Its connection cannot write: the client does not read.
    is_blocked: AtomicBool,
    /// A publisher waits for room.
    is_awaited: AtomicBool,
    room: Notify,
    /// The journal knows the session.
    is_noted: AtomicBool,
    /// Messages of QoS 1 and 2 for it go to the journal.
    is_durable: AtomicBool,
    /// QoS 2 deliveries of an earlier process are to be put back.
    has_flights: AtomicBool,
    /// What was written of it last must be safe before the next word to its client.
    mark: AtomicU64,
}

impl Seat {
    pub(super) fn new(id: SessionId, bounds: OutboxLimits, payer: &Payer) -> Self {
        let Payer { client, account, subscriptions } = payer;
        let held = account.empty(Kind::Subscriptions);
        let counted = subscriptions.empty(Kind::Subscriptions);
        Seat {
            id,
            client: client.clone(),
            holding: Mutex::new(Holding { bytes: 0, free: FREE, held, counted }),
            outbox: Mutex::new(Outbox::new(bounds, account)),
            bell: Notify::new(),
            is_blocked: AtomicBool::new(false),
            is_awaited: AtomicBool::new(false),
            room: Notify::new(),
            is_noted: AtomicBool::new(false),
            is_durable: AtomicBool::new(false),
            has_flights: AtomicBool::new(false),
            mark: AtomicU64::new(0),
        }
    }

    /// That of a session of an earlier process.
    pub(super) fn restored(
        id: SessionId,
        bounds: OutboxLimits,
        payer: &Payer,
        is_durable: bool,
    ) -> Self {
        let seat = Seat::new(id, bounds, payer);
        seat.is_noted.store(true, Ordering::Relaxed);
        seat.is_durable.store(is_durable, Ordering::Relaxed);
        seat.has_flights.store(true, Ordering::Relaxed);
        seat
    }

    /// Whether the journal knows the session.
    pub(super) fn is_noted(&self) -> bool {
        self.is_noted.load(Ordering::Relaxed)
    }

    /// Whether messages of QoS 1 and 2 for it go to the journal.
    #[inline]
    pub(super) fn is_durable(&self) -> bool {
        self.is_durable.load(Ordering::Relaxed)
    }

    /// The mark that must be safe before the next word to its client.
    pub fn mark(&self) -> u64 {
        self.mark.load(Ordering::Relaxed)
    }

    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    /// Its client id.
    pub(super) fn client(&self) -> &Arc<str> {
        &self.client
    }

    /// Its outbox, for a moment.
    pub fn outbox(&self) -> MutexGuard<'_, Outbox> {
        // An outbox changes by whole steps; one that panicked left it usable.
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn holds(&self) -> MutexGuard<'_, Holding> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A subscription is gone.
    pub(super) fn forgets(&self, subscription: &Subscription) {
        self.holds().shrink(footprint(subscription));
        self.outbox().pending().end(&subscription.filter);
    }

    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Waits until something came. Cancel-safe.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Whether who publishes should wait: the outbox is half full, and its connection is at work on it.
    pub(super) fn is_crowded(&self, outbox: &Outbox) -> bool {
        outbox.is_crowded() && outbox.is_connected() && !self.is_blocked.load(Ordering::Relaxed)
    }

    /// Waits until the outbox is crowded no more. Cancel-safe.
    pub async fn roomy(&self) {
        loop {
            let mut room = std::pin::pin!(self.room.notified());
            room.as_mut().enable();
            self.is_awaited.store(true, Ordering::SeqCst);
            if !self.is_crowded(&self.outbox()) {
                return;
            }
            room.await;
        }
    }

    /// Its connection has taken messages, and cannot write where `is_blocked`.
    pub fn taken(&self, is_blocked: bool) {
        self.is_blocked.store(is_blocked, Ordering::SeqCst);
        if self.is_awaited.load(Ordering::SeqCst) && !self.is_crowded(&self.outbox()) {
            self.is_awaited.store(false, Ordering::SeqCst);
            self.room.notify_waiters();
        }
    }
}

/// A session's claim on its seat: what it has subscribed to ends with it.
#[derive(Debug)]
pub struct Subscriber {
    pub(super) seat: Arc<Seat>,
    pub(super) hub: Hub,
}

impl Subscriber {
    /// Its seat.
    pub fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    /// Its number, by which it may be left out of what it publishes.
    pub fn id(&self) -> SessionId {
        self.seat.id
    }

    /// Where it has subscribed.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

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
        let Pulled { number, waiter: Waiter { qos, retain, ids, .. }, expires, source, .. } = pulled;
        let message = match source {
            Ok(message) => message,
            Err(place) => {
                let Some(note) = journal.fetch(number, place) else {
                    tracing::error!(number, "a message cannot be read back from the journal of sessions");
                    self.hub.counts().dropped(Drops::from([((ClassId(0), OutboxDropReason::Full), 1)]));
                    journal.write_soon(&Note::Done(self.id(), vec![number]));
                    return None;
                };
                let class = self.hub.class_of(&note.message.topic);
                let left = |at: u64| Duration::from_nanos(at.saturating_sub(wall()));
                let expires = expires.map(|at| now + left(at));
                Arc::new(Message { class, arrived: now, expires, ..Message::clone(&note.message) })
            }
        };
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
        let Some(kept) = pen.ledger().session(self.id()).filter(|_| !pen.is_frozen()) else { return };
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

    /// Whether it has subscribed to nothing.
    pub fn is_idle(&self) -> bool {
        self.seat.holds().bytes == 0
    }

    /// Its connection is there, and pays for a part of what it holds.
    pub fn connect(&self) {
        // Less fits always.
        let _ = self.seat.holds().pays(FREE);
    }

    /// It is kept without a connection that would pay for it.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn keep(&self) -> Result<(), Refusal> {
        self.seat.holds().pays(0)
    }

    /// Its connection ended.
    pub fn disconnect(&self) {
        let mut outbox = self.seat.outbox();
        outbox.disconnect();
        let news = outbox.take_news();
        drop(outbox);
        if !news.is_empty() {
            self.note(news);
        }
        self.taken();
    }

    /// Its connection took so many messages, and these were not for it; `times` are those of what operators
    /// made, by meter.
    pub fn delivered(&self, count: usize, drops: Drops, times: &[(u32, Duration)]) {
        self.hub.meters().delivered(times);
        self.hub.counts().delivered(count);
        self.hub.counts().dropped(drops);
    }

    /// Books what its outbox dropped, and tells publishers that wait for room.
    fn taken(&self) {
        let drops = self.seat.outbox().take_drops();
        self.hub.counts().dropped(drops);
        self.seat.taken(false);
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.hub.remove(self.seat.id);
        if let Some(journal) = self.hub.journal().filter(|_| self.seat.is_noted()) {
            let mut pen = journal.pen();
            if !pen.is_frozen() {
                pen.write(&Note::Over(self.seat.id));
            }
        }
        // Publishers may remember the seat until they look at the table again.
        self.seat.outbox().close();
        self.taken();
        let mut holds = self.seat.holds();
        let all = holds.bytes;
        holds.shrink(all);
    }
}
