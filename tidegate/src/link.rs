//! The network below a link: N connections, each by its own interface, that carry the packets of
//! `tidegate_link`.
//!
//! The end that has an output dials, the end that has an input listens. A path is one QUIC connection
//! whose datagrams carry one packet each, or, where UDP is blocked, one TLS connection over TCP
//! (docs/decisions/0023). What is sent when, by which path and again, the `link` crate decides; here nothing is paced
//! and nothing is repeated.
//!
//! A datagram is a packet of the link and, behind it, one byte: the number of the path at the dialing end,
//! by which both ends call it. So a connection needs no greeting: the packet's head says which life of
//! which link it belongs to.

mod binding;
pub(crate) mod board;
pub(crate) mod dial;
pub(crate) mod engine;
pub(crate) mod letters;
pub(crate) mod marking;
pub(crate) mod quic;
pub(crate) mod tcp;
mod thread;
pub(crate) mod wire;

pub use self::binding::Binding;
pub(crate) use self::binding::grow_buffers;
pub use self::board::{LinkFigures, Links, PathFigures, Target};
pub use self::letters::Letters;
pub(crate) use self::thread::{LinkThread, run_on};

/// The protocol that both ends must speak, as TLS names it.
const PROTOCOL: &[u8] = b"tidegate-link/1";
/// The same between ends that read the letters that come with records.
const PROTOCOL_LETTERS: &[u8] = b"tidegate-link/1+letters";
/// And that count marks of congestion for each other.
const PROTOCOL_MARKS: &[u8] = b"tidegate-link/1+letters+marks";
/// Largest packet of a link: with its path's number, QUIC's framing and the headers of UDP and IPv6 it fits
/// into the 1280 bytes that every IPv6 path carries, so that no path must be asked how much it carries.
pub(crate) const PACKET_MAX: usize = 1160;
/// Packets that may wait for the task of a link: a few milliseconds at full speed.
pub(crate) const HEARD_MAX: usize = 1024;

/// What either end speaks, the best first.
pub(crate) fn protocols() -> Vec<Vec<u8>> {
    [PROTOCOL_MARKS, PROTOCOL_LETTERS, PROTOCOL].map(<[u8]>::to_vec).to_vec()
}

/// A number that no other life of a link has had, as far as anybody remembers; not 0.
pub(crate) fn new_incarnation() -> u32 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    // Its keys come from the system's source of randomness, and differ for each process and call.
    let random = RandomState::new().build_hasher().finish();
    (random as u32).max(1)
}
