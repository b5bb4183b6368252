//! Where connections come from: the socket, its places, and where the client wanted to go.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;
use rustls::ServerConfig;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tidegate_node::io::OutputId;
use tidegate_types::account::Account;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::connection::HEAD_MAX;
use super::counts::ProxyCounts;
use super::room::{self, Room};
use super::sources::Name;
use super::threads::Workers;
use crate::config::{ListenMode, Network};
use crate::support::http::{Meter, Patience};
use crate::support::places::{Place, Places};

/// Connections that wait to be accepted: more is not what systems allow.
const BACKLOG: i32 = 4096;
/// Pause after a failed accept (no descriptors left): the next one would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Where every connection is busy.
const NO_PLACE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nx-tidegate-reason: full\r\n\
    retry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// A client's connection, as its requests see it.
#[derive(Debug)]
pub(super) struct Peer {
    /// Its listener, by the output of its clients.
    pub(super) listener: OutputId,
    pub(super) address: SocketAddr,
    /// Its address as a header has it.
    pub(super) forwarded: HeaderValue,
    /// Whether it knows the proxy, and is to be told of in `x-forwarded-for`.
    pub(super) is_explicit: bool,
    pub(super) is_tls: bool,
    /// Whether what it says of its own clients is believed.
    pub(super) is_trusted: bool,
    /// How long a part of a body may take to come.
    pub(super) body_timeout: Duration,
    /// How long a connection that is no more HTTP may be silent.
    pub(super) tunnel_timeout: Duration,
    pub(super) meter: Arc<Meter>,
    /// Room for its bodies.
    pub(super) room: Rc<Room>,
    /// Where it wanted to go, where that is not here.
    pub(super) original: Option<SocketAddr>,
}

impl Peer {
    /// Whose queues its messages stand in.
    pub(super) fn source(&self, is_original: bool) -> Name {
        let original = self.original.filter(|_| is_original);
        Name { client: self.address.ip(), original }
    }
}

/// Who comes to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guest {
    /// HTTP clients.
    Client,
    /// Envoy, by gRPC.
    Envoy,
}

/// How connections of a listener are taken.
#[derive(Clone, Debug)]
pub(super) struct ListenerSettings {
    pub(super) guest: Guest,
    /// The output of its clients.
    pub(super) output: OutputId,
    pub(super) mode: ListenMode,
    pub(super) tls: Option<Arc<ServerConfig>>,
    /// Where bytes go that are no HTTP.
    pub(super) other: Option<OutputId>,
    pub(super) patience: Patience,
    pub(super) body_timeout: Duration,
    pub(super) tunnel_timeout: Duration,
    /// Between questions whether a client of HTTP/2 is there.
    pub(super) ping: Duration,
    /// Requests of one HTTP/2 connection at once.
    pub(super) streams: u32,
    /// Who is believed about the clients before it.
    pub(super) trusted: Vec<Network>,
    /// Its share of the room for bodies and heads.
    pub(super) room: Account,
}

impl ListenerSettings {
    /// What is known of a connection that begins.
    fn meter(&self, address: SocketAddr) -> Arc<Meter> {
        let client = address.ip().to_canonical();
        Meter::new(Some((room::heads(&self.room, client), HEAD_MAX)))
    }

    /// A connection of this listener.
    pub(super) fn peer(&self, stream: &TcpStream, address: SocketAddr, meter: Arc<Meter>) -> Peer {
        let client = address.ip().to_canonical();
        Peer {
            listener: self.output,
            address: SocketAddr::new(client, address.port()),
            forwarded: HeaderValue::try_from(client.to_string())
                .unwrap_or(HeaderValue::from_static("unknown")),
            is_explicit: self.mode == ListenMode::Explicit,
            is_tls: self.tls.is_some(),
            is_trusted: self.trusted.iter().any(|network| network.has(client)),
            body_timeout: self.body_timeout,
            tunnel_timeout: self.tunnel_timeout,
            meter,
            room: match self.guest {
                Guest::Client => Room::new(&self.room, client),
                Guest::Envoy => Room::of(self.room.clone()),
            },
            original: original(stream, self.mode),
        }
    }
}

/// How connections are taken, and when those that were have to end.
#[derive(Clone, Debug)]
pub(super) struct ListenerState {
    pub(super) settings: Arc<ListenerSettings>,
    pub(super) closing: watch::Receiver<bool>,
}

/// A client that came.
#[derive(Debug)]
pub(super) struct AcceptedClient {
    pub(super) stream: std::net::TcpStream,
    pub(super) address: SocketAddr,
    pub(super) state: ListenerState,
    pub(super) meter: Arc<Meter>,
    pub(super) place: Place,
}

/// A socket at a listener's address: nobody comes by it yet. `is_shared`: sockets that are there [`Beside`] it may have the
/// address as well.
///
/// # Errors
/// The address cannot be bound, or TPROXY is not allowed.
pub(super) fn bind(address: SocketAddr, mode: ListenMode, is_shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(is_shared)?;
    socket.set_nonblocking(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if mode == ListenMode::Tproxy {
        match address.is_ipv4() {
            true => socket.set_ip_transparent_v4(true)?,
            false => socket.set_ip_transparent_v6(true)?,
        }
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Has clients come by a bound socket.
///
/// # Errors
/// Another program was faster at this address.
pub(super) fn listen(socket: Socket) -> io::Result<TcpListener> {
    socket.listen(BACKLOG)?;
    // From now on nobody else has the address.
    socket.set_reuse_port(false)?;
    TcpListener::from_std(socket.into())
}

/// A socket that another one may have the address of, until this is dropped.
#[derive(Debug)]
pub(super) struct Beside(Arc<TcpListener>);

impl Beside {
    /// # Errors
    /// The system does not allow it.
    pub(super) fn new(listener: &Arc<TcpListener>) -> io::Result<Beside> {
        SockRef::from(&**listener).set_reuse_port(true)?;
        Ok(Beside(listener.clone()))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It does not fail where it could be set.
        let _ = SockRef::from(&*self.0).set_reuse_port(false);
    }
}

/// Takes connections as long as somebody tells its state, and hands them to threads. Those that wait when nobody does any more
/// are taken as well.
pub(super) async fn accept(
    listener: Arc<TcpListener>,
    mut states: watch::Receiver<ListenerState>,
    places: Arc<Places>,
    workers: Rc<Workers>,
    counts: ProxyCounts,
) {
    let take = async |stream: std::net::TcpStream, address, state: ListenerState| {
        let meter = state.settings.meter(address);
        let Some(place) = places.enter(meter.clone()).await else {
            counts.note_turned_away();
            return turn_away(&stream, &state.settings);
        };
        workers.take(AcceptedClient { stream, address, state, meter, place });
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            changed = states.changed() => match changed {
                Ok(()) => continue,
                Err(_) => break,
            },
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "the proxy cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let state = states.borrow().clone();
        // It fails only for a socket that is gone.
        let Ok(stream) = stream.into_std() else { continue };
        take(stream, address, state).await;
    }
    // The runtime may not have heard of them yet. More than the queue holds have not waited: they came since, and who comes
    // without end would keep the address for ever.
    for _ in 0..BACKLOG {
        let Ok((stream, address)) = SockRef::from(&*listener).accept() else { return };
        let state = states.borrow().clone();
        let address = address.as_socket().filter(|_| stream.set_nonblocking(true).is_ok());
        if let Some(address) = address {
            take(stream.into(), address, state).await;
        }
    }
}

/// Says in the clear that there is no place; who speaks TLS, or cannot be told at once, is not.
fn turn_away(mut stream: &std::net::TcpStream, settings: &ListenerSettings) {
    if settings.tls.is_none() && settings.guest == Guest::Client {
        let _ = stream.write(NO_PLACE);
    }
}

/// Where a client wanted to go.
fn original(stream: &TcpStream, mode: ListenMode) -> Option<SocketAddr> {
    let own = stream.local_addr().ok()?;
    match mode {
        ListenMode::Explicit => None,
        ListenMode::Tproxy => Some(own),
        ListenMode::Redirect => {
            let socket = SockRef::from(stream);
            let found = match own.ip().to_canonical() {
                IpAddr::V4(_) => socket.original_dst_v4(),
                IpAddr::V6(_) => socket.original_dst_v6(),
            };
            // One that came by itself wanted to come here.
            found.ok()?.as_socket().filter(|found| *found != own)
        }
    }
}
