//! What a path is bound to, and the sockets that follow it.
//!
//! Whether an interface is there, has an address and a way to the peer is one question to the kernel: a
//! UDP socket, bound to the interface and connected to the peer, has the source address that packets
//! would have. No packet leaves for it. Asked once a second it notices interfaces that appear, vanish and
//! change their address or route, without a table of them (docs/decisions/0024).

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::str::FromStr;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpSocket, TcpStream};

/// Longest name of an interface (IFNAMSIZ without its end).
const NAME_MAX: usize = 15;
/// What the kernel may hold for a socket, if it lets us: some tens of milliseconds at 1 Gbit/s.
const BUFFER: usize = 4 << 20;

/// What a path goes by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Binding {
    /// Whatever the routing table says.
    #[default]
    Route,
    /// One interface, by its name; it may come and go.
    Interface(String),
    /// The interface that has this address.
    Address(IpAddr),
}

impl FromStr for Binding {
    type Err = String;

    /// `auto`, an address, or the name of an interface.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Binding::Route);
        }
        if let Ok(address) = text.parse() {
            return Ok(Binding::Address(address));
        }
        let is_odd = |c: char| c == '/' || c.is_whitespace() || c.is_control();
        if text.is_empty() || text.len() > NAME_MAX || text.contains(is_odd) {
            return Err(format!(
                "{text:?} is no interface: write its name as `ip link` shows it (\"wwan0\"), an \
                 address of it, or \"auto\" for the way that the routing table says"
            ));
        }
        Ok(Binding::Interface(text.into()))
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Binding::Route => f.write_str("auto"),
            Binding::Interface(name) => f.write_str(name),
            Binding::Address(address) => address.fmt(f),
        }
    }
}

impl Binding {
    /// The address that packets to `peer` would come from.
    ///
    /// # Errors
    /// They cannot go this way now; in words.
    pub(crate) fn source(&self, peer: SocketAddr) -> Result<IpAddr, String> {
        let asked = self.udp(peer).and_then(|socket| {
            socket.connect(peer)?;
            Ok(socket.local_addr()?.ip())
        });
        asked.map_err(|error| self.explain(&error, peer))
    }

    fn explain(&self, error: &io::Error, peer: SocketAddr) -> String {
        let family = if peer.is_ipv4() { "IPv4" } else { "IPv6" };
        match (self, error.raw_os_error()) {
            (Binding::Interface(name), Some(libc::ENODEV)) => {
                format!("there is no interface {name} (now)")
            }
            (Binding::Interface(_), Some(libc::EPERM)) => {
                "only root may bind to an interface before Linux 5.7: give the service CAP_NET_RAW, \
                 or name an address in place of the interface"
                    .into()
            }
            (Binding::Address(address), Some(libc::EADDRNOTAVAIL)) => {
                format!("no interface has the address {address} (now)")
            }
            (_, Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EADDRNOTAVAIL)) => {
                format!("no {family} route to {} by {self}", peer.ip())
            }
            _ => format!("{self}: {error}"),
        }
    }

    /// Where a socket of this path is bound to.
    fn local(&self, peer: SocketAddr) -> SocketAddr {
        match self {
            Binding::Address(address) => (*address, 0).into(),
            _ if peer.is_ipv4() => (Ipv4Addr::UNSPECIFIED, 0).into(),
            _ => (Ipv6Addr::UNSPECIFIED, 0).into(),
        }
    }

    /// A socket for packets to `peer`.
    ///
    /// # Errors
    /// The interface or the address is not there.
    pub(crate) fn udp(&self, peer: SocketAddr) -> io::Result<UdpSocket> {
        let local = self.local(peer);
        if local.is_ipv4() != peer.is_ipv4() {
            return Err(io::Error::from_raw_os_error(libc::ENETUNREACH));
        }
        let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
        if let Binding::Interface(name) = self {
            socket.bind_device(Some(name.as_bytes()))?;
        }
        socket.bind(&local.into())?;
        grow_buffers(&socket);
        Ok(socket.into())
    }

    /// A TCP connection to `peer`.
    ///
    /// # Errors
    /// The interface or the address is not there, or nobody answers.
    pub(crate) async fn tcp(&self, peer: SocketAddr) -> io::Result<TcpStream> {
        let local = self.local(peer);
        if local.is_ipv4() != peer.is_ipv4() {
            return Err(io::Error::from_raw_os_error(libc::ENETUNREACH));
        }
        let socket = if peer.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Binding::Interface(name) = self {
            socket.bind_device(Some(name.as_bytes()))?;
        }
        socket.bind(local)?;
        socket.connect(peer).await
    }
}

/// Asks for large buffers; the system gives what it allows.
pub(crate) fn grow_buffers(socket: &Socket) {
    let _ = socket.set_recv_buffer_size(BUFFER);
    let _ = socket.set_send_buffer_size(BUFFER);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_an_interface_an_address_or_the_route() {
        let read = |text: &str| text.parse::<Binding>();
        assert_eq!(read("wwan0"), Ok(Binding::Interface("wwan0".into())));
        assert_eq!(read("auto"), Ok(Binding::Route));
        assert_eq!(read("::1"), Ok(Binding::Address(Ipv6Addr::LOCALHOST.into())));
        for wrong in ["", "a name", "sixteen_letters_", "a/b"] {
            assert!(read(wrong).unwrap_err().contains("`ip link`"), "{wrong}");
        }
        for text in ["wwan0", "auto", "10.0.0.7", "fe80::1"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn the_kernel_says_where_packets_would_come_from() {
        let peer: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let source = |text: &str| text.parse::<Binding>().unwrap().source(peer);
        assert_eq!(source("auto"), Ok(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(source("lo"), Ok(Ipv4Addr::LOCALHOST.into()));
        assert_eq!(source("127.0.0.2"), Ok([127, 0, 0, 2].into()));
        assert_eq!(
            source("192.0.2.1").unwrap_err(),
            "no interface has the address 192.0.2.1 (now)"
        );
        assert_eq!(source("::1").unwrap_err(), "no IPv4 route to 127.0.0.1 by ::1");
        assert_eq!(source("nowhere0").unwrap_err(), "there is no interface nowhere0 (now)");
    }
}
