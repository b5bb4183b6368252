//! Connections to an upstream: how they are made and kept.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::spawn_local;
use tokio_rustls::TlsConnector;

use super::io::Io;
use super::sockets::Sockets;
use crate::config::Protocol;
use crate::services::proxy::body::Passing;
use crate::services::proxy::connection::LocalExecutor;

/// What waits in a connection in each direction, a response's head included.
const BUFFER_MAX: usize = 128 << 10;
/// What an upstream may send of one response before the client takes it.
const STREAM_WINDOW: u32 = 256 << 10;
/// The same of all responses together: clients that take nothing must not stop those of others.
const CONNECTION_WINDOW: u32 = 256 << 20;
/// Idle connections that are kept of one endpoint; more are closed.
const IDLE_MAX: usize = 1024;

/// How connections are made.
#[derive(Clone, Debug)]
pub(super) struct ConnectSettings {
    pub(super) protocol: Protocol,
    /// One that offers HTTP/2 and HTTP/1.1, or the one that is wanted.
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) name: Option<ServerName<'static>>,
    pub(super) connect_timeout: Duration,
    pub(super) idle_timeout: Duration,
}

/// A connection, ready for a request.
#[derive(Debug)]
pub(super) enum Sender {
    /// For one request at a time.
    Http1(http1::SendRequest<Passing>),
    /// For many.
    Http2(http2::SendRequest<Passing>),
}

/// One address of an upstream.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_down: AtomicBool,
}

impl Address {
    pub(super) fn new(host: String, port: u16) -> Arc<Address> {
        Arc::new(Address { host, port, is_down: AtomicBool::new(false) })
    }

    pub(super) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    pub(super) async fn dial(&self) -> io::Result<TcpStream> {
        TcpStream::connect((self.host.as_str(), self.port)).await
    }
}

/// The connections of one thread to an address.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) address: Arc<Address>,
    idle: RefCell<Vec<(http1::SendRequest<Passing>, Instant)>>,
    shared: RefCell<Option<http2::SendRequest<Passing>>>,
}

impl Endpoint {
    pub(super) fn new(address: Arc<Address>) -> Endpoint {
        Endpoint { address, idle: RefCell::default(), shared: RefCell::default() }
    }

    /// A kept connection that seems to live.
    pub(super) async fn kept(&self, wants_http2: bool) -> Option<Sender> {
        if wants_http2 {
            let shared = self.shared.borrow().clone();
            if let Some(mut sender) = shared {
                if !sender.is_closed() && sender.ready().await.is_ok() {
                    return Some(Sender::Http2(sender));
                }
                *self.shared.borrow_mut() = None;
            }
            return None;
        }
        loop {
            // The one used last is the likeliest to live.
            let (sender, _) = self.idle.borrow_mut().pop()?;
            // A closed one is not ready either. Nobody waits here for what another client sends.
            if sender.is_ready() {
                return Some(Sender::Http1(sender));
            }
        }
    }

    /// Keeps a connection whose response was read to its end, if it can be used again. It cannot while the body of
    /// its request is still being sent: dropped, it ends with that body.
    pub(super) fn keep(&self, sender: http1::SendRequest<Passing>) {
        let idle = &mut *self.idle.borrow_mut();
        if sender.is_ready() && idle.len() < IDLE_MAX {
            idle.push((sender, Instant::now()));
        }
    }

    /// Closes what was idle for too long.
    pub(super) fn sweep(&self, idle_timeout: Duration) {
        let now = Instant::now();
        self.idle.borrow_mut().retain(|(sender, since)| {
            !sender.is_closed() && now.duration_since(*since) < idle_timeout
        });
    }

    /// A new connection.
    ///
    /// # Errors
    /// There is none, or it took too long.
    pub(super) async fn connect(
        &self,
        settings: &ConnectSettings,
        sockets: &Arc<Sockets>,
        wants_http2: bool,
    ) -> io::Result<Sender> {
        let connecting = self.connect_now(settings, sockets, wants_http2);
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let sender =
            tokio::time::timeout(settings.connect_timeout, connecting).await.map_err(late)??;
        if let Sender::Http2(sender) = &sender {
            *self.shared.borrow_mut() = Some(sender.clone());
        }
        Ok(sender)
    }

    /// A connection for what is no HTTP.
    ///
    /// # Errors
    /// There is none, or it took too long.
    pub(super) async fn tunnel(&self, settings: &ConnectSettings) -> io::Result<TcpStream> {
        let connecting = self.address.dial();
        let late = |_| io::Error::from(io::ErrorKind::TimedOut);
        let stream =
            tokio::time::timeout(settings.connect_timeout, connecting).await.map_err(late)??;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn connect_now(
        &self,
        settings: &ConnectSettings,
        sockets: &Arc<Sockets>,
        wants_http2: bool,
    ) -> io::Result<Sender> {
        let stream = self.address.dial().await?;
        stream.set_nodelay(true)?;
        let (mut io, is_http2) = match &settings.tls {
            None => (Io::plain(stream), wants_http2),
            Some(config) => {
                let name = match &settings.name {
                    Some(name) => name.clone(),
                    None => crate::support::tls::server_name(&self.address.host)
                        .map_err(io::Error::other)?,
                };
                let stream = TlsConnector::from(config.clone()).connect(name, stream).await?;
                let agreed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                (Io::tls(stream), agreed)
            }
        };
        let (sockets, number) = (sockets.clone(), io.enter(sockets));
        let failed = |error: hyper::Error| io::Error::other(error);
        if is_http2 {
            let shaken = http2::Builder::new(LocalExecutor)
                .timer(TokioTimer::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_send_buf_size(BUFFER_MAX)
                .handshake(TokioIo::new(io))
                .await;
            let (sender, connection) = shaken.map_err(failed)?;
            spawn_local(async move { _ = connection.await });
            return Ok(Sender::Http2(sender));
        }
        let mut builder = http1::Builder::new();
        let shaken = builder.max_buf_size(BUFFER_MAX).handshake(TokioIo::new(io)).await;
        let (sender, connection) = shaken.map_err(failed)?;
        spawn_local(async move {
            let _ = connection.with_upgrades().await;
            // It may be open still, as something else than HTTP.
            sockets.end(number);
        });
        Ok(Sender::Http1(sender))
    }
}
