//! What a connection has to do with the node's own broker: its records go to local subscribers as well, and
//! it subscribes itself.

use std::future::{pending, poll_fn, ready};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate_broker::Message;
use tidegate_mqtt::Version;
use tidegate_mqtt::control::FilterRequest;
use tidegate_types::record::{Offered, RefuseReason, Token};
use tidegate_types::units::Time;
use tokio::time::timeout;

use super::Connection;
use super::leaving::Leaving;
use crate::input::mqtt::session::{End, FilterOutcome, Request, Session};
use crate::node::broker::{Seat, SubscribeError, Subscriber};
use crate::node::contract::Source;
use crate::node::door::{Bringer, From};
use crate::support::access::is_of_server;

/// How long a publisher waits for a subscriber that has much to take.
const PATIENCE: Duration = Duration::from_millis(50);

impl Bringer for Session {
    fn qos_of(&self, record: &Offered) -> u8 {
        Session::qos_of(self, record)
    }

    fn hold(&mut self, token: Token, published: (Option<u16>, Arc<Message>)) {
        Session::hold(self, token, published);
    }

    fn accepted(&mut self, token: Token) {
        self.answer(token, Ok(()));
    }
}

impl Connection<'_> {
    /// Takes out what the client has no right to.
    pub(super) fn sift(&mut self) {
        let Connection { grants, session, effects, shared, .. } = self;
        let is_of_server = |record: &Offered| is_of_server(&record.key);
        let mut all = effects.records.iter().chain(&effects.again);
        if grants.is_everything() && !all.any(is_of_server) {
            return;
        }
        effects.again.retain(|record| grants.allows(&record.key));
        effects.records.retain(|record| {
            let is_allowed = grants.allows(&record.key);
            if !is_allowed {
                let (counts, why) = (shared.intake.counts(), RefuseReason::Forbidden);
                match record.token {
                    Some(token) => {
                        // Where the client is not told, the session counts it as dropped.
                        if session.tells_refusals() {
                            counts.refused(why.name());
                        }
                        session.answer(token, Err(why));
                    }
                    None => counts.dropped(why.name()),
                }
            }
            is_allowed
        });
    }

    /// Brings the records to the node's door, which leaves those that are for outputs.
    pub(super) async fn admit(&mut self, source: &Source) -> Result<(), End> {
        let Connection { session, effects, door, referral, .. } = self;
        let admitted = door.admit(source, From::Outside, &mut effects.records, session).await;
        let owner = admitted.map_err(|_| End::Stopping)?;
        // Who subscribes has messages here that are not there.
        let may_go = session.version() == Some(Version::V5)
            && session.subscriber().is_none_or(Subscriber::is_idle)
            && session.unanswered() > 0
            && referral.is_none();
        if let Some((owner, group)) = owner.filter(|_| may_go).zip(door.hub().group()) {
            *referral = group.reference(owner, session.client());
        }
        self.crowded = self.door.publisher().take_crowded().or(self.crowded.take());
        Ok(())
    }

    /// Hands QoS 2 publishes that the node has accepted to local subscribers.
    pub(super) fn publish_accepted(&mut self) {
        for published in self.session.take_accepted() {
            self.door.publisher().publish_once(published);
        }
    }

    /// Subscribes or unsubscribes. True where the log is to hear of the session's first subscription.
    pub(super) fn ask(&mut self, request: &Request) -> bool {
        let is_logged = !self.session.logged_expiry().is_zero();
        let entries = &request.filters.entries;
        let granted: Vec<FilterOutcome> = if request.subscribes {
            entries.iter().map(|entry| self.subscribe(entry)).collect()
        } else {
            entries.iter().map(|entry| self.unsubscribe(entry)).collect()
        };
        self.session.grant(request, &granted, &mut self.effects.out);
        is_logged && self.session.logged_expiry().is_zero()
    }

    fn subscribe(&mut self, entry: &FilterRequest) -> FilterOutcome {
        let Some(subscription) = &entry.subscription else { return FilterOutcome::Invalid };
        if !self.grants.may_subscribe(&subscription.filter) {
            self.shared.intake.counts().refused(RefuseReason::Forbidden.name());
            return FilterOutcome::Forbidden;
        }
        let client = self.session.client().clone();
        self.take_seat(&client);
        let Some(subscriber) = self.session.subscriber() else { return FilterOutcome::Invalid };
        self.door.publisher().speak_for(subscriber.id());
        let wants = |is_new| entry.retained.wants(is_new);
        let hub = self.door.hub();
        match hub.subscribe(subscriber, subscription.clone(), entry.options, wants) {
            Ok(()) => FilterOutcome::Qos(entry.options.qos),
            Err(error) => {
                let counts = self.shared.intake.counts();
                counts.refused(RefuseReason::Full.name());
                if error == SubscribeError::Quota {
                    counts.over_quota("subscriptions");
                }
                tracing::debug!(client = &**self.session.client(), %error, "no subscription");
                FilterOutcome::TooMany
            }
        }
    }

    fn unsubscribe(&mut self, entry: &FilterRequest) -> FilterOutcome {
        let Some(subscription) = &entry.subscription else { return FilterOutcome::Invalid };
        let hub = self.door.hub();
        let ended = |subscriber| hub.unsubscribe(subscriber, subscription);
        if self.session.subscriber().is_some_and(ended) {
            FilterOutcome::Ended
        } else {
            FilterOutcome::None
        }
    }

    /// What an earlier connection subscribed to may be more than this one has a right to.
    pub(super) fn resume_subscriptions(&mut self) {
        let Some(subscriber) = self.session.subscriber() else { return };
        self.door.publisher().speak_for(subscriber.id());
        self.restrict_subscriptions();
    }

    /// Ends the subscriptions that need a right that the client has not; says how many.
    pub(super) fn restrict_subscriptions(&self) -> usize {
        let Some(subscriber) = self.session.subscriber() else { return 0 };
        let grants = &self.grants;
        if grants.is_everything() {
            self.door.hub().allow_all(subscriber);
            return 0;
        }
        let own = grants.clone();
        self.door.hub().restrict(
            subscriber,
            |subscription| grants.may_subscribe(&subscription.filter),
            move |message| own.may_get(&message.topic),
        )
    }

    /// What it waits for beside the node; subscribers and other clients hear of it.
    pub(super) fn wants(&mut self, leaving: &mut Leaving<'_>) -> Wants {
        self.buffer.has_turn();
        // Who leaves is read, not written to.
        let is_full = self.has_words() || self.stream.has_to_write();
        let blocked = is_full && !leaving.is_so();
        let seat = self.session.subscriber().map(Subscriber::seat).cloned();
        if let Some(seat) = &seat {
            seat.taken(is_full);
        }
        let excess = self.buffer.excess();
        if excess.is_none() {
            self.room = None;
        }
        Wants { blocked, seat, excess }
    }

    /// Encodes what the client is to get; true where there is more.
    pub(super) fn deliver(&mut self, now: Time) -> bool {
        self.session.deliver(now, &mut self.effects.out)
    }
}

/// What a connection waits for beside the node.
pub(super) struct Wants {
    /// Its client does not read, and has something to be written.
    pub(super) blocked: bool,
    pub(super) seat: Option<Arc<Seat>>,
    /// Bytes that the packet at the front needs beyond what every connection has.
    pub(super) excess: Option<usize>,
}

/// Lets the tasks go first that were woken together with this one.
pub(super) async fn others_first() {
    let mut is_last = false;
    poll_fn(|context| {
        if std::mem::replace(&mut is_last, true) {
            return Poll::Ready(());
        }
        // Woken from within, a task goes to the end of the queue.
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Waits for something to deliver, for ever where there is no subscription.
pub(super) async fn rung(seat: Option<&Arc<Seat>>) {
    match seat {
        Some(seat) => seat.rung().await,
        None => pending().await,
    }
}

/// Waits until a subscriber has room, but not long.
pub(super) async fn roomy(seat: Option<&Arc<Seat>>) {
    match seat {
        // A subscriber that is slower than that loses messages, and nobody else's time.
        Some(seat) => drop(timeout(PATIENCE, seat.roomy()).await),
        None => ready(()).await,
    }
}
