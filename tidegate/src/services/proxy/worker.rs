//! What is in force: where requests go, as one thread has it.
//!
//! A request goes by what is in force when it comes, to its end, however often the configuration changes meanwhile.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_node::io::OutputId;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::sleep;

use super::exit::Registry;
use super::hall::Hall;
use super::routes::Route;
use super::run::WatchedUpstream;
use super::starts::Starts;
use super::upstream::{Shared, Upstream};

/// Between two looks for connections that are idle for too long.
const SWEEP: Duration = Duration::from_secs(1);

/// What a configuration says of routes.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) routes: Vec<Arc<Route>>,
    /// By output; none at the places of listeners, and of what is gone.
    pub(super) upstreams: Vec<Option<Arc<WatchedUpstream>>>,
    pub(super) listeners: Vec<OutputId>,
    /// Who waits until nobody goes by it any more hears when this is dropped.
    pub(super) _held: oneshot::Sender<()>,
}

/// A table, and the upstreams of it with a thread's connections.
#[derive(Debug)]
pub(super) struct WorkerRoutes {
    pub(super) table: Arc<Table>,
    pub(super) upstreams: Vec<Option<Rc<Upstream>>>,
}

/// What all threads have.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub(super) hall: Hall,
    pub(super) registry: Arc<Registry>,
    /// Room for connections that became something else than HTTP.
    pub(super) tunnels: Arc<Semaphore>,
    /// What is in force: changed while nobody else is in the hall.
    pub(super) newest: watch::Receiver<Arc<Table>>,
}

/// What all exchanges of a thread share.
#[derive(Debug)]
pub(super) struct WorkerContext {
    pub(super) hall: Hall,
    pub(super) registry: Arc<Registry>,
    pub(super) tunnels: Arc<Semaphore>,
    /// Turns of requests of HTTP/2 that begin.
    pub(super) starts: Rc<Starts>,
    routes_now: RefCell<Rc<WorkerRoutes>>,
    newest: RefCell<watch::Receiver<Arc<Table>>>,
}

impl Table {
    /// The outputs that it has.
    pub(super) fn outputs(&self) -> BTreeSet<OutputId> {
        let all = (0..).map(OutputId).zip(&self.upstreams);
        let upstreams = all.filter(|(_, upstream)| upstream.is_some()).map(|(output, _)| output);
        upstreams.chain(self.listeners.iter().copied()).collect()
    }
}

impl WorkerRoutes {
    /// Upstreams that a thread has already stay, with their connections.
    fn new(table: Arc<Table>, before: &[Option<Rc<Upstream>>]) -> Rc<WorkerRoutes> {
        let is_it =
            |known: &&Rc<Upstream>, shared: &Arc<Shared>| Arc::ptr_eq(&known.shared, shared);
        let of = |shared: &Arc<Shared>| {
            let known = before.iter().flatten().find(|known| is_it(known, shared)).cloned();
            known.unwrap_or_else(|| Upstream::new(shared.clone()))
        };
        let all = table.upstreams.iter();
        let upstreams =
            all.map(|tended| tended.as_ref().map(|tended| of(&tended.shared))).collect();
        Rc::new(WorkerRoutes { table, upstreams })
    }

    /// The upstream behind an output.
    pub(super) fn upstream(&self, output: OutputId) -> Option<&Rc<Upstream>> {
        self.upstreams.get(usize::from(output.0))?.as_ref()
    }
}

impl WorkerContext {
    pub(super) fn new(common: &Common) -> Rc<WorkerContext> {
        let Common { hall, registry, tunnels, mut newest } = common.clone();
        let routes_now = RefCell::new(WorkerRoutes::new(newest.borrow_and_update().clone(), &[]));
        let newest = RefCell::new(newest);
        Rc::new(WorkerContext {
            hall,
            registry,
            tunnels,
            starts: Starts::new(),
            routes_now,
            newest,
        })
    }

    /// What is in force now. Each thread finds that out by itself, here: what it hears from the hall may follow from a
    /// table that no message would bring to it in time.
    pub(super) fn routes_now(&self) -> Rc<WorkerRoutes> {
        let newest = &mut *self.newest.borrow_mut();
        // It fails only at the end of the proxy.
        if newest.has_changed().unwrap_or(false) {
            let table = newest.borrow_and_update().clone();
            let new = WorkerRoutes::new(table, &self.routes_now.borrow().upstreams);
            let _before = self.routes_now.replace(new);
        }
        self.routes_now.borrow().clone()
    }

    /// The upstream behind an output, for who goes by `routes_now`: new rules may have led it to one that is not there.
    pub(super) fn upstream(
        &self,
        routes_now: &WorkerRoutes,
        output: OutputId,
    ) -> Option<Rc<Upstream>> {
        routes_now.upstream(output).or(self.routes_now().upstream(output)).cloned()
    }

    /// Closes connections to upstreams that are idle for too long, for ever; a thread without requests hears here of what
    /// is in force.
    pub(super) async fn sweep(self: Rc<WorkerContext>) {
        loop {
            sleep(SWEEP).await;
            self.routes_now().upstreams.iter().flatten().for_each(|upstream| upstream.sweep());
        }
    }
}
