//! Plain and multipath TCP sockets, with a congestion control and buffers of one's choice.

use std::io;
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};

use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketType, ipproto};
use serde::{Deserialize, Serialize};

/// How a rival's connection is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// Whether the kernel may use several paths.
    pub multipath: bool,
    /// `bbr` or `cubic`.
    pub congestion: String,
    /// Bytes of the receiver's buffer; the system's own if left out.
    pub buffer: Option<usize>,
}

/// A socket of this kind that is not connected.
fn socket(kind: &Kind) -> io::Result<std::os::fd::OwnedFd> {
    let protocol = if kind.multipath { ipproto::MPTCP } else { ipproto::TCP };
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, Some(protocol))?;
    // Subflows inherit it.
    sockopt::set_tcp_congestion(&socket, &kind.congestion)?;
    if let Some(bytes) = kind.buffer {
        // The kernel doubles what it is given for what it needs itself.
        sockopt::set_socket_recv_buffer_size(&socket, bytes / 2)?;
    }
    Ok(socket)
}

pub(super) fn connect(kind: &Kind, to: SocketAddrV4) -> io::Result<TcpStream> {
    let socket = socket(kind)?;
    rustix::net::connect(&socket, &SocketAddr::from(to))?;
    Ok(socket.into())
}

/// Listens.
///
/// # Errors
/// The kernel has no such kind, or the address is in use.
pub(super) fn listen(kind: &Kind, at: SocketAddrV4) -> io::Result<TcpListener> {
    let socket = socket(kind)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &SocketAddr::from(at))?;
    rustix::net::listen(&socket, 16)?;
    Ok(socket.into())
}
