//! What is done for many subscriptions or sessions, a part at a time: publishers have the table in between.

use std::ops::Bound;
use std::sync::Arc;

use tidegate_broker::{Message, Recipient, Subscription};
use tidegate_node::io::SessionId;

use super::Hub;
use crate::node::broker::counts::{BrokerStatus, SubscriberStatus};
use crate::node::broker::seat::{Right, Seat, Subscriber};

/// Subscriptions, or sessions, that are looked at or ended under one lock.
const PART: usize = 64;

impl Hub {
    /// Ends the subscriptions, and forgets the messages, to which a session has no right any more; says how many
    /// subscriptions ended.
    pub fn restrict(
        &self,
        subscriber: &Subscriber,
        may_subscribe: impl Fn(&Subscription) -> bool,
        may_get: impl Fn(&Message) -> bool + Send + Sync + 'static,
    ) -> usize {
        let (mut ended, mut last) = (0, None);
        loop {
            let part = self.of(subscriber.id(), last.as_ref());
            let Some(end) = part.last().cloned() else { break };
            let over = part.iter().filter(|subscription| !may_subscribe(subscription));
            ended += over.filter(|subscription| self.unsubscribe(subscriber, subscription)).count();
            last = Some(end);
        }
        subscriber.seat.outbox().forbid(|delivery| may_get(&delivery.message));
        // What waits in the journal is looked at when it is read.
        subscriber.seat.limit(Right(Some(Arc::new(may_get))));
        ended
    }

    fn of(&self, session: SessionId, last: Option<&Subscription>) -> Vec<Subscription> {
        self.table().subscriptions.of(session, last).take(PART).cloned().collect()
    }

    pub(in crate::node::broker) fn remove(&self, session: SessionId) {
        loop {
            let mut table = self.write();
            let gone = table.subscriptions.remove(session, PART);
            for subscription in &gone {
                self.note_change(&mut table, Some(&subscription.filter));
            }
            if gone.is_empty() {
                table.seats.remove(&session);
                return;
            }
        }
    }

    /// The broker as it is now.
    pub fn status(&self) -> BrokerStatus {
        let mut status = self.tally();
        self.for_each_seat(|seat, subscriptions| {
            let outbox = seat.outbox();
            let (waiting, in_flight) = (outbox.len(), outbox.in_flight());
            drop(outbox);
            status.waiting += waiting;
            status.in_flight += in_flight;
            let subscriber = SubscriberStatus { subscriptions, waiting, in_flight };
            status.subscribers.insert(seat.client().clone(), subscriber);
        });
        status.account = self.account().figures();
        status
    }

    /// All seats are to look for something to read.
    pub(crate) fn ring_all(&self) {
        self.for_each_seat(|seat, _| seat.ring());
    }

    /// The seats of recipients, without those that are gone meanwhile.
    pub(in crate::node::broker) fn seats_of(
        &self,
        targets: Vec<Recipient>,
    ) -> Vec<(Arc<Seat>, Recipient)> {
        let mut found = Vec::with_capacity(targets.len());
        let mut left = targets.into_iter().peekable();
        while left.peek().is_some() {
            let table = self.table();
            let seat =
                |target: Recipient| Some((table.seats.get(&target.session)?.clone(), target));
            found.extend(left.by_ref().take(PART).filter_map(seat));
        }
        found
    }

    /// Shows each seat, and how many subscriptions it has, to somebody who may take time.
    fn for_each_seat(&self, mut show: impl FnMut(&Seat, usize)) {
        let mut from = Bound::Unbounded;
        loop {
            let table = self.table();
            let part = table.seats.range((from, Bound::Unbounded)).take(PART);
            let part = part.map(|(id, seat)| (*id, seat.clone(), table.subscriptions.count(*id)));
            let part: Vec<_> = part.collect();
            drop(table);
            let Some((last, ..)) = part.last() else { return };
            from = Bound::Excluded(*last);
            part.iter().for_each(|(_, seat, subscriptions)| show(seat, *subscriptions));
        }
    }
}
