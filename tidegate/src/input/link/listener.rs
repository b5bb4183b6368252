//! The listening end of links: connections, who they come from, and the life that each belongs to.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn::{Endpoint, TokioRuntime};
use rustls::ServerConfig;
use socket2::{Domain, Protocol, Socket, Type};
use tidegate_core::link::packet::Head;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::LinkInputOptions;
use super::life::Life;
use crate::input::complaints::Complaints;
use crate::input::streams::{Names, Streams};
use crate::link::wire::{self, Heard, Wire, split};
use crate::link::{HEARD_MAX, PROTOCOL, quic, tcp};
use crate::port::Intake;
use crate::tls::{self, Certificate, Stream};

/// How long a handshake may take, and the first packet after it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Handshakes over TCP at a time.
const HANDSHAKES_MAX: usize = 64;
/// Lives of all nodes; each may hold a window of records.
const LIVES_MAX: usize = 256;
/// Lives of one node: the present one, and those that have not ended yet.
const LIVES_OF_ONE: usize = 4;
/// Waiting after an accept that failed.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);
/// How long a stop waits for the last words.
const GOODBYE: Duration = Duration::from_secs(1);

/// Ports that are tried where any will do.
const CHOICES: usize = 32;

/// Why a link input cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The TLS cannot do what QUIC needs.
    #[error("link input: {0}")]
    Tls(String),
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

/// Bound sockets that take no connection yet.
#[derive(Debug)]
pub struct LinkListener {
    endpoints: Vec<Endpoint>,
    listeners: Vec<TcpListener>,
    options: LinkInputOptions,
}

/// Binds every address of the options.
///
/// # Errors
/// An address cannot be listened on.
pub fn bind(options: LinkInputOptions) -> Result<LinkListener, LinkError> {
    let (config, endpoint) = quic::server(&options.tls, &options.secret).map_err(LinkError::Tls)?;
    let (mut endpoints, mut listeners) = (Vec::new(), Vec::new());
    for &address in &options.listen {
        let only_v6 = options.listen.iter().any(SocketAddr::is_ipv4);
        let (socket, listener) = sockets(address, only_v6, options.tcp)?;
        let opened =
            Endpoint::new(endpoint.clone(), Some(config.clone()), socket, Arc::new(TokioRuntime));
        endpoints.push(opened.map_err(|source| failed(address, "UDP", source))?);
        listeners.extend(listener);
    }
    Ok(LinkListener { endpoints, listeners, options })
}

fn failed(address: SocketAddr, protocol: &'static str, source: io::Error) -> LinkError {
    let cure = cure(&source);
    LinkError::Listen { address, protocol, cure, source }
}

/// Sockets of both protocols with one port.
fn sockets(
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

/// What all connections share.
struct Shared {
    options: Arc<LinkInputOptions>,
    /// The same TLS, for TCP.
    tls: Arc<ServerConfig>,
    streams: Streams,
    intake: Intake,
    lives: Mutex<Lives>,
    handshakes: Semaphore,
    complaints: Complaints,
}

/// Where lives hear, by the name of the node and its incarnation, and when each began.
#[derive(Default)]
struct Lives {
    all: BTreeMap<(Arc<str>, u32), (u64, mpsc::Sender<Heard>)>,
    begun: u64,
    tasks: JoinSet<()>,
}

impl LinkListener {
    /// The addresses that nodes can dial, with the ports that the system chose.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.endpoints.iter().filter_map(|endpoint| endpoint.local_addr().ok()).collect()
    }

    /// Takes connections until `stop` is true or its sender is gone. What is in `accepted` is not accepted
    /// again.
    pub async fn run(self, intake: Intake, accepted: Names, mut stop: watch::Receiver<bool>) {
        let LinkListener { endpoints, listeners, options } = self;
        let mut tls = (*options.tls).clone();
        tls.alpn_protocols = vec![PROTOCOL.to_vec()];
        let streams = Streams::new(intake.clone(), accepted, options.relays.clone());
        let shared = Arc::new(Shared {
            options: Arc::new(options),
            tls: Arc::new(tls),
            streams,
            intake,
            lives: Mutex::default(),
            handshakes: Semaphore::new(HANDSHAKES_MAX),
            complaints: Complaints::new(Instant::now()),
        });
        // With it all that was accepted ends: nothing outlives the listener.
        let mut tasks = JoinSet::new();
        for endpoint in &endpoints {
            tasks.spawn(accept_quic(endpoint.clone(), shared.clone()));
        }
        for listener in listeners {
            tasks.spawn(accept_tcp(listener, shared.clone()));
        }
        let _ = stop.wait_for(|stop| *stop).await;
        for endpoint in &endpoints {
            endpoint.close(0u32.into(), b"the far node is stopping");
        }
        tasks.shutdown().await;
        let mut lives =
            std::mem::take(&mut *shared.lives.lock().unwrap_or_else(PoisonError::into_inner));
        lives.all.clear();
        let _ = timeout(GOODBYE, async { while lives.tasks.join_next().await.is_some() {} }).await;
        for endpoint in &endpoints {
            let _ = timeout(GOODBYE, endpoint.wait_idle()).await;
        }
    }
}

async fn accept_quic(endpoint: Endpoint, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            Some(_) = connections.join_next() => continue,
        };
        let Some(incoming) = incoming else { return };
        let shared = shared.clone();
        connections.spawn(async move {
            let peer = incoming.remote_address();
            let why = match timeout(PATIENCE, incoming).await {
                Ok(Ok(connection)) => serve_quic(connection, &shared).await,
                Ok(Err(error)) => Some(quic::explain(&error)),
                Err(_) => Some("no handshake in time".into()),
            };
            shared.complain(peer, why);
        });
    }
}

async fn accept_tcp(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, peer)) => {
                let shared = shared.clone();
                connections.spawn(async move {
                    let why = serve_tcp(stream, &shared).await;
                    shared.complain(peer, why);
                });
            }
            Err(error) => {
                shared.complain_of(&format!("connections cannot be accepted: {error}"));
                tokio::time::sleep(ACCEPT_WAIT).await;
            }
        }
    }
}

/// Serves a QUIC connection to its end. Answers what is wrong with it.
async fn serve_quic(connection: quinn::Connection, shared: &Arc<Shared>) -> Option<String> {
    let Some(peer) = quic::peer_name(&connection).filter(|name| shared.may_come(name)) else {
        let why = "the name in the certificate is not in `from`";
        connection.close(1u32.into(), why.as_bytes());
        return Some(why.into());
    };
    let first = match timeout(PATIENCE, connection.read_datagram()).await {
        Ok(Ok(datagram)) => greeting(datagram),
        Ok(Err(error)) => return Some(quic::explain(&error)),
        Err(_) => Err("no packet after the handshake".into()),
    };
    let first = match first {
        Ok(first) => first,
        Err(why) => {
            connection.close(1u32.into(), why.as_bytes());
            return Some(why);
        }
    };
    let Greeting { packet, path, incarnation } = first;
    let Some(heard) = shared.life(&peer, incarnation) else {
        connection.close(1u32.into(), b"too many links here");
        return Some("too many links".into());
    };
    let wire = Wire::quic(connection.clone());
    let number = wire.number();
    let _ = heard.send(Heard::Up { path, wire }).await;
    let _ = heard.send(Heard::Packet { path, number, packet }).await;
    wire::listen(&connection, (path, number), &heard).await;
    None
}

/// The same for TCP.
async fn serve_tcp(stream: TcpStream, shared: &Arc<Shared>) -> Option<String> {
    let permit = shared.handshakes.acquire().await;
    let begin = async {
        tcp::prepare(&stream)?;
        let mut stream = Stream::server(stream, shared.tls.clone())?;
        stream.handshake().await?;
        let mut input = BytesMut::new();
        let datagram = tcp::first(&mut stream, &mut input).await?;
        io::Result::Ok((stream, input, datagram))
    };
    let (mut stream, input, datagram) = match timeout(PATIENCE, begin).await {
        Ok(Ok(begun)) => begun,
        Ok(Err(error)) => return Some(tls::explain(&error).unwrap_or_else(|| error.to_string())),
        Err(_) => return Some("no handshake in time".into()),
    };
    drop(permit);
    let certificate = stream.peer_certificate().and_then(|der| Certificate::read(der).ok());
    let name = certificate.and_then(|certificate| certificate.common_name);
    let Some(peer) = name.filter(|name| shared.may_come(name)) else {
        return Some("the name in the certificate is not in `from`".into());
    };
    let Greeting { packet, path, incarnation } = match greeting(datagram) {
        Ok(first) => first,
        Err(why) => return Some(why),
    };
    let Some(heard) = shared.life(&peer, incarnation) else {
        return Some("too many links".into());
    };
    let (wire, packets) = Wire::tcp();
    let number = wire.number();
    let _ = heard.send(Heard::Up { path, wire }).await;
    let _ = heard.send(Heard::Packet { path, number, packet }).await;
    tcp::carry(&mut stream, input, packets, (path, number), &heard).await;
    None
}

/// What the first packet of a connection says.
struct Greeting {
    packet: Bytes,
    path: usize,
    incarnation: u32,
}

fn greeting(datagram: Bytes) -> Result<Greeting, String> {
    let (packet, path) = split(datagram).ok_or("a packet without a path")?;
    let (head, _) = Head::decode(&packet).map_err(|error| error.to_string())?;
    Ok(Greeting { packet, path, incarnation: head.from })
}

impl Shared {
    fn may_come(&self, name: &str) -> bool {
        self.options.from.is_empty() || self.options.from.iter().any(|from| from == name)
    }

    fn complain(&self, peer: SocketAddr, why: Option<String>) {
        if let Some(why) = why {
            self.complain_of(&format!("a link from {peer} ended: {why}"));
        }
    }

    /// Warnings are bounded.
    fn complain_of(&self, text: &str) {
        if let Some(withheld) = self.complaints.allow(Instant::now()) {
            tracing::warn!(withheld, "{text}");
        }
    }

    /// Where the life of this node hears; a new one where it is not known. `None`: there are too many.
    fn life(self: &Arc<Self>, peer: &str, incarnation: u32) -> Option<mpsc::Sender<Heard>> {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        lives.all.retain(|_, (_, heard)| !heard.is_closed());
        let name: Arc<str> = peer.into();
        if let Some((_, heard)) = lives.all.get(&(name.clone(), incarnation)) {
            return Some(heard.clone());
        }
        let of_one = |all: &BTreeMap<(Arc<str>, u32), (u64, _)>| {
            all.iter().filter(|((other, _), _)| *other == name).count()
        };
        if of_one(&lives.all) >= LIVES_OF_ONE {
            let own = lives.all.iter().filter(|((other, _), _)| *other == name);
            let oldest = own.min_by_key(|(_, (begun, _))| *begun).map(|(key, _)| key.clone());
            oldest.map(|oldest| lives.all.remove(&oldest));
        }
        if lives.all.len() >= LIVES_MAX {
            return None;
        }
        let (sender, heard) = mpsc::channel(HEARD_MAX);
        lives.begun += 1;
        let begun = lives.begun;
        lives.all.insert((name.clone(), incarnation), (begun, sender.clone()));
        tracing::info!(from = %name, "a link begins");
        let life = Life {
            peer: name,
            incarnation,
            options: self.options.clone(),
            streams: self.streams.clone(),
            links: self.intake.links().clone(),
            clock: self.intake.clock(),
        };
        while lives.tasks.try_join_next().is_some() {}
        lives.tasks.spawn(life.run(heard));
        Some(sender)
    }
}
