//! The node's own broker: what is published here goes to who has subscribed here, beside the outputs.
//!
//! Who gets what is decided in [`tidegate_broker`]. A [`Hub`] joins its parts for many tasks: one table
//! of subscriptions, which publishers read at the same time, and one [`Seat`] with an outbox for each
//! subscriber. A [`Publisher`] is what a connection publishes by: it remembers the ways of its topics, so
//! that the table is asked once for each topic and change.

mod counts;
mod direct;
mod endurance;
mod gate;
mod handing;
mod hub;
mod keeping;
mod meter;
mod operate;
mod placement;
mod publisher;
mod refilling;
mod seat;
mod way;

pub use self::counts::{BrokerCounts, BrokerStatus, SubscriberStatus};
pub use self::direct::{DirectLine, LineOwner};
pub use self::gate::{Busy, Gate};
pub use self::hub::{Hub, HubOptions, Payer, SubscribeError};
pub use self::meter::{DropWhy, Figures, Meter, MeterStatus, Meters, Placed};
pub use self::operate::Operate;
pub use self::placement::{Diverted, Placement};
pub use self::publisher::Publisher;
pub(crate) use self::publisher::TopicFacts;
pub use self::seat::{Seat, Subscriber};
