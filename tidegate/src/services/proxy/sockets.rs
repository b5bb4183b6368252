//! The sockets that clients come by, and how they change while the proxy runs.
//!
//! A socket stays as long as a listener has its address in the same mode. Clients whose address goes, whose listener has
//! another name, mode or none, or TLS where it had none, end when what they asked for is answered; all others notice
//! nothing. A new socket is bound while nothing is certain, beside those that go, and hears clients when all else is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Context;
use socket2::Socket;
use tidegate_types::account::{Account, Level};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::spawn_local;

use super::counts::ProxyCounts;
use super::listener::{self, Beside, Guest, ListenerSettings, ListenerState};
use super::plan::Outputs;
use super::threads::Workers;
use crate::config::touches::covers;
use crate::config::{ListenMode, ProxyConfig, ProxyListenerConfig};
use crate::support::http::Patience;
use crate::support::places::Places;

/// A socket.
#[derive(Debug)]
struct ListenSocket {
    /// As the configuration has it.
    address: SocketAddr,
    bound: SocketAddr,
    listener: String,
    mode: ListenMode,
    is_tls: bool,
    socket: Arc<TcpListener>,
    /// No more are taken when this is dropped.
    states: watch::Sender<ListenerState>,
    /// Tells the clients that came by it to end.
    closing: watch::Sender<bool>,
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct ListenSockets {
    guest: Guest,
    open: Vec<ListenSocket>,
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
    settings: Arc<ListenerSettings>,
    known: Known,
}

/// Which socket it is.
#[derive(Debug)]
enum Known {
    /// The open one at this place.
    Open(usize),
    /// None yet.
    No,
    Bound(Socket),
    Listening(Arc<TcpListener>),
}

/// Sockets that are ready.
#[derive(Debug)]
pub(super) struct Prepared {
    wanted: Vec<Wanted>,
    rooms: BTreeMap<String, Account>,
    /// Sockets that go and have the address of one that comes.
    _beside: Vec<Beside>,
}

impl Prepared {
    /// Has clients come by what was bound. They wait until it is in force.
    ///
    /// # Errors
    /// Another program was faster at an address.
    pub(super) fn listen(&mut self) -> anyhow::Result<()> {
        for Wanted { address, listener, known, .. } in &mut self.wanted {
            *known = match std::mem::replace(known, Known::No) {
                Known::Bound(socket) => {
                    let socket = listener::listen(socket);
                    let socket = socket.with_context(|| format!("{listener:?} at {address}"))?;
                    Known::Listening(Arc::new(socket))
                }
                known => known,
            };
        }
        Ok(())
    }
}

impl ListenSockets {
    pub(super) fn new(
        guest: Guest,
        places: Arc<Places>,
        workers: Rc<Workers>,
        counts: ProxyCounts,
        room: Account,
    ) -> ListenSockets {
        let (open, rooms) = (Vec::new(), BTreeMap::new());
        ListenSockets { guest, open, places, workers, counts, room, rooms }
    }

    /// Binds what a configuration has and was not there. Nothing changes.
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
            let settings = settings(self.guest, config, outputs, room.clone())?;
            if proxy.listener.len() > 1 {
                rooms.insert(name.clone(), room);
            }
            for &address in config.listen.iter().flat_map(|listen| &listen.0) {
                let known = self.known(address, config, &wanted).map_or(Known::No, Known::Open);
                let (listener, settings) = (name.clone(), settings.clone());
                wanted.push(Wanted { address, listener, settings, known });
            }
        }
        let stays = |place: &usize| wanted.iter().any(|one| one.known.is_open(*place));
        let goes: Vec<&ListenSocket> = (0..self.open.len())
            .filter(|place| !stays(place))
            .map(|place| &self.open[place])
            .collect();
        let mut beside = Vec::new();
        for one in wanted.iter_mut().filter(|one| matches!(one.known, Known::No)) {
            let before = beside.len();
            for open in goes
                .iter()
                .filter(|open| covers(open.bound, one.address) || covers(one.address, open.bound))
            {
                beside.push(Beside::new(&open.socket)?);
            }
            one.known = Known::Bound(one.bind(beside.len() > before)?);
        }
        Ok(Prepared { wanted, rooms, _beside: beside })
    }

    /// The open socket that has an address already, in this mode: best that of the same listener.
    fn known(
        &self,
        address: SocketAddr,
        config: &ProxyListenerConfig,
        taken: &[Wanted],
    ) -> Option<usize> {
        let is_it = |place: &usize| {
            let open = &self.open[*place];
            let is_free = !taken.iter().any(|wanted| wanted.known.is_open(*place));
            is_free && (open.address, open.mode) == (address, config.mode)
        };
        let mut all = (0..self.open.len()).filter(is_it);
        let of_it = all.clone().find(|place| self.open[*place].listener == config.label());
        // Each listener at port 0 has a port of its own.
        of_it.or_else(|| all.next().filter(|_| address.port() != 0))
    }

    /// Puts what was prepared in force.
    pub(super) fn apply(&mut self, prepared: Prepared) {
        self.rooms = prepared.rooms;
        let mut before: Vec<Option<ListenSocket>> =
            std::mem::take(&mut self.open).into_iter().map(Some).collect();
        for Wanted { address, listener, settings, known } in prepared.wanted {
            let is_tls = settings.tls.is_some();
            let mode = settings.mode;
            match known {
                Known::Open(place) => {
                    let Some(mut open) = before[place].take() else { continue };
                    if (&open.listener, open.is_tls) != (&listener, is_tls) {
                        open.closing.send_replace(true);
                        open.closing = watch::channel(false).0;
                    }
                    let closing = open.closing.subscribe();
                    open.states.send_replace(ListenerState { settings, closing });
                    self.open.push(ListenSocket { listener, is_tls, ..open });
                }
                Known::Listening(socket) => {
                    let bound = socket.local_addr().unwrap_or(address);
                    let (closing, closes) = watch::channel(false);
                    let (states, all) = watch::channel(ListenerState { settings, closing: closes });
                    let (places, workers) = (self.places.clone(), self.workers.clone());
                    let counts = self.counts.clone();
                    spawn_local(listener::accept(socket.clone(), all, places, workers, counts));
                    self.open.push(ListenSocket {
                        address,
                        bound,
                        listener,
                        mode,
                        is_tls,
                        socket,
                        states,
                        closing,
                    });
                }
                Known::No | Known::Bound(_) => {}
            }
        }
        for open in before.into_iter().flatten() {
            // Who waits at an address that is still there is the new one's.
            let heir = self.open.iter().find(|heir| covers(heir.bound, open.bound));
            if let Some(heir) = heir {
                open.states.send_replace(heir.states.borrow().clone());
            }
            open.close();
        }
    }

    /// Takes no more connections; those that there are end when what was asked is answered.
    pub(super) fn close(&mut self) {
        self.open.drain(..).for_each(|open| open.close());
    }

    /// Where they are bound, with the names of their listeners.
    pub(super) fn listens(&self) -> Vec<(SocketAddr, String)> {
        self.open.iter().map(|open| (open.bound, open.listener.clone())).collect()
    }

    pub(super) fn places(&self) -> &Arc<Places> {
        &self.places
    }
}

impl ListenSocket {
    /// Takes no more.
    fn close(self) {
        self.closing.send_replace(true);
    }
}

impl Known {
    fn is_open(&self, at: usize) -> bool {
        matches!(self, Known::Open(place) if *place == at)
    }
}

impl Wanted {
    fn bind(&self, is_shared: bool) -> anyhow::Result<Socket> {
        let Wanted { address, listener, settings, .. } = self;
        listener::bind(*address, settings.mode, is_shared).with_context(|| {
            let cure = match settings.mode {
                ListenMode::Tproxy => "mode = \"tproxy\" needs CAP_NET_ADMIN",
                _ => "choose another address in its listen",
            };
            format!("[[proxy.listener]] {listener:?} at {address} ({cure})")
        })
    }
}

/// How connections of a listener are taken.
///
/// # Errors
/// A file of its TLS cannot be used.
pub(super) fn settings(
    guest: Guest,
    config: &ProxyListenerConfig,
    outputs: &Outputs,
    room: Account,
) -> anyhow::Result<Arc<ListenerSettings>> {
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
    Ok(Arc::new(ListenerSettings {
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
