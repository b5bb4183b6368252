//! Records of any size between two hosts, over MQTT or one connection of TCP: the jobs of benchmarks of links.

mod receive;
mod record;
mod send;
mod socket;

pub use self::receive::{ReceiveRecords, Seen};
pub use self::send::{SendRecords, Sent};
pub use self::socket::Kind;
