//! The sockets of a link input, and why there may be none.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use super::listener::HANDSHAKES_MAX;

/// Ports that are tried where any will do.
const CHOICES: usize = 32;

/// Why a link input cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The TLS cannot do what QUIC needs.
    #[error("link input: {0}")]
    Tls(String),
    /// The system has no thread for it.
    #[error("link input: no thread: {0}")]
    Thread(io::Error),
    /// An address cannot be listened on.
    #[error("link input: cannot listen on {address} ({protocol}): {source}{cure}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// UDP or TCP.
        protocol: &'static str,
        /// What would help, as a continued sentence.
        cure: &'static str,
        /// What the system says.
        source: io::Error,
    },
}

fn cure(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program has this port: stop it, or choose another",
        io::ErrorKind::AddrNotAvailable => {
            "; this machine has no such address: use 0.0.0.0 or [::] for all of its addresses"
        }
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need the privilege CAP_NET_BIND_SERVICE: choose a higher one"
        }
        _ => "",
    }
}

pub(super) fn failed(address: SocketAddr, protocol: &'static str, source: io::Error) -> LinkError {
    let cure = cure(&source);
    LinkError::Listen { address, protocol, cure, source }
}

/// Sockets of both protocols with one port.
pub(super) fn sockets(
    address: SocketAddr,
    only_v6: bool,
    has_tcp: bool,
) -> Result<(std::net::UdpSocket, Option<TcpListener>), LinkError> {
    let mut tries = 0;
    loop {
        let socket = udp(address, only_v6).map_err(|source| failed(address, "UDP", source))?;
        if !has_tcp {
            return Ok((socket, None));
        }
        let listener = socket.local_addr().and_then(|bound| tcp_listener(bound, only_v6));
        tries += 1;
        match listener {
            Ok(listener) => return Ok((socket, Some(listener))),
            // A port that the system chose for one protocol may have a user in the other.
            Err(_) if address.port() == 0 && tries < CHOICES => {}
            Err(source) => return Err(failed(address, "TCP", source)),
        }
    }
}

fn udp(address: SocketAddr, only_v6: bool) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() && only_v6 {
        // Else [::] would take the port of the IPv4 address in the same list.
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    crate::link::grow_buffers(&socket);
    Ok(socket.into())
}

fn tcp_listener(address: SocketAddr, only_v6: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() && only_v6 {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(HANDSHAKES_MAX as i32)?;
    TcpListener::from_std(socket.into())
}
