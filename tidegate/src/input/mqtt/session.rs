//! The session of a client ([`tidegate_mqtt::session`]), with its place at this node's broker.

use std::sync::MutexGuard;
use std::time::Duration;

use tidegate_broker::{DeliveryNews, Drops, Outbox};
pub use tidegate_mqtt::session::*;
use tidegate_types::account::Refusal;
use tidegate_types::units::Time;

use crate::node::broker::Subscriber as Place;

/// The state of one connection.
pub type Session = tidegate_mqtt::session::Session<Place>;
/// What a session remembers beyond its connections.
pub type Memory = tidegate_mqtt::session::Memory<Place>;

impl SessionSubscriber for Place {
    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.seat().outbox()
    }

    fn connect(&self) {
        Place::connect(self);
    }

    fn disconnect(&self) {
        Place::disconnect(self);
    }

    fn keep(&self) -> Result<(), Refusal> {
        Place::keep(self)
    }

    fn refill(&self, now: Time, outbox: &mut Outbox) -> bool {
        Place::refill(self, now, outbox)
    }

    fn delivered(&self, count: usize, drops: Drops, times: &[(u32, Duration)]) {
        Place::delivered(self, count, drops, times);
    }

    fn note(&self, news: DeliveryNews) {
        Place::note(self, news);
    }

    fn is_restoring(&self) -> bool {
        Place::is_restoring(self)
    }

    fn is_idle(&self) -> bool {
        Place::is_idle(self)
    }
}

#[cfg(test)]
mod subscribe_tests;
