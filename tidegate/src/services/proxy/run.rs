//! From a configuration to a proxy that runs, and to its end.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::Context;
use tidegate_node::io::OutputId;
use tidegate_node::node::Node;
use tidegate_node::options::NodeOptions;
use tidegate_node::rules::RuleId;
use tidegate_node::status::NodeStatus;
use tidegate_types::account::Account;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;

use super::access_log::AccessLog;
use super::counts::ProxyCounts;
use super::exit::Registry;
use super::hall::Hall;
use super::listener::Guest;
use super::plan::{Outputs, Sides, plan, routes, sides, specs};
use super::routes::Route;
use super::sockets::ListenSockets;
use super::threads::Workers;
use super::upstream::Shared;
use super::worker::{Common, Table, WorkerContext};
use crate::config::{Config, ProxyConfig};
use crate::node::contract::{Arrival, Clock};
use crate::node::event_loop::StatusHandle;
use crate::node::event_loop::adapting::Adapting;
use crate::script::{Scripts, Seat};
use crate::support::places::Places;

/// Answers of endpoints that may wait for the hall.
const ARRIVALS_MAX: usize = 64;

/// A proxy that runs, on this thread and others.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) status: StatusHandle,
    pub(crate) counts: ProxyCounts,
    pub(super) hall: Hall,
    #[cfg(test)]
    pub(super) room: Account,
    /// What is in force.
    pub(super) config: Config,
    pub(super) worker: Rc<WorkerContext>,
    pub(super) sockets: ListenSockets,
    pub(super) outputs: Outputs,
    pub(super) tables: Tables,
    /// Tells all threads what is in force.
    pub(super) newest: watch::Sender<Arc<Table>>,
    tasks: Vec<JoinHandle<()>>,
}

/// The tables by which exchanges go, the newest last.
pub(super) type Tables = Rc<RefCell<Vec<Weak<Table>>>>;

/// An upstream, and the tasks that look whether it lives and what its connections carry. They end with the last table
/// that has it: what waits for an upstream that was removed needs them as well.
#[derive(Debug)]
pub(super) struct WatchedUpstream {
    pub(super) shared: Arc<Shared>,
    care: JoinHandle<()>,
    /// Whether what it looks at is for a pacer, and the task.
    watch: Mutex<Option<(bool, JoinHandle<()>)>>,
}

/// What a configuration makes of the proxy.
pub(super) struct ProxyPlan<'a> {
    pub(super) config: &'a Config,
    pub(super) sides: &'a Sides,
    pub(super) places: &'a Outputs,
    pub(super) hall: &'a Hall,
    pub(super) counts: &'a ProxyCounts,
    pub(super) tables: &'a Tables,
}

/// Starts a proxy, for HTTP clients or for Envoy. `config` has no error.
///
/// # Errors
/// An address cannot be bound, or a file cannot be used.
pub(crate) fn start(config: &Config, guest: Guest) -> anyhow::Result<Running> {
    let proxy = &config.proxy;
    let scripts = Scripts::load(&specs(config)?)?;
    let (sides, places) = (sides(scripts.all()), Outputs::default().with(proxy));
    let options = plan(config, &sides, &places, None)?;
    let counts = ProxyCounts::default();
    let ids: Vec<RuleId> = options.rules.asked().map(|(id, _)| id).collect();
    let record_max = usize::try_from(options.record_max.0).unwrap_or(usize::MAX);
    let clock = Clock::start();
    let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
    let adapting = Adapting::new(scripts, record_max, sender);
    let board = adapting.board();
    let hall = Hall::new(Seat::new(Node::new(options.clone())?), adapting, clock);
    (0..places.len()).for_each(|output| hall.set_up(OutputId(output as u16), true));
    let tables = Tables::default();
    let (sides, hall, counts, tables) = (&sides, &hall, &counts, &tables);
    let made = ProxyPlan { config, sides, places: &places, hall, counts, tables };
    let upstreams = made.upstreams(&[])?;
    let upstreams = made.tend(&upstreams, &[]);
    let table = made.table(&options, &ids, &[], upstreams)?;
    let (newest, told) = watch::channel(table);
    let log = proxy.access_log.as_deref();
    let log = log.map(|path| {
        let opened = AccessLog::open(path, proxy.access_format);
        opened.with_context(|| format!("access_log {}", path.display()))
    });
    let log = log.transpose()?;
    let mut tasks = Vec::new();
    if let Some(log) = &log {
        tasks.push(spawn_local(log.clone().flush_for_ever()));
    }
    let registry = Arc::new(Registry { clock, counts: counts.clone(), log });
    let tunnels = Arc::new(Semaphore::new(config.limits.connections as usize));
    let common = Common { hall: hall.clone(), registry, tunnels, newest: told };
    let worker = WorkerContext::new(&common);
    let (status, status_requests) = StatusHandle::of_another_loop(board);
    tasks.push(spawn_local(keep(worker.clone(), arrivals, status_requests)));
    tasks.push(spawn_local(worker.clone().sweep()));
    let workers = Workers::start(threads(proxy), &common, &worker)?;
    let places_of_clients = Places::new(config.limits.connections, false);
    let room = Account::new(config.limits.memory.0.0 as usize);
    let mut sockets =
        ListenSockets::new(guest, places_of_clients, workers, counts.clone(), room.clone());
    let mut prepared = sockets.prepare(proxy, &places)?;
    prepared.listen()?;
    sockets.apply(prepared);
    Ok(Running {
        status,
        counts: counts.clone(),
        hall: hall.clone(),
        #[cfg(test)]
        room,
        config: config.clone(),
        worker,
        sockets,
        outputs: places,
        tables: tables.clone(),
        newest,
        tasks,
    })
}

/// How many threads speak with clients: without a word as many as there are processors.
fn threads(proxy: &ProxyConfig) -> usize {
    let processors = || available_parallelism().map_or(1, usize::from);
    proxy.threads.map_or_else(processors, |threads| threads as usize)
}

impl ProxyPlan<'_> {
    /// The upstreams by output; those that are as before stay the same.
    pub(super) fn upstreams(
        &self,
        before: &[Option<Arc<WatchedUpstream>>],
    ) -> anyhow::Result<Vec<Option<Arc<Shared>>>> {
        let mut all: Vec<Option<Arc<Shared>>> = vec![None; self.places.len()];
        for config in &self.config.proxy.upstream {
            let output = self.places.upstream(config.label())?;
            let place = usize::from(output.0);
            let known = before.get(place).and_then(Option::as_ref).map(|known| &known.shared);
            let shared = match known {
                Some(known) if known.is_of(config) => known.clone(),
                known => {
                    let sockets = known.map(|known| known.sockets().clone()).unwrap_or_default();
                    Shared::new(config, (output, sockets), self.hall.clone(), self.counts.clone())
                        .with_context(|| format!("[[proxy.upstream]] {:?}", config.label()))?
                }
            };
            all[place] = Some(shared);
        }
        Ok(all)
    }

    /// The table of now, whose rules have these places. When nobody goes by it any more, what only it has is forgotten.
    pub(super) fn table(
        &self,
        options: &NodeOptions,
        rules: &[RuleId],
        before: &[Arc<Route>],
        upstreams: Vec<Option<Arc<WatchedUpstream>>>,
    ) -> anyhow::Result<Arc<Table>> {
        let listeners = self.config.proxy.listener.iter();
        let listeners = listeners.map(|listener| self.places.listener(listener.label()));
        let (held, released) = oneshot::channel();
        let table = Arc::new(Table {
            routes: routes(self, &options.outputs, rules, before)?,
            upstreams,
            listeners: listeners.collect::<anyhow::Result<_>>()?,
            _held: held,
        });
        self.tables.borrow_mut().push(Arc::downgrade(&table));
        let (tables, hall) = (self.tables.clone(), self.hall.clone());
        spawn_local(async move {
            // Nothing is sent: it is dropped with the table.
            let _ = released.await;
            let mut tables = tables.borrow_mut();
            tables.retain(|table| table.strong_count() > 0);
            if let [last] = &tables[..]
                && let Some(last) = last.upgrade()
            {
                hall.forget_all_but(&last.outputs());
            }
        });
        Ok(table)
    }

    /// Has upstreams looked after. Their sockets are looked at where a pacer or a script wants to know.
    pub(super) fn tend(
        &self,
        upstreams: &[Option<Arc<Shared>>],
        before: &[Option<Arc<WatchedUpstream>>],
    ) -> Vec<Option<Arc<WatchedUpstream>>> {
        let tend = |shared: &Arc<Shared>| {
            let mut known = before.iter().flatten();
            let known = known.find(|known| Arc::ptr_eq(&known.shared, shared)).cloned();
            let tended = known.unwrap_or_else(|| WatchedUpstream::new(shared.clone()));
            let is_paced = shared.is_paced(&self.config.proxy);
            tended.watch((is_paced || !self.sides.is_empty()).then_some(is_paced));
            tended
        };
        upstreams.iter().map(|shared| shared.as_ref().map(tend)).collect()
    }
}

impl WatchedUpstream {
    fn new(shared: Arc<Shared>) -> Arc<WatchedUpstream> {
        shared.note_used();
        let care = spawn_local(shared.clone().care());
        Arc::new(WatchedUpstream { shared, care, watch: Mutex::default() })
    }

    /// Has its sockets looked at, for a pacer or for scripts alone, or not at all.
    pub(super) fn watch(&self, wanted: Option<bool>) {
        let watch = &mut *self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        if watch.as_ref().map(|(is_paced, _)| *is_paced) == wanted {
            return;
        }
        watch.iter().for_each(|(_, task)| task.abort());
        *watch =
            wanted.map(|is_paced| (is_paced, spawn_local(self.shared.clone().watch(is_paced))));
    }
}

impl Drop for WatchedUpstream {
    fn drop(&mut self) {
        self.care.abort();
        let watch = self.watch.get_mut().unwrap_or_else(PoisonError::into_inner);
        watch.iter().for_each(|(_, task)| task.abort());
    }
}

/// Everything in the hall that no request does by itself: timers, endpoints' answers, who asks for status.
async fn keep(
    worker: Rc<WorkerContext>,
    mut arrivals: mpsc::Receiver<Arrival>,
    mut status_requests: mpsc::Receiver<oneshot::Sender<NodeStatus>>,
) {
    let hall = &worker.hall;
    loop {
        let next = hall.keep().and_then(|at| hall.clock().instant(at));
        for (id, passed) in hall.inserted() {
            spawn_local(worker.clone().send_inserted(id, passed));
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
    /// Where its listeners are bound, with their names.
    pub(crate) fn listens(&self) -> Vec<(SocketAddr, String)> {
        self.sockets.listens()
    }

    /// Takes no more connections, finishes what is under way for at most `patience`, and ends. Returns the last
    /// status.
    pub(crate) async fn stop(mut self, patience: Duration) -> NodeStatus {
        self.sockets.close();
        // Every place is free again when the last connection is over, or patience ends: what is left is cut off.
        let _ = timeout(patience, self.sockets.places().emptied()).await;
        self.hall.stop();
        self.tasks.iter().for_each(JoinHandle::abort);
        if let Some(log) = &self.worker.registry.log {
            log.flush().await;
        }
        self.hall.status()
    }
}
