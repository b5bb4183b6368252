//! A session's place at the broker, as the session uses it.

use std::sync::MutexGuard;
use std::time::Duration;

use tidegate_broker::{DeliveryNews, Drops, Outbox};
use tidegate_types::account::Refusal;
use tidegate_types::units::Time;

/// A place at the broker: what was subscribed to ends with it.
pub trait SessionSubscriber {
    /// What waits for the subscriber.
    fn outbox(&self) -> MutexGuard<'_, Outbox>;

    /// Its connection is there, and pays for a part of what it holds.
    fn connect(&self);

    /// Its connection ended.
    fn disconnect(&self);

    /// It is kept without a connection that would pay for it.
    ///
    /// # Errors
    /// There is no room for it.
    fn keep(&self) -> Result<(), Refusal>;

    /// Puts some of what is retained and was asked for into the outbox. True where there is more to read.
    fn refill(&self, now: Time, outbox: &mut Outbox) -> bool;

    /// Its connection took so many messages, and these were not for it; `times` are those of what operators
    /// made, by meter.
    fn delivered(&self, count: usize, drops: Drops, times: &[(u32, Duration)]);

    /// What the journal of sessions is to hear of its deliveries.
    fn note(&self, news: DeliveryNews);

    /// Whether deliveries of an earlier process are still to come back to the outbox.
    fn is_restoring(&self) -> bool {
        false
    }

    /// Whether it has subscribed to nothing.
    fn is_idle(&self) -> bool;
}

/// Whoever has no broker: a session of its subscribes to nothing.
#[derive(Debug)]
pub enum Nobody {}

impl SessionSubscriber for Nobody {
    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        match *self {}
    }

    fn connect(&self) {}

    fn disconnect(&self) {}

    fn keep(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn refill(&self, _: Time, _: &mut Outbox) -> bool {
        false
    }

    fn delivered(&self, _: usize, _: Drops, _: &[(u32, Duration)]) {}

    fn note(&self, _: DeliveryNews) {}

    fn is_idle(&self) -> bool {
        match *self {}
    }
}
