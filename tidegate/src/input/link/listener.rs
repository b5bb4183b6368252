//! The listening end of links: connections, who they come from, and the life that each belongs to.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn::Endpoint;
use rustls::ServerConfig;
use tidegate_link::packet::PacketHeader;
use tidegate_types::account::{Account, Kind, Level, Refusal, Reservation};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::LinkInputOptions;
use super::life::{HEARD_HERE, LIFE_ROOM, Life};
use super::sockets::{LinkError, failed, sockets};
use crate::input::streams::{Names, Streams};
use crate::link::marking::{self, Marking};
use crate::link::wire::{self, Heard, Met, Wire, split};
use crate::link::{protocols, quic, tcp};
use crate::node::contract::Intake;
use crate::support::complaints::Complaints;
use crate::support::tls::{self, Stream};

/// How long a handshake may take, and the first packet after it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Handshakes over TCP at a time.
pub(super) const HANDSHAKES_MAX: usize = 64;
/// The same over QUIC, and how many of them before who comes next must show its address first.
const ANSWERED: usize = 64;
const ANSWERED_FREE: usize = 8;
/// Lives of all nodes; each may hold a window of records.
const LIVES_MAX: usize = 256;
/// Lives of one node: the present one, and those that have not ended yet.
const LIVES_OF_ONE: usize = 4;
/// Waiting after an accept that failed.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);
/// How long a stop waits for the last words.
const GOODBYE: Duration = Duration::from_secs(1);

/// Bound sockets that take no connection yet.
#[derive(Debug)]
pub struct LinkListener {
    endpoints: Vec<(Endpoint, Arc<Marking>)>,
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
        let opened = marking::endpoint(endpoint.clone(), Some(config.clone()), socket);
        endpoints.push(opened.map_err(|source| failed(address, "UDP", source))?);
        listeners.extend(listener);
    }
    Ok(LinkListener { endpoints, listeners, options })
}

/// What all connections share.
struct Shared {
    options: Arc<LinkInputOptions>,
    /// The same TLS, for TCP.
    tls: Arc<ServerConfig>,
    streams: Streams,
    intake: Intake,
    lives: Mutex<Lives>,
    /// Handshakes over TCP.
    handshakes: Semaphore,
    /// The same of QUIC: all links are on the thread that answers them.
    answering: Arc<Semaphore>,
    complaints: Complaints,
    /// What all nodes that come by this listener may make us hold.
    account: Account,
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
        self.endpoints.iter().filter_map(|(endpoint, _)| endpoint.local_addr().ok()).collect()
    }

    /// Takes connections until `stop` is true or its sender is gone. What `names` know is not accepted again.
    pub async fn run(self, intake: Intake, names: Names, mut stop: watch::Receiver<bool>) {
        let LinkListener { endpoints, listeners, options } = self;
        let mut tls = (*options.tls).clone();
        tls.alpn_protocols = protocols();
        let streams = Streams::new(intake.clone(), names, options.relays.clone());
        let account = intake.hub().account_of_listener();
        let shared = Arc::new(Shared {
            options: Arc::new(options),
            tls: Arc::new(tls),
            streams,
            intake,
            lives: Mutex::default(),
            handshakes: Semaphore::new(HANDSHAKES_MAX),
            answering: Arc::new(Semaphore::new(ANSWERED)),
            complaints: Complaints::new(Instant::now()),
            account,
        });
        // With it all that was accepted ends: nothing outlives the listener.
        let mut tasks = JoinSet::new();
        for (endpoint, marking) in &endpoints {
            tasks.spawn(accept_quic(endpoint.clone(), marking.clone(), shared.clone()));
        }
        for listener in listeners {
            tasks.spawn(accept_tcp(listener, shared.clone()));
        }
        let _ = stop.wait_for(|stop| *stop).await;
        for (endpoint, _) in &endpoints {
            endpoint.close(0u32.into(), b"the far node is stopping");
        }
        tasks.shutdown().await;
        let mut lives =
            std::mem::take(&mut *shared.lives.lock().unwrap_or_else(PoisonError::into_inner));
        lives.all.clear();
        let _ = timeout(GOODBYE, async { while lives.tasks.join_next().await.is_some() {} }).await;
        for (endpoint, _) in &endpoints {
            let _ = timeout(GOODBYE, endpoint.wait_idle()).await;
        }
    }
}

async fn accept_quic(endpoint: Endpoint, marking: Arc<Marking>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = endpoint.accept() => incoming,
            Some(_) = connections.join_next() => continue,
        };
        let Some(incoming) = incoming else { return };
        let (shared, marking) = (shared.clone(), marking.clone());
        let Ok(permit) = shared.answering.clone().try_acquire_owned() else {
            // As if it were lost: it is sent again.
            incoming.ignore();
            continue;
        };
        let is_crowded = shared.answering.available_permits() < ANSWERED - ANSWERED_FREE;
        if is_crowded && !incoming.remote_address_validated() {
            // Whoever gave a false address hears nothing of this, and costs no more.
            let _ = incoming.retry();
            continue;
        }
        connections.spawn(async move {
            let peer = incoming.remote_address();
            let answered = timeout(PATIENCE, incoming).await;
            drop(permit);
            let why = match answered {
                Ok(Ok(connection)) => serve_quic(connection, marking, &shared).await,
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
async fn serve_quic(
    connection: quinn::Connection,
    marking: Arc<Marking>,
    shared: &Arc<Shared>,
) -> Option<String> {
    let met = quic::met(&connection);
    let peer = match shared.admit(&met) {
        Ok(peer) => peer,
        Err(why) => {
            connection.close(1u32.into(), why.as_bytes());
            return Some(why.into());
        }
    };
    let _room = match shared.room(&peer, quic::ROOM) {
        Ok(room) => room,
        Err(refusal) => {
            let why = no_room(&refusal);
            connection.close(1u32.into(), why.as_bytes());
            return Some(why);
        }
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
    let heard = match shared.life(peer, &met, incarnation) {
        Ok(heard) => heard,
        Err(why) => {
            connection.close(1u32.into(), why.as_bytes());
            return Some(why);
        }
    };
    let wire = Wire::quic(connection.clone(), marking);
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
    let met = Met::of(&stream);
    let peer = match shared.admit(&met) {
        Ok(peer) => peer,
        Err(why) => return Some(why.into()),
    };
    let _room = match shared.room(&peer, tcp::ROOM) {
        Ok(room) => room,
        Err(refusal) => return Some(no_room(&refusal)),
    };
    let Greeting { packet, path, incarnation } = match greeting(datagram) {
        Ok(first) => first,
        Err(why) => return Some(why),
    };
    let heard = match shared.life(peer, &met, incarnation) {
        Ok(heard) => heard,
        Err(why) => return Some(why),
    };
    let (wire, packets) = Wire::tcp(&stream);
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
    let (head, _) = PacketHeader::decode(&packet).map_err(|error| error.to_string())?;
    Ok(Greeting { packet, path, incarnation: head.from })
}

/// What a node hears for which there is no room.
fn no_room(refusal: &Refusal) -> String {
    format!("no memory for this link here, raise [limits] memory: {refusal}")
}

impl Shared {
    /// Room for what a node can make us hold, on its fair share.
    fn room(&self, peer: &str, bytes: usize) -> Result<Reservation, Refusal> {
        self.account.fair_named(Level::User, peer).reserve(Kind::Windows, bytes)
    }

    /// The name of a node that may come.
    fn admit(&self, met: &Met) -> Result<Arc<str>, &'static str> {
        let from = &self.options.from;
        let may_come =
            |name: &Arc<str>| from.is_empty() || from.iter().any(|from| **from == **name);
        if !met.may_be_node {
            return Err(
                "the role in the certificate is not that of a node: issue it with --role node",
            );
        }
        let name = met.name.clone().filter(may_come);
        name.ok_or("the name in the certificate is not in `from`")
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

    /// Where the life of this node hears; a new one where it is not known.
    ///
    /// # Errors
    /// There are too many, or there is no room for one more.
    fn life(
        self: &Arc<Self>,
        name: Arc<str>,
        met: &Met,
        incarnation: u32,
    ) -> Result<mpsc::Sender<Heard>, String> {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        lives.all.retain(|_, (_, heard)| !heard.is_closed());
        if let Some((_, heard)) = lives.all.get(&(name.clone(), incarnation)) {
            return Ok(heard.clone());
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
            return Err("too many links here".into());
        }
        let room = self.room(&name, LIFE_ROOM).map_err(|refusal| no_room(&refusal))?;
        let certificate = met.certificate.clone().ok_or("it has no certificate")?;
        let (sender, heard) = mpsc::channel(HEARD_HERE);
        lives.begun += 1;
        let begun = lives.begun;
        lives.all.insert((name.clone(), incarnation), (begun, sender.clone()));
        tracing::info!(from = %name, "a link begins");
        let life = Life {
            peer: name,
            certificate,
            incarnation,
            options: self.options.clone(),
            streams: self.streams.clone(),
            links: self.options.links.clone(),
            clock: self.intake.clock(),
        };
        while lives.tasks.try_join_next().is_some() {}
        lives.tasks.spawn(life.run(heard, room));
        Ok(sender)
    }
}
