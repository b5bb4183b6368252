//! Outputs: where a node sends. A folder for each kind: its keys, and what serves it.
//!
//! [`kind`] is what each kind says of itself, and [`registry`] lists them. What all TCP outputs share stands in
//! files of its own: `lanes` keeps a connection for each urgency group by `lane`, `connection` serves one,
//! `outgoing` holds the few bytes that are bound to go, `gauge` counts them, and [`protocol`] is what AMQP, MQTT
//! and the others add to it.

pub mod amqp;
mod connection;
mod frames;
mod gauge;
mod hosts;
pub mod http;
pub mod kind;
mod lane;
#[cfg(test)]
mod lane_tests;
mod lanes;
pub mod link;
pub mod mqtt;
mod outgoing;
pub mod protocol;
pub mod registry;
pub mod sink;
#[cfg(test)]
mod test_protocol;
