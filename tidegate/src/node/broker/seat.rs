//! A subscriber's place: its outbox, and the bell that tells its connection of new messages.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_broker::journal::Note;
use tidegate_broker::{Drops, Message, Outbox, OutboxLimits, Subscription, footprint};
use tidegate_node::io::SessionId;
use tidegate_types::account::{Kind, Refusal, Reservation};
use tokio::sync::Notify;

use super::direct::Direct;
use super::hub::{Hub, Payer, SubscribeError};
use super::refilling::Reading;

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
    pub(super) is_noted: AtomicBool,
    /// Messages of QoS 1 and 2 for it go to the journal.
    pub(super) is_durable: AtomicBool,
    /// QoS 2 deliveries of an earlier process are to be put back.
    pub(super) has_flights: AtomicBool,
    /// What was written of it last must be safe before the next word to its client.
    pub(super) mark: AtomicU64,
    right: Mutex<Right>,
    reading: Mutex<Reading>,
    /// While its connection waits, who publishes may write to its client.
    pub(super) direct: Direct,
}

/// Which messages a session may get, where it may not get all.
#[derive(Clone, Default)]
pub(super) struct Right(pub(super) Option<Arc<MayGet>>);

type MayGet = dyn Fn(&Message) -> bool + Send + Sync;

impl fmt::Debug for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Right").field(&self.0.is_some()).finish()
    }
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
            right: Mutex::default(),
            reading: Mutex::default(),
            direct: Direct::default(),
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

    /// From now on it gets no others than these; `None`: all.
    pub(super) fn limit(&self, right: Right) {
        *self.right.lock().unwrap_or_else(PoisonError::into_inner) = right;
    }

    /// Whether it may get a message.
    pub(super) fn may_get(&self, message: &Message) -> bool {
        let right = self.right.lock().unwrap_or_else(PoisonError::into_inner).clone();
        right.0.is_none_or(|right| right(message))
    }

    /// Whether the journal knows the session.
    pub(crate) fn is_noted(&self) -> bool {
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

    /// Messages of the journal that are read for its outbox. Locked after that, never before.
    pub(super) fn reading(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Whether QoS 2 deliveries of an earlier process are still to be put back into its outbox.
    pub fn is_restoring(&self) -> bool {
        self.seat.is_durable() && self.seat.has_flights.load(Ordering::Relaxed)
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
        if let Some(journal) = self.hub.journal().filter(|_| self.seat.is_durable()) {
            self.seat.stop_reading(journal);
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
