//! A broker's decisions, for subscribers at this node: who gets a message, what is retained, and what a
//! subscriber gets next. Message is MQTT's word, for a record as subscribers get it.
//!
//! Read in this order: [`Message`]; [`Scopes`] says in which class its topic is; [`Subscriptions`] says
//! who gets it; an [`Outbox`] for each subscriber holds what it still has to get; [`Retained`] has what a
//! new subscription gets at once.

#![forbid(unsafe_code)]

mod children;
mod message;
mod outbox;
mod pending;
mod retained;
mod said;
mod scopes;
mod subscriptions;
mod target;
pub mod turns;
mod window;

pub use self::message::{Charge, Delivery, Ids, Message};
pub use self::outbox::Outbox;
pub use self::pending::Pending;
pub use self::retained::{Cursor, Found, Kept, Retained};
pub use self::said::{Bounds, Drops, Next, Reason, Told};
pub use self::scopes::{Scope, Scopes};
pub use self::subscriptions::{Options, Route, Subscriptions, Target, footprint};
pub use self::target::{Subscription, SubscriptionError};
