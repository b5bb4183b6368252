//! `tidegate proxy`: from a file to a proxy that runs, and from a signal to its end.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate_node::node::Node;
use tidegate_node::rules::ScriptId;
use tidegate_types::account::{Account, Level};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::timeout;

use super::access_log::AccessLog;
use super::counts::ProxyCounts;
use super::exchange::Gate;
use super::exit::Registry;
use super::hall::Hall;
use super::listener::{self, Guest, Manner};
use super::plan::{Plan, plan};
use super::starts::Starts;
use super::upstream::Upstream;
use crate::cli::envoy::ExtProcArguments;
use crate::cli::proxy::ProxyArguments;
use crate::config::{Config, ListenMode, ProxyListenerConfig, read, read_file, read_with_files};
use crate::drive::StatusHandle;
use crate::drive::adapting::Adapting;
use crate::http::{self, Patience, Site};
use crate::places::Places;
use crate::port::{Arrival, Clock};
use crate::reload::{Watch, in_place};
use crate::run::{Signals, fates, load};
use crate::script::spec::Dialect;
use crate::script::{Script, ScriptSpec, Scripts, Seat};
use crate::status::StatusSource;
use crate::systemd::Manager;

/// Answers of endpoints that may wait for the hall.
const ARRIVALS_MAX: usize = 64;

/// Runs a proxy until a signal stops it.
///
/// # Errors
/// The configuration is wrong, or an address cannot be bound.
pub fn proxy(arguments: &ProxyArguments) -> anyhow::Result<ExitCode> {
    let file = arguments.config.as_deref();
    on_one_thread(configuration(file, || arguments.as_text())?, file, Guest::Client)
}

/// Runs an external processor of Envoy until a signal stops it.
///
/// # Errors
/// As [`proxy`].
pub fn ext_proc(arguments: &ExtProcArguments) -> anyhow::Result<ExitCode> {
    let file = arguments.config.as_deref();
    let config = configuration(file, || arguments.as_text())?;
    for upstream in &config.proxy.upstream {
        anyhow::ensure!(
            upstream.rate.is_none() || upstream.cap().is_some(),
            "[[proxy.upstream]] {:?}: rate = \"auto\" needs connections of our own, and Envoy has them: \
             give a rate",
            upstream.label()
        );
    }
    on_one_thread(config, file, Guest::Envoy)
}

fn on_one_thread(config: Config, file: Option<&Path>, guest: Guest) -> anyhow::Result<ExitCode> {
    // One thread: a message's way through the hall has no hop, and no lock.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    let code = tasks.block_on(&runtime, run(config, file, guest));
    drop(tasks);
    runtime.shutdown_background();
    code
}

/// The configuration of a file, or of the command line.
fn configuration(
    file: Option<&Path>,
    as_text: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<Config> {
    if file.is_some() {
        let config = load(file)?;
        anyhow::ensure!(
            !config.proxy.listener.is_empty() && !config.proxy.upstream.is_empty(),
            "no [[proxy.listener]] or no [[proxy.upstream]] in it: see `tidegate config`"
        );
        return Ok(config);
    }
    let text = as_text()?;
    let reading = read_with_files(&text);
    anyhow::ensure!(reading.counts().0 == 0, "{}", reading.render("arguments", &text));
    Ok(reading.config)
}

async fn run(config: Config, file: Option<&Path>, guest: Guest) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let running = start(&config, guest)?;
    for (address, name) in &running.listens {
        tracing::info!(listener = %name, "requests at {address}");
    }
    let site = Site::new(StatusSource::new(running.status.clone()));
    for address in &config.http.listen.0 {
        let cure = "choose another address in [http] listen, or listen = [] for none";
        let served = http::serve(*address, site.clone(), (&config.http).into()).await;
        let (bound, _) = served.with_context(|| format!("status server at {address} ({cure})"))?;
        tracing::info!("status page at http://{bound}");
    }
    site.listeners_are_bound();
    tracing::info!("ready; Ctrl-C stops it");
    let manager = Manager::ready(running.status.clone());
    let mut watch = Watch::new(file, &config)?;
    let mut scripts = config.script.clone();
    let received = loop {
        tokio::select! {
            received = signals.next() => break received,
            () = watch.next() => {
                if let Err(error) = reload(file, &mut scripts, &running.hall) {
                    tracing::error!("the new scripts are not used: {error:#}");
                }
            }
        }
    };
    tracing::info!(signal = received.name, "stopping: what is under way is finished");
    manager.stopping(config.node.stop_timeout.0);
    tokio::select! {
        () = running.stop(config.node.stop_timeout.0) => Ok(ExitCode::SUCCESS),
        received = signals.next() => {
            tracing::warn!(signal = received.name, "stopped at once: what was under way is cut off");
            std::process::exit(received.exit_code);
        }
    }
}

/// Reads the scripts anew; nothing else changes while a proxy runs.
fn reload(
    file: Option<&Path>,
    known: &mut Vec<crate::config::ScriptConfig>,
    hall: &Hall,
) -> anyhow::Result<()> {
    let all = match file {
        None => known.clone(),
        Some(file) => {
            let text = read_file(file).map_err(anyhow::Error::msg)?;
            let reading = read_with_files(&text);
            let told = reading.render(&file.display().to_string(), &text);
            anyhow::ensure!(reading.counts().0 == 0, "{told}");
            in_place(known, reading.config.script)?
        }
    };
    let config = Config { script: all.clone(), ..read("").config };
    let load = |(place, spec)| Script::load(spec, ScriptId(place as u16));
    let scripts = specs(&config)?.into_iter().enumerate().map(load).collect::<Result<_, _>>()?;
    hall.swap(scripts)?;
    *known = all;
    tracing::info!("the scripts are read anew");
    Ok(())
}

pub(super) fn specs(config: &Config) -> anyhow::Result<Vec<Arc<ScriptSpec>>> {
    let specs = config.script_specs().map_err(anyhow::Error::msg)?;
    let as_http =
        |spec: Arc<ScriptSpec>| Arc::new(ScriptSpec { dialect: Dialect::Http, ..(*spec).clone() });
    Ok(specs.into_iter().map(as_http).collect())
}

/// A proxy that runs on this thread.
#[derive(Debug)]
pub(super) struct Running {
    /// Where its listeners are bound, with their names.
    pub(super) listens: Vec<(SocketAddr, String)>,
    pub(super) status: StatusHandle,
    pub(super) hall: Hall,
    pub(super) gate: Rc<Gate>,
    places: Arc<Places>,
    stopping: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts a proxy on this thread, for HTTP clients or for Envoy. `config` has no error.
///
/// # Errors
/// An address cannot be bound, or a file cannot be used.
pub(super) fn start(config: &Config, guest: Guest) -> anyhow::Result<Running> {
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
    let (status, status_requests) = StatusHandle::of_proxy(board, counts.clone());
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
    let registry = Rc::new(Registry { clock, counts, log });
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
        let manner = Rc::new(manner(guest, place, config, (share, starts.clone()))?);
        for &address in config.listen.iter().flat_map(|listen| &listen.0) {
            let bound = bind(address, config)?;
            listens.push((bound.local_addr()?, config.label().to_owned()));
            let (gate, places, stops) = (gate.clone(), places.clone(), stops.clone());
            tasks.push(spawn_local(listener::accept(bound, manner.clone(), gate, places, stops)));
        }
    }
    Ok(Running { listens, status, hall, gate, places, stopping, tasks })
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
        let mut server = (*crate::tls::server(&files)?).clone();
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
    mut status_requests: mpsc::Receiver<oneshot::Sender<tidegate_node::status::NodeStatus>>,
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
    /// Takes no more connections, finishes what is under way for at most `patience`, and ends.
    pub(super) async fn stop(self, patience: Duration) {
        // A send fails only when every listener has ended already.
        let _ = self.stopping.send(true);
        // Every place is free again when the last connection is over, or patience ends: what is left is cut off.
        let _ = timeout(patience, self.places.emptied()).await;
        self.hall.stop();
        self.tasks.iter().for_each(JoinHandle::abort);
        if let Some(log) = &self.gate.registry.log {
            log.flush().await;
        }
        tracing::info!("stopped: {}", fates(&self.hall.status()));
    }
}
