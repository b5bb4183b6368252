//! Connects to a host by TCP, with little room below us for what cannot be overtaken any more.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// How long one address may take to answer; then the next one of the host is tried.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
/// Unsent bytes above which the kernel takes no more from us: what stands there cannot be overtaken.
/// The node's own window is the real bound; this one holds while its estimate is young. Small enough
/// for 8 ms at 16 Mbit/s, large enough for 2 Gbit/s of wake-ups each 64 us.
const UNSENT_MAX: u32 = 16 * 1024;

/// Connects to the first address of `host` that answers, IPv6 or IPv4, in the resolver's order.
pub(crate) async fn connect(host: Arc<str>, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in lookup_host((&*host, port)).await? {
        match timeout(CONNECT_PATIENCE, connect_to(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = named(address, &error),
            Err(_) => {
                let silent = io::Error::new(io::ErrorKind::TimedOut, "nobody answers");
                last = named(address, &silent);
            }
        }
    }
    Err(last)
}

async fn connect_to(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    socket2::SockRef::from(&stream).set_tcp_notsent_lowat(UNSENT_MAX)?;
    Ok(stream)
}

fn named(address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{address}: {error}"))
}
