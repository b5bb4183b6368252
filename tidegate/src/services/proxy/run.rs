//! From a configuration to a proxy that runs, and to its end.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate_node::node::Node;
use tidegate_node::status::NodeStatus;
use tidegate_types::account::{Account, Level};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;

use super::access_log::AccessLog;
use super::counts::ProxyCounts;
use super::exchange::Gate;
use super::exit::Registry;
use super::hall::Hall;
use super::listener::{self, Guest, Manner};
use super::plan::{Plan, plan, specs};
use super::starts::Starts;
use super::upstream::Upstream;
use crate::config::{Config, ListenMode, ProxyListenerConfig};
use crate::node::contract::{Arrival, Clock};
use crate::node::event_loop::StatusHandle;
use crate::node::event_loop::adapting::Adapting;
use crate::script::{Scripts, Seat};
use crate::support::http::Patience;
use crate::support::places::Places;

/// Answers of endpoints that may wait for the hall.
const ARRIVALS_MAX: usize = 64;

/// A proxy that runs on this thread.
#[derive(Debug)]
pub(crate) struct Running {
    /// Where its listeners are bound, with their names.
    pub(crate) listens: Vec<(SocketAddr, String)>,
    pub(crate) status: StatusHandle,
    pub(crate) counts: ProxyCounts,
    pub(crate) hall: Hall,
    pub(super) gate: Rc<Gate>,
    places: Arc<Places>,
    stopping: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts a proxy on this thread, for HTTP clients or for Envoy. `config` has no error.
///
/// # Errors
/// An address cannot be bound, or a file cannot be used.
pub(crate) fn start(config: &Config, guest: Guest) -> anyhow::Result<Running> {
    let proxy = &config.proxy;
    let scripts = Scripts::load(&specs(config)?)?;
    let Plan { options, routes } = plan(config, &scripts)?;
    let record_max = usize::try_from(options.record_max.0).unwrap_or(usize::MAX);
    let outputs = options.outputs.len();
    let has_scripts = !scripts.is_empty();
    let clock = Clock::start();
    let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
    let adapting = Adapting::new(scripts, record_max, sender);
    let board = adapting.board();
    let hall = Hall::new(Seat::new(Node::new(options)?), adapting, clock);
    (0..outputs).for_each(|output| hall.set_up(tidegate_node::io::OutputId(output as u16), true));
    let names: Vec<String> = routes.iter().map(|route| route.name.clone()).collect();
    let upstream_names = proxy.upstream.iter().map(|upstream| upstream.label().to_owned());
    let counts = ProxyCounts::new(names.clone(), upstream_names.collect());
    let (status, status_requests) = StatusHandle::of_another_loop(board);
    let log = proxy.access_log.as_deref();
    let log = log.map(|path| {
        let opened = AccessLog::open(path, proxy.access_format, names);
        opened.with_context(|| format!("access_log {}", path.display()))
    });
    let log = log.transpose()?;
    let mut tasks = Vec::new();
    let mut upstreams = Vec::new();
    for (place, config) in proxy.upstream.iter().enumerate() {
        let output = tidegate_node::io::OutputId(place as u16);
        let upstream = Upstream::new(config, output, hall.clone(), counts.clone())
            .with_context(|| format!("[[proxy.upstream]] {:?}", config.label()))?;
        tasks.push(spawn_local(upstream.clone().care()));
        if has_scripts || config.rate.is_some() {
            tasks.push(spawn_local(upstream.clone().watch(config.rate.is_some())));
        }
        upstreams.push(upstream);
    }
    if let Some(log) = &log {
        tasks.push(spawn_local(log.clone().flush_for_ever()));
    }
    let registry = Rc::new(Registry { clock, counts: counts.clone(), log });
    let waiting = routes.iter().map(|_| std::cell::Cell::new(0)).collect();
    let tunnels = Arc::new(Semaphore::new(config.limits.connections as usize));
    let hall_of_gate = hall.clone();
    let room = Account::new(config.limits.memory.0.0 as usize);
    let gate = Gate { hall: hall_of_gate, routes, upstreams, registry, waiting, tunnels, room };
    let gate = Rc::new(gate);
    tasks.push(spawn_local(keep(gate.clone(), arrivals, status_requests)));
    let (stopping, stops) = watch::channel(false);
    let places = Places::new(config.limits.connections, false);
    let mut listens = Vec::new();
    let starts = Starts::new();
    for (place, config) in proxy.listener.iter().enumerate() {
        let share = match proxy.listener.len() {
            1 => gate.room.clone(),
            // The others find room whatever comes by this one.
            _ => gate.room.share(Level::Listener, gate.room.bound() / 4 * 3),
        };
        let is_it = |name: &String| proxy.upstream.iter().position(|one| one.label() == name);
        let other = config.other.as_ref().and_then(is_it);
        let manner = manner(guest, place, config, (share, starts.clone()))?;
        let manner = Rc::new(Manner { other, ..manner });
        for &address in config.listen.iter().flat_map(|listen| &listen.0) {
            let bound = bind(address, config)?;
            listens.push((bound.local_addr()?, config.label().to_owned()));
            let (gate, places, stops) = (gate.clone(), places.clone(), stops.clone());
            tasks.push(spawn_local(listener::accept(bound, manner.clone(), gate, places, stops)));
        }
    }
    Ok(Running { listens, status, counts, hall, gate, places, stopping, tasks })
}

fn bind(
    address: SocketAddr,
    config: &ProxyListenerConfig,
) -> anyhow::Result<tokio::net::TcpListener> {
    listener::bind(address, config.mode).with_context(|| {
        let cure = match config.mode {
            ListenMode::Tproxy => "mode = \"tproxy\" needs CAP_NET_ADMIN",
            _ => "choose another address in its listen",
        };
        format!("[[proxy.listener]] {:?} at {address} ({cure})", config.label())
    })
}

pub(super) fn manner(
    guest: Guest,
    place: usize,
    config: &ProxyListenerConfig,
    (room, starts): (Account, Rc<Starts>),
) -> anyhow::Result<Manner> {
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
    Ok(Manner {
        guest,
        place,
        mode: config.mode,
        tls: tls.transpose()?,
        other: None,
        patience,
        body_timeout: config.body_timeout.0,
        tunnel_timeout: config.tunnel_timeout.0,
        ping: config.ping.0,
        streams: config.streams,
        starts,
        trusted: config.trusted.clone(),
        room,
    })
}

/// Everything in the hall that no request does by itself: timers, endpoints' answers, who asks for status.
async fn keep(
    gate: Rc<Gate>,
    mut arrivals: mpsc::Receiver<Arrival>,
    mut status_requests: mpsc::Receiver<oneshot::Sender<NodeStatus>>,
) {
    let hall = &gate.hall;
    loop {
        let next = hall.keep().and_then(|at| hall.clock().instant(at));
        for (id, passed) in hall.inserted() {
            spawn_local(gate.clone().send_inserted(id, passed));
        }
        let timer = async {
            match next {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Told while others wait for their turn: they have it first.
            () = hall.wake().notified() => tokio::task::yield_now().await,
            () = timer => {}
            Some(arrival) = arrivals.recv() => {
                if let Arrival::Input(input) = arrival {
                    hall.handle(input);
                }
            }
            Some(reply) = status_requests.recv() => {
                let _ = reply.send(hall.status());
            }
        }
    }
}

impl Running {
    /// Takes no more connections, finishes what is under way for at most `patience`, and ends. Returns the last
    /// status.
    pub(crate) async fn stop(self, patience: Duration) -> NodeStatus {
        // A send fails only when every listener has ended already.
        let _ = self.stopping.send(true);
        // Every place is free again when the last connection is over, or patience ends: what is left is cut off.
        let _ = timeout(patience, self.places.emptied()).await;
        self.hall.stop();
        self.tasks.iter().for_each(JoinHandle::abort);
        if let Some(log) = &self.gate.registry.log {
            log.flush().await;
        }
        self.hall.status()
    }
}
