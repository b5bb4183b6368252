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
use super::doors::Doors;
use super::exit::Registry;
use super::hall::Hall;
use super::listener::Guest;
use super::plan::{Outputs, Sides, plan, routes, sides, specs};
use super::threads::Workers;
use super::upstream::Shared;
use super::way::{Common, Gate, Table};
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
    pub(super) gate: Rc<Gate>,
    pub(super) doors: Doors,
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
pub(super) struct Tended {
    pub(super) shared: Arc<Shared>,
    care: JoinHandle<()>,
    /// Whether what it looks at is for a pacer, and the task.
    watch: Mutex<Option<(bool, JoinHandle<()>)>>,
}

/// What a configuration makes of the proxy.
pub(super) struct Made<'a> {
    pub(super) config: &'a Config,
    pub(super) sides: &'a Sides,
    pub(super) places: &'a Outputs,
}

/// Starts a proxy, for HTTP clients or for Envoy. `config` has no error.
///
/// # Errors
/// An address cannot be bound, or a file cannot be used.
pub(crate) fn start(config: &Config, guest: Guest) -> anyhow::Result<Running> {
    let proxy = &config.proxy;
    let scripts = Scripts::load(&specs(config)?)?;
    let (sides, places) = (sides(scripts.all()), Outputs::default().with(proxy));
    let options = plan(config, &sides, (&places, None))?;
    let counts = ProxyCounts::default();
    let made = Made { config, sides: &sides, places: &places };
    let ids: Vec<RuleId> = options.rules.asked().map(|(id, _)| id).collect();
    let record_max = usize::try_from(options.record_max.0).unwrap_or(usize::MAX);
    let clock = Clock::start();
    let (sender, arrivals) = mpsc::channel(ARRIVALS_MAX);
    let adapting = Adapting::new(scripts, record_max, sender);
    let board = adapting.board();
    let hall = Hall::new(Seat::new(Node::new(options.clone())?), adapting, clock);
    (0..places.len()).for_each(|output| hall.set_up(OutputId(output as u16), true));
    let upstreams = made.upstreams(&hall, &counts, &[])?;
    let upstreams = made.tend(&upstreams, &[]);
    let tables = Tables::default();
    let table = made.table(&options, &ids, (&counts, &[]), (upstreams, &tables, &hall))?;
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
    let gate = Gate::new(&common);
    let (status, status_requests) = StatusHandle::of_another_loop(board);
    tasks.push(spawn_local(keep(gate.clone(), arrivals, status_requests)));
    tasks.push(spawn_local(gate.clone().sweep()));
    let workers = Workers::start(threads(proxy), &common, &gate)?;
    let places_of_clients = Places::new(config.limits.connections, false);
    let room = Account::new(config.limits.memory.0.0 as usize);
    let with = (places_of_clients, workers);
    let mut doors = Doors::new(guest, with, counts.clone(), room.clone());
    let prepared = doors.prepare(proxy, &places)?;
    doors.apply(prepared);
    Ok(Running {
        status,
        counts,
        hall,
        #[cfg(test)]
        room,
        config: config.clone(),
        gate,
        doors,
        outputs: places,
        tables,
        newest,
        tasks,
    })
}

/// How many threads speak with clients: without a word as many as there are processors.
fn threads(proxy: &ProxyConfig) -> usize {
    let processors = || available_parallelism().map_or(1, usize::from);
    proxy.threads.map_or_else(processors, |threads| threads as usize)
}

impl Made<'_> {
    /// The upstreams by output; those that are as before stay the same.
    pub(super) fn upstreams(
        &self,
        hall: &Hall,
        counts: &ProxyCounts,
        before: &[Option<Arc<Tended>>],
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
                    Shared::new(config, (output, sockets), hall.clone(), counts.clone())
                        .with_context(|| format!("[[proxy.upstream]] {:?}", config.label()))?
                }
            };
            all[place] = Some(shared);
        }
        Ok(all)
    }

    /// The table of now. When nobody goes by it any more, what only it has is forgotten.
    pub(super) fn table(
        &self,
        options: &NodeOptions,
        ids: &[RuleId],
        known: (&ProxyCounts, &[Arc<super::routes::Route>]),
        (upstreams, tables, hall): (Vec<Option<Arc<Tended>>>, &Tables, &Hall),
    ) -> anyhow::Result<Arc<Table>> {
        let Made { config, sides, places } = *self;
        let listeners = config.proxy.listener.iter();
        let listeners = listeners.map(|listener| places.listener(listener.label()));
        let (held, released) = oneshot::channel();
        let table = Arc::new(Table {
            routes: routes(config, sides, (places, &options.outputs), ids, known)?,
            upstreams,
            listeners: listeners.collect::<anyhow::Result<_>>()?,
            _held: held,
        });
        tables.borrow_mut().push(Arc::downgrade(&table));
        let (tables, hall) = (tables.clone(), hall.clone());
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
        before: &[Option<Arc<Tended>>],
    ) -> Vec<Option<Arc<Tended>>> {
        let tend = |shared: &Arc<Shared>| {
            let mut known = before.iter().flatten();
            let known = known.find(|known| Arc::ptr_eq(&known.shared, shared)).cloned();
            let tended = known.unwrap_or_else(|| Tended::new(shared.clone()));
            let is_paced = shared.is_paced(&self.config.proxy);
            tended.watch((is_paced || !self.sides.is_empty()).then_some(is_paced));
            tended
        };
        upstreams.iter().map(|shared| shared.as_ref().map(tend)).collect()
    }
}

impl Tended {
    fn new(shared: Arc<Shared>) -> Arc<Tended> {
        shared.note_used();
        let care = spawn_local(shared.clone().care());
        Arc::new(Tended { shared, care, watch: Mutex::default() })
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

impl Drop for Tended {
    fn drop(&mut self) {
        self.care.abort();
        let watch = self.watch.get_mut().unwrap_or_else(PoisonError::into_inner);
        watch.iter().for_each(|(_, task)| task.abort());
    }
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
    /// Where its listeners are bound, with their names.
    pub(crate) fn listens(&self) -> Vec<(SocketAddr, String)> {
        self.doors.listens()
    }

    /// Takes no more connections, finishes what is under way for at most `patience`, and ends. Returns the last
    /// status.
    pub(crate) async fn stop(mut self, patience: Duration) -> NodeStatus {
        self.doors.close();
        // Every place is free again when the last connection is over, or patience ends: what is left is cut off.
        let _ = timeout(patience, self.doors.places().emptied()).await;
        self.hall.stop();
        self.tasks.iter().for_each(JoinHandle::abort);
        if let Some(log) = &self.gate.registry.log {
            log.flush().await;
        }
        self.hall.status()
    }
}
