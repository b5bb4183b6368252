//! Decides, for the subscribers of one node, who gets a message, what is retained, and what a subscriber gets next.
//!
//! A *message* is a record as subscribers get it (MQTT's word). A *route* lists the recipients of a topic. An *outbox* holds
//! what one session still has to get. A *scope* is what one rule says of its topics. A *retained* message is the last one of
//! its topic, kept for later subscribers.
//!
//! | file | what |
//! |---|---|
//! | `message.rs` | a message, what its subscribers share, and its memory |
//! | `message_run.rs` | messages that were published at once, and packets that many subscribers share |
//! | `scopes.rs` | the class of a topic, and whether its records leave the node |
//! | `subscription.rs` | a topic filter, alone or of a shared subscription |
//! | `subscriptions.rs`, `children.rs` | the tree of topic levels: who gets a message |
//! | `outbox.rs`, `delivery.rs` | what one session still gets, most urgent first; its limits, drops and answers |
//! | `in_flight.rs` | what was sent and not acknowledged: QoS 1 and 2 |
//! | `retained.rs`, `pending.rs` | retained messages; those that a subscription still reads |
//! | `journal.rs`, `ledger.rs` | what is kept of sessions over a restart: notes as bytes, and what they add up to |
//! | `fair_queue.rs` | start-time fair queueing over networks and names, for costly work such as a password check |
//!
//! ```
//! use tidegate_broker::{SubscribeOptions, Subscription, Subscriptions};
//! use tidegate_types::ids::SessionId;
//!
//! let mut subscriptions = Subscriptions::default();
//! let filter = Subscription::new("factory/+/plc/#").unwrap();
//! subscriptions.subscribe(SessionId(7), filter, SubscribeOptions { qos: 1, ..SubscribeOptions::default() });
//! let route = subscriptions.route("factory/3/plc/alarm", None);
//! assert_eq!((route.all[0].session, route.all[0].qos), (SessionId(7), 1));
//! assert!(subscriptions.route("building/3", None).is_empty());
//! ```

#![forbid(unsafe_code)]

mod children;
mod delivery;
pub mod fair_queue;
mod in_flight;
pub mod journal;
mod ledger;
mod message;
mod message_run;
mod outbox;
mod pending;
mod retained;
mod scopes;
mod subscription;
mod subscriptions;

pub use self::delivery::{
    AckOutcome, Drops, NextMessage, NextSend, OutboxDropReason, OutboxLimits,
};
pub use self::in_flight::{DeliveryNews, WINDOW_MAX};
pub use self::ledger::{Applied, Kept, LedgerBounds, NotePlace, Pulled, SessionLedger};
pub use self::message::{Ids, Message, MessageReservation, SubscriberMessage};
pub use self::message_run::MessageRun;
pub use self::outbox::Outbox;
pub use self::pending::PendingRetained;
pub use self::retained::{Cursor, RetainOutcome, Retained, RetainedItem};
pub use self::scopes::{Scope, Scopes};
pub use self::subscription::{Subscription, SubscriptionError};
pub use self::subscriptions::{
    Recipient, Route, SubscribeOptions, Subscriptions, TopicMatch, footprint,
};
