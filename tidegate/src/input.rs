//! Inputs: what frames bytes of the outside into records and offers them to the node.
//!
//! Every input holds a [`crate::node::contract::Source`] for each connection, offers in batches, and obeys
//! `Pause` and `Resume`. No input queues records: what the node does not take stays where it came from,
//! in a socket or a file.

pub mod kind;
pub mod link;
pub mod mqtt;
pub mod relays;
pub mod replay;
pub mod streams;
