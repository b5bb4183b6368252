//! Addresses to listen on.

use std::net::SocketAddr;

/// The addresses without those of a protocol that this host does not have at all (mostly IPv6), unless
/// nothing is left: `[::1]` beside `127.0.0.1` must not keep a node from starting.
pub(crate) fn available(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let is_there = |address: &&SocketAddr| {
        let trial = std::net::TcpListener::bind((address.ip(), 0));
        let is_there = trial.is_ok();
        if !is_there {
            tracing::warn!("{} is not an address of this host: not listening there", address.ip());
        }
        is_there
    };
    let there: Vec<SocketAddr> = addresses.iter().filter(is_there).copied().collect();
    if there.is_empty() { addresses.to_vec() } else { there }
}
