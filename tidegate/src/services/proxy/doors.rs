//! The sockets that clients come by, and how they change while the proxy runs.
//!
//! A socket stays as long as a listener has its address. Clients whose address goes, whose listener has another name or
//! none, or TLS where it had none, end when what they asked for is answered; all others notice nothing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context;
use tidegate_types::account::{Account, Level};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_local};

use super::counts::ProxyCounts;
use super::listener::{self, Entrance, Guest, Manner};
use super::plan::Outputs;
use super::threads::Workers;
use crate::config::{ListenMode, ProxyConfig, ProxyListenerConfig};
use crate::support::http::Patience;
use crate::support::places::Places;

/// A socket.
#[derive(Debug)]
struct Door {
    /// As the configuration has it.
    address: SocketAddr,
    bound: SocketAddr,
    listener: String,
    mode: ListenMode,
    is_tls: bool,
    entrances: watch::Sender<Entrance>,
    /// Tells the clients that came by it to end.
    closing: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct Doors {
    guest: Guest,
    open: Vec<Door>,
    places: Arc<Places>,
    workers: Rc<Workers>,
    counts: ProxyCounts,
    /// For bodies and long heads: the share of each listener is of this.
    room: Account,
    rooms: BTreeMap<String, Account>,
}

/// What is wanted of a socket, and the socket where there is none yet.
#[derive(Debug)]
struct Wanted {
    address: SocketAddr,
    listener: String,
    manner: Arc<Manner>,
    /// The open one that it becomes, by its place.
    known: Option<usize>,
    /// Else a new one, and where it is bound.
    socket: Option<(TcpListener, SocketAddr)>,
}

/// Sockets that are ready.
#[derive(Debug)]
pub(super) struct Prepared {
    wanted: Vec<Wanted>,
    rooms: BTreeMap<String, Account>,
}

impl Doors {
    pub(super) fn new(
        guest: Guest,
        (places, workers): (Arc<Places>, Rc<Workers>),
        counts: ProxyCounts,
        room: Account,
    ) -> Doors {
        let (open, rooms) = (Vec::new(), BTreeMap::new());
        Doors { guest, open, places, workers, counts, room, rooms }
    }

    /// Opens what a configuration has and was not there. Nothing changes.
    ///
    /// # Errors
    /// An address cannot be bound, or a file of TLS cannot be used.
    pub(super) fn prepare(
        &self,
        proxy: &ProxyConfig,
        outputs: &Outputs,
    ) -> anyhow::Result<Prepared> {
        let (mut wanted, mut rooms) = (Vec::new(), BTreeMap::new());
        for config in &proxy.listener {
            let name = config.label().to_owned();
            let room = match (proxy.listener.len(), self.rooms.get(&name)) {
                (1, _) => self.room.clone(),
                (_, Some(known)) => known.clone(),
                // The others find room whatever comes by this one.
                _ => self.room.share(Level::Listener, self.room.bound() / 4 * 3),
            };
            let manner = manner(self.guest, config, outputs, room.clone())?;
            if proxy.listener.len() > 1 {
                rooms.insert(name.clone(), room);
            }
            for &address in config.listen.iter().flat_map(|listen| &listen.0) {
                let known = self.known(address, &name, &wanted);
                if let Some(door) = known.map(|place| &self.open[place]) {
                    anyhow::ensure!(
                        door.mode == config.mode,
                        "[[proxy.listener]] {name:?} at {address}: another mode needs a new start"
                    );
                }
                let socket = match known {
                    Some(_) => None,
                    None => {
                        let socket = bind(address, config)?;
                        let bound = socket.local_addr()?;
                        Some((socket, bound))
                    }
                };
                let (listener, manner) = (name.clone(), manner.clone());
                wanted.push(Wanted { address, listener, manner, known, socket });
            }
        }
        Ok(Prepared { wanted, rooms })
    }

    /// The open socket that has an address already: best that of the same listener.
    fn known(&self, address: SocketAddr, name: &str, taken: &[Wanted]) -> Option<usize> {
        let is_free = |place: &usize| taken.iter().all(|wanted| wanted.known != Some(*place));
        let has_it = |place: &usize| self.open[*place].address == address && is_free(place);
        let mut all = (0..self.open.len()).filter(has_it);
        let of_it = all.clone().find(|place| self.open[*place].listener == name);
        // Each listener at port 0 has a port of its own.
        of_it.or_else(|| all.next().filter(|_| address.port() != 0))
    }

    /// Puts what was prepared in force.
    pub(super) fn apply(&mut self, prepared: Prepared) {
        self.rooms = prepared.rooms;
        let mut before: Vec<Option<Door>> =
            std::mem::take(&mut self.open).into_iter().map(Some).collect();
        for Wanted { address, listener, manner, known, socket } in prepared.wanted {
            let is_tls = manner.tls.is_some();
            if let Some(mut door) = known.and_then(|place| before[place].take()) {
                if (&door.listener, door.is_tls) != (&listener, is_tls) {
                    door.closing.send_replace(true);
                    door.closing = watch::channel(false).0;
                }
                let closing = door.closing.subscribe();
                door.entrances.send_replace(Entrance { manner, closing });
                self.open.push(Door { listener, is_tls, ..door });
            } else if let Some((socket, bound)) = socket {
                let mode = manner.mode;
                let (closing, closes) = watch::channel(false);
                let (entrances, all) = watch::channel(Entrance { manner, closing: closes });
                let with = (self.places.clone(), self.workers.clone());
                let accepting = listener::accept(socket, all, with, self.counts.clone());
                let accepting = spawn_local(accepting);
                let door =
                    Door { address, bound, listener, mode, is_tls, entrances, closing, accepting };
                self.open.push(door);
            }
        }
        before.iter().flatten().for_each(Door::close);
    }

    /// Takes no more connections; those that there are end when what was asked is answered.
    pub(super) fn close(&mut self) {
        self.open.drain(..).for_each(|door| door.close());
    }

    /// Where they are bound, with the names of their listeners.
    pub(super) fn listens(&self) -> Vec<(SocketAddr, String)> {
        self.open.iter().map(|door| (door.bound, door.listener.clone())).collect()
    }

    pub(super) fn places(&self) -> &Arc<Places> {
        &self.places
    }
}

impl Door {
    fn close(&self) {
        self.accepting.abort();
        self.closing.send_replace(true);
    }
}

fn bind(address: SocketAddr, config: &ProxyListenerConfig) -> anyhow::Result<TcpListener> {
    listener::bind(address, config.mode).with_context(|| {
        let cure = match config.mode {
            ListenMode::Tproxy => "mode = \"tproxy\" needs CAP_NET_ADMIN",
            _ => "choose another address in its listen",
        };
        format!("[[proxy.listener]] {:?} at {address} ({cure})", config.label())
    })
}

/// How connections of a listener are taken.
///
/// # Errors
/// A file of its TLS cannot be used.
pub(super) fn manner(
    guest: Guest,
    config: &ProxyListenerConfig,
    outputs: &Outputs,
    room: Account,
) -> anyhow::Result<Arc<Manner>> {
    let files = config.tls.as_ref().and_then(|tls| tls.files());
    let tls = files.map(|files| {
        let mut server = (*crate::support::tls::server(&files)?).clone();
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        anyhow::Ok(Arc::new(server))
    });
    let patience = Patience {
        header: config.header_timeout.0,
        keep_alive: config.keep_alive.0,
        write: config.write_timeout.0,
    };
    let other = config.other.as_deref().map(|name| outputs.upstream(name));
    Ok(Arc::new(Manner {
        guest,
        output: outputs.listener(config.label())?,
        mode: config.mode,
        tls: tls.transpose()?,
        other: other.transpose()?,
        patience,
        body_timeout: config.body_timeout.0,
        tunnel_timeout: config.tunnel_timeout.0,
        ping: config.ping.0,
        streams: config.streams,
        trusted: config.trusted.clone(),
        room,
    }))
}
