//! The table that all publishers and subscribers of a node share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use tidegate_broker::journal::Note;
use tidegate_broker::{
    Message, Outbox, OutboxLimits, RetainOutcome, Retained, Scopes, SubscribeOptions, Subscription,
    Subscriptions, footprint,
};
use tidegate_cluster::handover::UnitId;
use tidegate_node::io::SessionId;
use tidegate_types::account::{Account, Level, Refusal};
use tidegate_types::topic::Filter;
use tidegate_types::units::Time;

use self::changes::Changes;
use super::counts::{BrokerCounts, BrokerStatus};
use super::meter::Meters;
use super::operate::Operate;
use super::placement::Placement;
use super::publisher::Publisher;
use super::seat::{Right, Seat, Subscriber};
use crate::node::journal::Journal;

/// Subscriptions of one session.
const SUBSCRIPTIONS_MAX: usize = 10_000;
/// Parts of what all clients may make the node hold that those of one listener may: the rest is for the others.
const LISTENER_PARTS: (usize, usize) = (3, 4);
/// Topics that are looked at for one subscriber at a time, while others wait for what is retained.
const REFILL_STEPS: usize = 256;

/// What a broker holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HubOptions {
    /// Bytes that wait for one subscriber.
    pub queue: usize,
    /// Bytes of retained messages.
    pub retained: usize,
    /// Bytes of all else that clients may make it hold: sessions, subscriptions, what waits for subscribers,
    /// wills, packets that are not complete.
    pub clients: usize,
}

impl Default for HubOptions {
    /// 4 MiB for a subscriber, 64 MiB retained, 32 MiB for all clients.
    fn default() -> Self {
        HubOptions { queue: 4 << 20, retained: 64 << 20, clients: 32 << 20 }
    }
}

/// Why a subscription is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// The session has too many.
    #[error("more than {SUBSCRIPTIONS_MAX} subscriptions")]
    TooMany,
    /// Its user has too many.
    #[error("more subscriptions than the quota of its user")]
    Quota,
    /// There is no memory for it.
    #[error(transparent)]
    Full(#[from] Refusal),
}

/// On whose accounts a subscriber is.
#[derive(Clone, Debug)]
pub struct Payer {
    /// Its client id, for people.
    pub client: Arc<str>,
    /// Of bytes.
    pub account: Account,
    /// Of subscriptions: a number of them.
    pub subscriptions: Account,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) subscriptions: Subscriptions,
    pub(super) seats: BTreeMap<SessionId, Arc<Seat>>,
    pub(super) scopes: Scopes,
    pub(super) operators: Vec<Arc<dyn Operate>>,
    /// Numbers that were given.
    given: u32,
    changes: Changes,
}

#[derive(Debug)]
struct Inner {
    bounds: OutboxLimits,
    table: RwLock<Table>,
    turn: Mutex<()>,
    /// Moves with every change of the table.
    generation: AtomicU64,
    has_local: AtomicBool,
    retained: Mutex<Retained>,
    counts: BrokerCounts,
    meters: Meters,
    group: OnceLock<Arc<dyn Placement>>,
    /// Of all that clients may make it hold, but for what is retained.
    account: Account,
    /// How many subscriptions there are, by user.
    subscriptions: Account,
    journal: OnceLock<Arc<Journal>>,
}

/// A broker. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Hub(Arc<Inner>);

impl Default for Hub {
    fn default() -> Self {
        Hub::new(HubOptions::default())
    }
}

impl Hub {
    /// A broker that nobody has subscribed at.
    pub fn new(options: HubOptions) -> Self {
        let all = Account::new(options.clients.saturating_add(options.retained));
        let retained = all.share(Level::Kind, options.retained);
        let account = all.share(Level::All, options.clients);
        Hub(Arc::new(Inner {
            meters: Meters::new(account.clone()),
            account,
            subscriptions: Account::new(usize::MAX),
            bounds: OutboxLimits { count: usize::MAX, bytes: options.queue },
            table: RwLock::default(),
            turn: Mutex::default(),
            generation: AtomicU64::new(1),
            has_local: AtomicBool::new(false),
            retained: Mutex::new(Retained::new(retained)),
            counts: BrokerCounts::default(),
            group: OnceLock::new(),
            journal: OnceLock::new(),
        }))
    }

    /// The classes of topics from now on.
    pub fn set_scopes(&self, scopes: Scopes) {
        self.0.has_local.store(scopes.has_local(), Ordering::Relaxed);
        self.change().scopes = scopes;
    }

    /// The operators of topics from now on.
    pub fn set_operators(&self, operators: Vec<Arc<dyn Operate>>) {
        self.change().operators = operators;
    }

    /// Works on what waits of a unit before anything else.
    pub(crate) fn hurry(&self, unit: UnitId) {
        // All have one pool.
        if let Some(operator) = self.table().operators.first() {
            operator.hurry(unit);
        }
    }

    /// The group that it is a member of, once and for all.
    pub(crate) fn set_group(&self, group: Arc<dyn Placement>) {
        let _first = self.change();
        // A node has one.
        let _ = self.0.group.set(group);
    }

    /// The group that it is a member of.
    pub fn group(&self) -> Option<&dyn Placement> {
        self.0.group.get().map(Arc::as_ref)
    }

    /// Figures of the topics of operators.
    pub fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// Whether the records of a topic are for subscribers here only.
    pub fn is_local(&self, topic: &[u8]) -> bool {
        let table = self.table();
        let scope = std::str::from_utf8(topic).ok().and_then(|topic| table.scopes.find(topic));
        scope.is_some_and(|scope| scope.is_local)
    }

    /// Whether any topic is for subscribers here only.
    pub fn has_local(&self) -> bool {
        self.0.has_local.load(Ordering::Relaxed)
    }

    /// What all clients together may make it hold.
    pub fn account(&self) -> &Account {
        &self.0.account
    }

    /// What the clients of one listener may, so that those of the others find room.
    pub fn account_of_listener(&self) -> Account {
        let (parts, of) = LISTENER_PARTS;
        let account = &self.0.account;
        account.share(Level::Listener, account.bound() / of * parts)
    }

    /// The number of subscriptions of a user, or of an address, who may have so many.
    pub fn subscriptions_of(&self, user: &str, most: Option<u32>) -> Account {
        let most = most.map_or(usize::MAX, |most| most as usize);
        self.0.subscriptions.named(Level::User, user, most)
    }

    /// What a connection publishes by.
    pub fn publisher(&self) -> Publisher {
        Publisher::new(self.clone())
    }

    /// A seat for a session that subscribes for the first time; what it holds is on these accounts.
    pub fn subscriber(&self, payer: &Payer) -> Subscriber {
        let mut table = self.write();
        let mut id = SessionId(table.given);
        while table.seats.contains_key(&id) {
            id = SessionId(id.0.wrapping_add(1));
        }
        table.given = id.0.wrapping_add(1);
        let seat = Arc::new(Seat::new(id, self.0.bounds, payer));
        table.seats.insert(id, seat.clone());
        Subscriber { seat, hub: self.clone() }
    }

    /// Subscribes. What is retained is read when the subscriber has room for it: never for a shared
    /// subscription, else as `wants_retained` says of a subscription that is new or not.
    ///
    /// # Errors
    /// See [`SubscribeError`].
    pub fn subscribe(
        &self,
        subscriber: &Subscriber,
        subscription: Subscription,
        options: SubscribeOptions,
        wants_retained: impl FnOnce(bool) -> bool,
    ) -> Result<(), SubscribeError> {
        let id = subscriber.id();
        let filter = subscription.group.is_none().then(|| subscription.filter.clone());
        let mut table = self.write();
        let before = table.subscriptions.options(id, &subscription);
        let is_new = before.is_none();
        if is_new {
            if table.subscriptions.count(id) >= SUBSCRIPTIONS_MAX {
                return Err(SubscribeError::TooMany);
            }
            subscriber.seat.holds().grow(footprint(&subscription))?;
        }
        // A client that comes back says what is on disk already: it is not to wait for the disk again.
        let note = subscriber.seat.is_noted() && before != Some(options);
        let note = note.then(|| Note::Subscribed(id, subscription.text().into(), options));
        if before != Some(options) {
            self.note_change(&mut table, Some(&subscription.filter));
            table.subscriptions.subscribe(id, subscription, options);
        }
        drop(table);
        note.iter().for_each(|note| subscriber.write(note));
        if let Some(filter) = filter.filter(|_| wants_retained(is_new)) {
            subscriber.seat.outbox().pending().ask(filter, options.qos, options.id);
            subscriber.seat.ring();
        }
        Ok(())
    }

    /// Puts some of what is retained into a subscriber's outbox, where it asked for it and little waits there.
    /// True where there is more to read.
    pub(super) fn refill(&self, now: Time, outbox: &mut Outbox) -> bool {
        // In this order everywhere. What is published meanwhile waits for the outbox, and so comes behind.
        let is_ready = self.journal().is_none_or(|journal| journal.is_loaded());
        is_ready && outbox.has_appetite() && outbox.refill(now, &mut self.retained(), REFILL_STEPS)
    }

    /// Ends a subscription; false where there was none.
    pub fn unsubscribe(&self, subscriber: &Subscriber, subscription: &Subscription) -> bool {
        let mut table = self.write();
        let is_ended = table.subscriptions.unsubscribe(subscriber.id(), subscription);
        if is_ended {
            self.note_change(&mut table, Some(&subscription.filter));
        }
        drop(table);
        if is_ended {
            subscriber.seat.forgets(subscription);
            if subscriber.seat.is_noted() {
                subscriber.write(&Note::Unsubscribed(subscriber.id(), subscription.text().into()));
            }
        }
        is_ended
    }

    /// A session may get all messages.
    pub fn allow_all(&self, subscriber: &Subscriber) {
        subscriber.seat.limit(Right::default());
    }

    /// Keeps a message for later subscribers, or ends what is kept of its topic; whether it is kept.
    pub(super) fn retain(&self, message: &Arc<Message>) -> bool {
        let outcome = self.retained().keep(message);
        if outcome == RetainOutcome::Full {
            self.0.counts.unretained();
        }
        outcome == RetainOutcome::Stored
    }

    /// How often the table has changed.
    pub(super) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    pub(super) fn counts(&self) -> &BrokerCounts {
        &self.0.counts
    }

    /// What can be counted without a look at each subscriber.
    pub fn tally(&self) -> BrokerStatus {
        let mut status = self.0.counts.read();
        let table = self.table();
        status.sessions = table.seats.len();
        status.subscriptions = table.subscriptions.len();
        drop(table);
        let retained = self.retained();
        (status.retained, status.retained_bytes) = (retained.len(), retained.bytes());
        status
    }

    pub(super) fn table(&self) -> RwLockReadGuard<'_, Table> {
        let _in_turn = self.turn();
        self.0.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who waits for the table has this: so whoever comes again, or later, waits behind.
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.0.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        let _in_turn = self.turn();
        self.0.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table, for a change that publishers must see: of any topic.
    fn change(&self) -> RwLockWriteGuard<'_, Table> {
        let mut table = self.write();
        self.note_change(&mut table, None);
        table
    }

    fn note_change(&self, table: &mut Table, filter: Option<&Filter>) {
        table.changes.note(filter);
        self.0.generation.fetch_add(1, Ordering::Release);
    }

    /// What changed since the table was looked at in this `generation`, and which one it is now; `None`: anything may have.
    pub(super) fn changes(&self, generation: u64) -> (u64, Option<Vec<Arc<Filter>>>) {
        let table = self.table();
        let now = self.generation();
        (now, table.changes.last(now - generation))
    }

    fn retained(&self) -> MutexGuard<'_, Retained> {
        self.0.retained.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

mod changes;
#[cfg(test)]
mod crowd_tests;
#[cfg(test)]
mod direct_tests;
mod journal;
mod parts;
#[cfg(test)]
mod tests;
