//! The threads that speak with clients: each has a loop of its own, its connections, and those to upstreams.
//!
//! The first is the proxy's own thread, which also accepts: it hands each client to the thread that has the fewest. So a
//! message stays on one thread but for the hall, which all share (docs/decisions/0147-threads-of-the-proxy.md).

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};

use super::connection::converse;
use super::listener::Visit;
use super::way::{Common, Gate, Table};

/// What a thread is told.
#[derive(Debug)]
enum Order {
    Serve(Box<Visit>, Load),
    Adopt(Arc<Table>),
}

/// One more connection of a thread, until it is dropped.
#[derive(Debug)]
struct Load(Arc<AtomicUsize>);

#[derive(Debug)]
struct Worker {
    /// Not bounded: what is in it has a place of the connections that there may be.
    orders: mpsc::UnboundedSender<Order>,
    load: Arc<AtomicUsize>,
}

/// All threads. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Workers(Vec<Worker>);

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// So many threads, this one among them.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(
        threads: usize,
        common: &Common,
        (gate, table): (&Rc<Gate>, &Arc<Table>),
    ) -> anyhow::Result<Rc<Workers>> {
        let mut all = Vec::new();
        for number in 0..threads.max(1) {
            let (orders, told) = mpsc::unbounded_channel();
            all.push(Worker { orders, load: Arc::default() });
            if number == 0 {
                spawn_local(work(gate.clone(), told));
                continue;
            }
            let (common, table) = (common.clone(), table.clone());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let run = move || {
                let tasks = LocalSet::new();
                tasks.block_on(&runtime, async move {
                    let gate = Gate::new(&common, table);
                    spawn_local(gate.clone().sweep());
                    work(gate, told).await;
                });
                drop(tasks);
                runtime.shutdown_background();
            };
            let thread = std::thread::Builder::new().name(format!("proxy-{number}"));
            thread.spawn(run).context("starting a thread")?;
        }
        Ok(Rc::new(Workers(all)))
    }

    /// Has the thread with the fewest connections serve a client.
    pub(super) fn take(&self, visit: Visit) {
        let load = |worker: &&Worker| worker.load.load(Ordering::Relaxed);
        let Some(worker) = self.0.iter().min_by_key(load) else { return };
        worker.load.fetch_add(1, Ordering::Relaxed);
        let order = Order::Serve(Box::new(visit), Load(worker.load.clone()));
        // It fails only for a thread that broke; its client hears that the connection is over.
        let _ = worker.orders.send(order);
    }

    /// Has all but this thread go by other routes.
    pub(super) fn adopt(&self, table: &Arc<Table>) {
        self.0
            .iter()
            .skip(1)
            .for_each(|worker| _ = worker.orders.send(Order::Adopt(table.clone())));
    }
}

async fn work(gate: Rc<Gate>, mut orders: mpsc::UnboundedReceiver<Order>) {
    while let Some(order) = orders.recv().await {
        match order {
            Order::Adopt(table) => gate.adopt(table),
            Order::Serve(visit, load) => _ = spawn_local(serve(gate.clone(), visit, load)),
        }
    }
}

async fn serve(gate: Rc<Gate>, visit: Box<Visit>, _load: Load) {
    let Visit { stream, address, entrance, meter, place } = *visit;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let peer = Rc::new(entrance.manner.peer(&stream, address, meter));
    let counts = &gate.registry.counts;
    counts.note_client(1);
    tokio::select! {
        () = converse(stream, peer, &entrance.manner, &gate, entrance.closing) => {}
        () = place.needed() => counts.note_turned_away(),
    }
    counts.note_client(-1);
    drop(place);
}
