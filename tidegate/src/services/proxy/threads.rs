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
use super::listener::AcceptedClient;
use super::worker::{Common, WorkerContext};

/// A client, and that the thread has one more.
type Guided = (Box<AcceptedClient>, Load);

/// One more connection of a thread, until it is dropped.
#[derive(Debug)]
struct Load(Arc<AtomicUsize>);

#[derive(Debug)]
struct Worker {
    /// Not bounded: what is in it has a place of the connections that there may be.
    clients: mpsc::UnboundedSender<Guided>,
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
        worker: &Rc<WorkerContext>,
    ) -> anyhow::Result<Rc<Workers>> {
        let mut all = Vec::new();
        for number in 0..threads.max(1) {
            let (clients, come) = mpsc::unbounded_channel();
            all.push(Worker { clients, load: Arc::default() });
            if number == 0 {
                spawn_local(work(worker.clone(), come));
                continue;
            }
            let common = common.clone();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let run = move || {
                let tasks = LocalSet::new();
                tasks.block_on(&runtime, async move {
                    let worker = WorkerContext::new(&common);
                    spawn_local(worker.clone().sweep());
                    work(worker, come).await;
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
    pub(super) fn take(&self, visit: AcceptedClient) {
        let Some(worker) = self.idlest() else { return };
        worker.load.fetch_add(1, Ordering::Relaxed);
        let load = Load(worker.load.clone());
        // It fails only for a thread that breaks now; its client hears that the connection is over.
        let _ = worker.clients.send((Box::new(visit), load));
    }

    /// A thread that broke has no connections, and gets none.
    fn idlest(&self) -> Option<&Worker> {
        let all = self.0.iter().filter(|worker| !worker.clients.is_closed());
        all.min_by_key(|worker| worker.load.load(Ordering::Relaxed))
    }
}

async fn work(worker: Rc<WorkerContext>, mut come: mpsc::UnboundedReceiver<Guided>) {
    while let Some((visit, load)) = come.recv().await {
        spawn_local(serve(worker.clone(), visit, load));
    }
}

async fn serve(worker: Rc<WorkerContext>, visit: Box<AcceptedClient>, _load: Load) {
    let AcceptedClient { stream, address, state, meter, place } = *visit;
    let Ok(stream) = TcpStream::from_std(stream) else { return };
    let peer = Rc::new(state.settings.peer(&stream, address, meter));
    let counts = &worker.registry.counts;
    counts.note_client(1);
    tokio::select! {
        () = converse(stream, peer, &state.settings, &worker, state.closing) => {}
        () = place.needed() => counts.note_turned_away(),
    }
    counts.note_client(-1);
    drop(place);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_broke_gets_no_more_clients() {
        let worker = |load| {
            let (clients, come) = mpsc::unbounded_channel();
            (Worker { clients, load: Arc::new(AtomicUsize::new(load)) }, come)
        };
        let ((broken, gone), (lives, _come)) = (worker(0), worker(7));
        let workers = Workers(vec![broken, lives]);
        let load = |workers: &Workers| workers.idlest().map(|one| one.load.load(Ordering::Relaxed));
        assert_eq!(load(&workers), Some(0));
        drop(gone);
        assert_eq!(load(&workers), Some(7));
    }
}
