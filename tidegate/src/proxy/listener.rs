//! Where requests come from: the socket, TLS, and where the client wanted to go.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::HeaderValue;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::{self, HttpServerConnExec};
use rustls::ServerConfig;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

use super::envoy;
use super::exchange::{Gate, exchange};
use super::sources::Name;
use crate::config::ListenMode;

/// Requests of one HTTP/2 connection at once.
const STREAMS_MAX: u32 = 256;
/// Exchanges of one Envoy at once: all that it carries come by one connection or a few.
const DIALOGS_MAX: u32 = 16_384;
/// Room for one request's head.
const HEAD_MAX: usize = 64 * 1024;
/// Connections that wait to be accepted: more is not what systems allow.
const BACKLOG: i32 = 4096;
/// Pause after a failed accept (no descriptors left): the next one would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Runs hyper's own tasks on this thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        spawn_local(async move {
            future.await;
        });
    }
}

/// A client's connection, as its requests see it.
#[derive(Debug)]
pub(super) struct Peer {
    /// Place of its listener.
    pub(super) listener: usize,
    pub(super) address: SocketAddr,
    /// Its address as a header has it.
    pub(super) forwarded: HeaderValue,
    /// Whether it knows the proxy, and is to be told of in `x-forwarded-for`.
    pub(super) is_explicit: bool,
    pub(super) is_tls: bool,
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
pub(super) enum Guest {
    /// HTTP clients.
    Client,
    /// Envoy, by gRPC.
    Envoy,
}

/// How connections of a listener are taken.
#[derive(Clone, Debug)]
pub(super) struct Manner {
    pub(super) guest: Guest,
    pub(super) place: usize,
    pub(super) mode: ListenMode,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) header_timeout: Duration,
}

/// Opens a listener's socket.
///
/// # Errors
/// The address cannot be bound, or TPROXY is not allowed.
pub(super) fn bind(address: SocketAddr, mode: ListenMode) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
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
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Takes connections until the proxy stops.
pub(super) async fn accept(
    listener: TcpListener,
    manner: Rc<Manner>,
    gate: Rc<Gate>,
    room: Rc<Semaphore>,
    mut stopping: watch::Receiver<bool>,
) {
    loop {
        let permit = room.clone();
        let permit = tokio::select! {
            permit = permit.acquire() => permit,
            _ = stopping.wait_for(|stops| *stops) => return,
        };
        let Ok(permit) = permit else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stops| *stops) => return,
        };
        match accepted {
            Ok((stream, address)) => {
                permit.forget();
                let (manner, gate, room) = (manner.clone(), gate.clone(), room.clone());
                let stopping = stopping.clone();
                spawn_local(async move {
                    gate.registry.counts.note_client(1);
                    converse(stream, address, &manner, &gate, stopping).await;
                    gate.registry.counts.note_client(-1);
                    room.add_permits(1);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the proxy cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A client that breaks off is its own business: nothing is logged.
async fn converse(
    stream: TcpStream,
    address: SocketAddr,
    manner: &Manner,
    gate: &Rc<Gate>,
    stopping: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let text = address.ip().to_canonical().to_string();
    let peer = Rc::new(Peer {
        listener: manner.place,
        address: SocketAddr::new(address.ip().to_canonical(), address.port()),
        forwarded: HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("unknown")),
        is_explicit: manner.mode == ListenMode::Explicit,
        is_tls: manner.tls.is_some(),
        original: original(&stream, manner.mode),
    });
    let Some(tls) = &manner.tls else {
        return serve(stream, peer, manner, gate, stopping).await;
    };
    let accepting = TlsAcceptor::from(tls.clone()).accept(stream);
    if let Ok(Ok(stream)) = tokio::time::timeout(manner.header_timeout, accepting).await {
        serve(stream, peer, manner, gate, stopping).await;
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    peer: Rc<Peer>,
    manner: &Manner,
    gate: &Rc<Gate>,
    stopping: watch::Receiver<bool>,
) {
    match manner.guest {
        Guest::Client => {
            let service = service_fn(|request| {
                let exchange = exchange(gate.clone(), peer.clone(), request);
                async move { Ok::<_, Infallible>(exchange.await) }
            });
            answer(stream, manner, service, stopping).await;
        }
        Guest::Envoy => {
            let service = service_fn(|request| {
                let dialog = envoy::answer(gate.clone(), peer.clone(), request);
                async move { Ok::<_, Infallible>(dialog.await) }
            });
            answer(stream, manner, service, stopping).await;
        }
    }
}

async fn answer<S, Q, B>(
    stream: S,
    manner: &Manner,
    service: Q,
    mut stopping: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    Q: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    Q::Future: 'static,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    LocalExecutor: HttpServerConnExec<Q::Future, B>,
{
    let streams = if manner.guest == Guest::Envoy { DIALOGS_MAX } else { STREAMS_MAX };
    let mut builder = auto::Builder::new(LocalExecutor);
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(manner.header_timeout)
        .max_buf_size(HEAD_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(HEAD_MAX as u32)
        .adaptive_window(true)
        .max_concurrent_streams(streams);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let has_told = Cell::new(false);
    loop {
        tokio::select! {
            _ = connection.as_mut() => return,
            _ = stopping.wait_for(|stops| *stops), if !has_told.get() => {
                // What is under way is finished.
                has_told.set(true);
                connection.as_mut().graceful_shutdown();
            }
        }
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
