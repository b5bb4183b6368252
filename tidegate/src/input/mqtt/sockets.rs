//! The sockets that a listener accepts at: bound, or why not.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::TcpListener;

use super::options::MqttOptions;

/// Connections that the kernel may hold for us: a site that comes back after a power cut.
const BACKLOG: i32 = 4096;
/// Largest `connections_max`.
const CONNECTIONS_MOST: usize = 1_000_000;

/// Why an MQTT input cannot start.
#[derive(Debug, thiserror::Error)]
pub enum MqttError {
    /// No address at all.
    #[error("mqtt input: no address to listen on; give one, such as 0.0.0.0:1883")]
    NoAddress,
    /// An address cannot be listened on.
    #[error("mqtt input: cannot listen on {address}: {source}{cure}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What would help, as a continued sentence.
        cure: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// An option is out of its range.
    #[error("mqtt input: {name} is {value}, but must be {range}")]
    Option {
        /// Name of the option.
        name: &'static str,
        /// What it is.
        value: u64,
        /// What it may be.
        range: &'static str,
    },
}

/// An address of the options, and its socket.
pub(super) type Bound = (SocketAddr, Arc<TcpListener>);

/// The sockets of all listeners of a node: an address goes from one to another with its socket, so that whoever connects
/// meanwhile is served. Several listeners may have an address while a configuration takes over from another, and either
/// may be the one that stays.
#[derive(Debug, Default)]
pub(super) struct Sockets(Mutex<BTreeMap<SocketAddr, Vec<Weak<TcpListener>>>>);

impl Sockets {
    /// The socket at an address: that of another listener, or a new one.
    fn at(&self, address: SocketAddr, beside_ipv4: bool) -> io::Result<Arc<TcpListener>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, sockets| {
            sockets.retain(|socket| socket.strong_count() > 0);
            !sockets.is_empty()
        });
        let known = all.get(&address).and_then(|sockets| sockets.iter().find_map(Weak::upgrade));
        let socket = match known {
            Some(socket) => TcpListener::from_std(SockRef::from(&*socket).try_clone()?.into())?,
            None => listen(address, beside_ipv4)?,
        };
        let socket = Arc::new(socket);
        if address.port() != 0 {
            all.entry(address).or_default().push(Arc::downgrade(&socket));
        }
        Ok(socket)
    }
}

/// Binds those addresses of the options that are wanted.
pub(super) fn bound(
    options: &MqttOptions,
    is_wanted: impl Fn(SocketAddr) -> bool,
) -> Result<Vec<Bound>, MqttError> {
    check(options)?;
    let mut listeners = Vec::new();
    for &address in options.listen.iter().filter(|address| is_wanted(**address)) {
        let beside_ipv4 = options
            .listen
            .iter()
            .any(|other| other.is_ipv4() && other.port() == address.port() && other.port() != 0);
        let listener = options.clients.sockets.at(address, beside_ipv4).map_err(|source| {
            let cure = cure(source.kind());
            MqttError::Listen { address, cure, source }
        })?;
        listeners.push((address, listener));
    }
    Ok(listeners)
}

fn check(options: &MqttOptions) -> Result<(), MqttError> {
    if options.listen.is_empty() {
        return Err(MqttError::NoAddress);
    }
    let wrong = |name, value, range| Err(MqttError::Option { name, value, range });
    if options.sessions_max > CONNECTIONS_MOST {
        return wrong("sessions_max", options.sessions_max as u64, "at most 1000000");
    }
    if !MqttOptions::PACKET_SIZES.contains(&options.max_packet_size) {
        let value = options.max_packet_size.into();
        return wrong("max_packet_size", value, "between 128 bytes and 256 MiB");
    }
    if options.receive_maximum == 0 {
        return wrong("receive_maximum", 0, "at least 1");
    }
    if !(1..=CONNECTIONS_MOST).contains(&options.connections_max) {
        let value = options.connections_max as u64;
        return wrong("connections_max", value, "between 1 and 1000000");
    }
    Ok(())
}

fn listen(address: SocketAddr, beside_ipv4: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.ip() == Ipv6Addr::UNSPECIFIED && beside_ipv4 {
        // Else [::] would take the port of the IPv4 address in the same list.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn cure(kind: io::ErrorKind) -> &'static str {
    match kind {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_that_was_taken_over_in_vain_can_be_taken_over_again() {
        let address = tidegate_testbed::free_address();
        let sockets = Sockets::default();
        let first = sockets.at(address, false).unwrap();
        drop(sockets.at(address, false).unwrap());
        let next = sockets.at(address, false).unwrap();
        assert_eq!(next.local_addr().unwrap(), first.local_addr().unwrap());
    }
}
