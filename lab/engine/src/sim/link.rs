//! What crosses the link of a scenario.

use crate::link::Tag;

/// What crosses the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    pub(super) flow: usize,
    /// Which life of that connection.
    pub(super) epoch: u32,
    /// Its number in that life.
    pub(super) number: u64,
    /// Its place in the connection's order of sending: a packet sent again has a new one.
    pub(super) sent: u64,
    pub(super) bytes: u64,
    pub(super) tag: Tag,
}

/// What comes back: that everything up to some reply is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) flow: usize,
    /// Which life of that connection.
    pub(super) epoch: u32,
    /// Its place among the replies of that life: it says all that the ones before it said.
    pub(super) number: u64,
}

/// Size of a reply on the link.
pub(super) const REPLY: u64 = 52;
