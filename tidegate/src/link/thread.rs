//! One thread for the links of a node, which lets packets gather.
//!
//! Several threads would only wake each other, for each packet. And a packet a wake is what links cost most at
//! moderate rates: while packets flow, the thread waits a moment before it waits for the next, and takes all that
//! came meanwhile in one turn. A packet after silence is taken at once.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// How long packets gather: a thirtieth of the shortest round trip that matters to a link.
const GATHER: Duration = Duration::from_millis(1);
/// With so many packets in a turn nothing is gained by waiting for more, and the kernel's buffers would overflow.
const FULL: u32 = 64;

thread_local! {
    /// Packets that this thread has sent and taken since it waited last.
    static PACKETS: Cell<u32> = const { Cell::new(0) };
}

/// A packet was sent or has come.
pub(super) fn count_packet() {
    PACKETS.set(PACKETS.get().saturating_add(1));
}

/// Called before the thread waits.
fn gather() {
    if (1..FULL).contains(&PACKETS.replace(0)) {
        thread::sleep(GATHER);
    }
}

/// See the file's header. Cheap to clone; all clones are the same. The thread begins with the first link, and ends
/// with the last clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkThread(Arc<Mutex<Option<Running>>>);

#[derive(Debug)]
struct Running {
    handle: Handle,
    /// Dropped, it ends the thread.
    _alive: oneshot::Sender<Infallible>,
}

impl LinkThread {
    /// Whatever is spawned, and whatever sockets are opened, while the guard lives belong to the thread.
    ///
    /// # Errors
    /// The system has no thread, or no descriptor, for it.
    pub(crate) fn handle(&self) -> io::Result<Handle> {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*running {
            return Ok(running.handle.clone());
        }
        let (alive, over) = oneshot::channel();
        let (teller, told) = std::sync::mpsc::sync_channel(1);
        thread::Builder::new().name("links".into()).spawn(move || {
            // Built here: nobody who waits for tasks may drop it.
            let built = Builder::new_current_thread().enable_all().on_thread_park(gather).build();
            let runtime = match built {
                Ok(runtime) => runtime,
                Err(error) => return drop(teller.send(Err(error))),
            };
            let _ = teller.send(Ok(runtime.handle().clone()));
            let _: Result<Infallible, _> = runtime.block_on(over);
        })?;
        let handle = told.recv().map_err(io::Error::other)??;
        *running = Some(Running { handle: handle.clone(), _alive: alive });
        Ok(handle)
    }
}

/// Runs a task on the thread of `handle`; it ends when it is dropped here.
pub(crate) async fn run_on(handle: &Handle, task: impl Future<Output = ()> + Send + 'static) {
    let mut tasks = JoinSet::new();
    tasks.spawn_on(task, handle);
    if let Some(Err(error)) = tasks.join_next().await
        && let Ok(panic) = error.try_into_panic()
    {
        std::panic::resume_unwind(panic);
    }
}
