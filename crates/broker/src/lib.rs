//! A broker's decisions, for subscribers at this node: who gets a message, what is retained, and what a
//! subscriber gets next. Message is MQTT's word, for a record as subscribers get it.
//!
//! Read in this order: [`Message`]; [`Scopes`] says in which class its topic is; [`Subscriptions`] says
//! who gets it; an [`Outbox`] for each subscriber holds what it still has to get; [`Retained`] has what a
//! new subscription gets at once.

#![forbid(unsafe_code)]

mod children;
mod delivery;
pub mod fair_queue;
mod in_flight;
mod message;
mod outbox;
mod pending;
mod retained;
mod scopes;
mod subscription;
mod subscriptions;

pub use self::delivery::{AckOutcome, Drops, NextSend, OutboxDropReason, OutboxLimits};
pub use self::message::{Ids, Message, MessageReservation, SubscriberMessage};
pub use self::outbox::Outbox;
pub use self::pending::PendingRetained;
pub use self::retained::{Cursor, RetainOutcome, Retained, RetainedItem};
pub use self::scopes::{Scope, Scopes};
pub use self::subscription::{Subscription, SubscriptionError};
pub use self::subscriptions::{Recipient, Route, SubscribeOptions, Subscriptions, footprint};
