//! A broker's decisions, for subscribers at this node: who gets a message, what is retained, and what a
//! subscriber gets next. Message is MQTT's word, for a record as subscribers get it.
//!
//! Read in this order: [`Message`]; [`Scopes`] says in which class its topic is; [`Subscriptions`] says
//! who gets it; an [`Outbox`] for each subscriber holds what it still has to get; [`Retained`] has what a
//! new subscription gets at once.

mod message;
mod outbox;
mod retained;
mod scopes;
mod subscriptions;
mod target;
mod window;

pub use self::message::{Delivery, Ids, Message};
pub use self::outbox::{Bounds, Drops, Next, Outbox, Reason, Told};
pub use self::retained::{Kept, Retained};
pub use self::scopes::{Scope, Scopes};
pub use self::subscriptions::{Options, Route, Subscriptions, Target};
pub use self::target::{Subscription, SubscriptionError};
