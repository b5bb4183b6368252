//! The dialing end of one path: keeps a connection, for as long as its interface has a way to the peer.
//!
//! QUIC is tried first. Where nothing answers, TCP is tried beside it, and QUIC again from time to time.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use quinn::{ConnectionError, Endpoint, EndpointConfig};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::lookup_host;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::binding::Binding;
use super::marking::{self, Marking};
use super::wire::{self, Heard, Wire};
use super::{Target, protocols, quic, tcp};
use crate::support::backoff::Backoff;
use crate::support::complaints::Complaint;
use crate::support::tls::{self, Stream};

/// How often the kernel is asked whether the path is still the same.
const LOOK: Duration = Duration::from_secs(1);
/// How long the name of the peer may take to resolve.
const RESOLVE_PATIENCE: Duration = Duration::from_secs(5);
/// How long a handshake may take: at 50 kbit/s and a round trip of a second it takes three.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// QUIC that is not there after this time may be blocked: TCP is tried beside it.
const UDP_PATIENCE: Duration = Duration::from_secs(3);
/// A path on TCP asks this often whether UDP passes now.
const UDP_AGAIN: Duration = Duration::from_secs(60);
/// Waits between attempts: a path that comes back is wanted soon.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// A connection that held this long was no failed attempt.
const STABLE: Duration = Duration::from_secs(5);

/// Whether TCP stands in for QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// Where UDP is blocked.
    #[default]
    Auto,
    /// Never.
    Never,
    /// Always: no QUIC at all.
    Always,
}

/// What all paths of a link share.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Its name or address.
    pub(crate) host: Arc<str>,
    /// Its port, for UDP and TCP.
    pub(crate) port: u16,
    /// What its certificate must prove, and what we show.
    pub(crate) tls: Arc<ClientConfig>,
    /// The same for QUIC.
    pub(crate) quic: quinn::ClientConfig,
    /// Whether TCP stands in.
    pub(crate) fallback: Fallback,
}

/// See the file's header.
pub(crate) struct Dialer {
    /// Number of the path.
    pub(crate) path: usize,
    /// What it is bound to.
    pub(crate) binding: Binding,
    /// Whom it dials.
    pub(crate) peer: Peer,
    /// Where the link is a place for several, one after the other: who it is now.
    pub(crate) target: Option<watch::Receiver<Option<Target>>>,
    /// Where it reports.
    pub(crate) heard: mpsc::Sender<Heard>,
    /// Counts lives of the link: each has connections of its own.
    pub(crate) life: watch::Receiver<u64>,
    /// What was complained of last.
    pub(crate) complaint: Complaint,
}

/// A connection that is agreed on.
enum Connected {
    Quic(Endpoint, quinn::Connection, Arc<Marking>),
    Tcp(Box<Stream>),
}

/// Why a connection ended.
enum End {
    /// The link is over.
    Stopped,
    /// Another life begins, or something better: dial at once.
    Again,
    /// In words.
    Failed(String),
}

impl Dialer {
    /// Keeps a connection until nobody listens any more.
    pub(crate) async fn run(mut self) {
        let mut backoff = Backoff::within(WAITS.0, WAITS.1);
        loop {
            self.life.borrow_and_update();
            let heard = self.heard.clone();
            if let Some(target) = &mut self.target {
                let wanted = tokio::select! {
                    wanted = target.wait_for(Option::is_some) => wanted.ok().and_then(|one| one.clone()),
                    () = heard.closed() => return,
                };
                let Some((host, port)) = wanted else { return };
                (self.peer.host, self.peer.port) = (host, port);
            }
            let begun = Instant::now();
            let end = tokio::select! {
                end = self.serve() => end,
                () = heard.closed() => End::Stopped,
            };
            if begun.elapsed() >= STABLE {
                backoff.reset();
            }
            match end {
                End::Stopped => return,
                End::Again => continue,
                End::Failed(why) => {
                    if self.complaint.is_new(&why) {
                        let (path, host, port) = (&self.binding, &self.peer.host, self.peer.port);
                        tracing::warn!(%path, %host, port, "no path: {why}; trying again");
                    }
                }
            }
            tokio::select! {
                () = sleep(backoff.next()) => {}
                () = heard.closed() => return,
            }
        }
    }

    /// One connection, from the name to its end.
    async fn serve(&mut self) -> End {
        let (address, source) = match self.find().await {
            Ok(found) => found,
            Err(why) => return End::Failed(why),
        };
        match self.connect(address).await {
            // The place is somebody else's since.
            Ok(_) if self.life.has_changed().unwrap_or(true) => End::Again,
            Ok(connected) => self.keep(connected, address, source).await,
            Err(why) => End::Failed(why),
        }
    }

    /// The first address of the peer that this path has a way to, and from where.
    async fn find(&self) -> Result<(SocketAddr, IpAddr), String> {
        let Peer { host, port, .. } = &self.peer;
        let addresses = timeout(RESOLVE_PATIENCE, lookup_host((&**host, *port))).await;
        let addresses = match addresses {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => return Err(format!("{host} has no address: {error}")),
            Err(_) => return Err(format!("the name {host} is not resolved in time")),
        };
        let mut why = format!("{host} has no address");
        for address in addresses {
            match self.binding.source(address) {
                Ok(source) => return Ok((address, source)),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// By QUIC, or by TCP where that is all that works.
    async fn connect(&self, address: SocketAddr) -> Result<Connected, String> {
        match self.peer.fallback {
            Fallback::Always => self.connect_tcp(address).await,
            Fallback::Never => self.connect_quic(address).await,
            Fallback::Auto => {
                let quic = self.connect_quic(address);
                tokio::pin!(quic);
                if let Ok(result) = timeout(UDP_PATIENCE, &mut quic).await {
                    return result;
                }
                tokio::select! {
                    result = &mut quic => result,
                    // One that fails says nothing: QUIC may only be slow.
                    Ok(connected) = self.connect_tcp(address) => Ok(connected),
                }
            }
        }
    }

    async fn connect_quic(&self, address: SocketAddr) -> Result<Connected, String> {
        let opened = self
            .binding
            .udp(address)
            .and_then(|socket| marking::endpoint(EndpointConfig::default(), None, socket));
        let (endpoint, marking) = opened.map_err(|error| format!("{}: {error}", self.binding))?;
        let connecting = endpoint.connect_with(self.peer.quic.clone(), address, &self.peer.host);
        let connecting = connecting.map_err(|error| error.to_string())?;
        match timeout(HANDSHAKE_PATIENCE, connecting).await {
            Ok(Ok(connection)) => Ok(Connected::Quic(endpoint, connection, marking)),
            Ok(Err(error)) => Err(quic::explain(&error)),
            Err(_) => Err(format!(
                "{address} does not answer: is its link input running, and UDP \
                                   not blocked on the way?"
            )),
        }
    }

    async fn connect_tcp(&self, address: SocketAddr) -> Result<Connected, String> {
        let connect = async {
            let socket = self.binding.tcp(address).await?;
            tcp::prepare(&socket)?;
            let name = tls::server_name(&self.peer.host).unwrap_or(ServerName::from(address.ip()));
            let mut config = (*self.peer.tls).clone();
            config.alpn_protocols = protocols();
            let mut stream = Stream::client(socket, Arc::new(config), name)?;
            stream.handshake().await?;
            Ok(stream)
        };
        match timeout(HANDSHAKE_PATIENCE, connect).await {
            Ok(Ok(stream)) => Ok(Connected::Tcp(Box::new(stream))),
            Ok(Err(error)) => Err(explain(&error)),
            Err(_) => Err(format!("{address} does not answer")),
        }
    }

    /// Carries packets until the connection or the path ends, or another life begins.
    async fn keep(&mut self, connected: Connected, address: SocketAddr, source: IpAddr) -> End {
        let (path, heard) = (self.path, self.heard.clone());
        match connected {
            Connected::Quic(endpoint, connection, marking) => {
                let wire = Wire::quic(connection.clone(), marking.clone());
                marking.is_scalable(wire.hears_marks());
                let number = wire.number();
                self.tell(&wire);
                if heard.send(Heard::Up { path, wire }).await.is_err() {
                    return End::Stopped;
                }
                let carry = wire::listen(&connection, (path, number), &heard);
                let end = tokio::select! {
                    error = carry => match error {
                        // The link has dropped it: another life begins.
                        ConnectionError::LocallyClosed => End::Again,
                        error => End::Failed(quic::explain(&error)),
                    },
                    end = self.watch(address, source) => end,
                };
                let _ = heard.send(Heard::Down { path, number }).await;
                connection.close(0u32.into(), b"this path is over");
                // What was said last shall leave; where the way is gone, nobody waits for it.
                let _ = timeout(LOOK, endpoint.wait_idle()).await;
                end
            }
            Connected::Tcp(mut stream) => {
                let (wire, packets) = Wire::tcp(&stream);
                let number = wire.number();
                self.tell(&wire);
                if heard.send(Heard::Up { path, wire }).await.is_err() {
                    return End::Stopped;
                }
                let carry =
                    tcp::carry(&mut stream, BytesMut::new(), packets, (path, number), &heard);
                let udp = self.udp_again(address);
                let end = tokio::select! {
                    error = carry => match error.kind() {
                        std::io::ErrorKind::Interrupted => End::Again,
                        _ => End::Failed(explain(&error)),
                    },
                    () = udp => End::Again,
                    end = self.watch(address, source) => end,
                };
                let _ = heard.send(Heard::Down { path, number }).await;
                end
            }
        }
    }

    fn tell(&self, wire: &Wire) {
        // What comes next is a new story, even if it ends by the same words.
        self.complaint.is_new("");
        let (path, host, port) = (&self.binding, &self.peer.host, self.peer.port);
        tracing::info!(%path, %host, port, by = wire.transport(), "path is connected");
    }

    /// Ends when UDP passes, where it did not.
    async fn udp_again(&self, address: SocketAddr) {
        if self.peer.fallback != Fallback::Auto {
            return std::future::pending().await;
        }
        loop {
            sleep(UDP_AGAIN).await;
            if let Ok(Connected::Quic(_, connection, _)) = self.connect_quic(address).await {
                connection.close(0u32.into(), b"only asked");
                return;
            }
        }
    }

    /// Ends when packets to the peer would come from elsewhere, or another life begins.
    async fn watch(&self, address: SocketAddr, source: IpAddr) -> End {
        let mut life = self.life.clone();
        let mut look = Instant::now() + LOOK;
        loop {
            tokio::select! {
                changed = life.changed() => {
                    return if changed.is_ok() { End::Again } else { End::Stopped };
                }
                () = sleep_until(look) => match self.binding.source(address) {
                    Ok(now) if now == source => look += LOOK,
                    Ok(now) => {
                        let path = &self.binding;
                        tracing::info!(%path, from = %now, "the path has another address");
                        return End::Again;
                    }
                    Err(why) => return End::Failed(why),
                },
            }
        }
    }
}

fn explain(error: &std::io::Error) -> String {
    tls::explain(error).unwrap_or_else(|| error.to_string())
}
