//! The MQTT input: a server for clients that publish (MQTT 5, 3.1.1 and 3.1; QoS 0 and 1).
//!
//! A publish becomes a record: the topic is its key, MQTT 5's properties are its properties (see the
//! constants of [`session`]), the message expiry its ttl. A QoS 1 publish is acknowledged when the node
//! has accepted the record. While the node takes nothing, the socket is not read: records wait at
//! their senders.
//!
//! What a client may notice:
//! * No session outlives its connection ("session present" is never set). QoS 1 loses nothing by it,
//!   for the client keeps what is unacknowledged.
//! * Subscriptions are answered with a failure, and the connection stays.
//! * QoS 2 ends the connection; MQTT 5 clients are told the largest QoS beforehand.
//! * The retain flag is accepted and kept as a record property, and nothing is retained here: with
//!   "retain not available" many clients could not connect, for MQTT 5 makes a retained will or
//!   publish an error then, and without subscriptions nobody can tell the difference.
//! * Username and password are not checked.
//! * Topics, client ids and usernames must not have control characters.
//! * A publish that the node refuses is answered with a reason code in MQTT 5; an older client's
//!   connection is closed, for there is no other way to withhold an acknowledgement.

mod buffer;
mod clients;
mod complaints;
mod connection;
mod listener;
mod options;
mod pulse;
pub mod session;
mod wire;

pub use self::listener::{MqttError, MqttListener, bind};
pub use self::options::MqttOptions;
pub use self::wire::{Reason, Version, Violation};
