//! Which connection speaks for which client id: a newer one takes over.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::oneshot;

/// Told to a connection that is taken over. Its end of life drops the sender, which is what the newer
/// connection waits for: the older one's records go first.
pub(super) type Takeover = oneshot::Sender<()>;

#[derive(Debug)]
struct Entry {
    number: u64,
    kick: oneshot::Sender<Takeover>,
}

/// The client ids in use. Bounded by the number of connections.
#[derive(Debug)]
pub(super) struct Clients {
    entries: Mutex<HashMap<Arc<str>, Entry>>,
    numbers: AtomicU64,
    started: u64,
}

impl Clients {
    pub(super) fn new() -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clients {
            entries: Mutex::default(),
            numbers: AtomicU64::new(0),
            started: started.as_millis() as u64,
        }
    }

    /// A client id for a client that has none: not used by any other client, nor by an earlier run.
    pub(super) fn assign(&self) -> Arc<str> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        format!("auto-{:x}-{number}", self.started).into()
    }

    /// Takes a client id. Where another connection has it, that one is told to end, and the receiver
    /// resolves when it has.
    pub(super) fn register(
        self: &Arc<Self>,
        client: &Arc<str>,
    ) -> (Registration, Option<oneshot::Receiver<()>>) {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (kick, kicked) = oneshot::channel();
        let older = self.lock().insert(client.clone(), Entry { number, kick });
        let gone = older.and_then(|older| {
            let (ended, gone) = oneshot::channel();
            older.kick.send(ended).ok().map(|()| gone)
        });
        let clients = self.clone();
        (Registration { clients, client: client.clone(), number, kicked }, gone)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        // The map is consistent after any panic: every change is a single call.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's claim on its client id; given up when dropped.
#[derive(Debug)]
pub(super) struct Registration {
    clients: Arc<Clients>,
    client: Arc<str>,
    number: u64,
    /// Resolves when a newer connection takes the client id.
    pub(super) kicked: oneshot::Receiver<Takeover>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut entries = self.clients.lock();
        if entries.get(&self.client).is_some_and(|entry| entry.number == self.number) {
            entries.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newer_connection_waits_for_the_older_one() {
        let clients = Arc::new(Clients::new());
        let id: Arc<str> = "plc-1".into();
        let (mut older, nobody) = clients.register(&id);
        assert!(nobody.is_none());
        let (newer, gone) = clients.register(&id);
        let mut gone = gone.unwrap();
        let takeover = older.kicked.try_recv().unwrap();
        assert!(gone.try_recv().is_err());
        drop(older);
        assert_eq!(clients.lock().len(), 1, "the claim is the newer one's");
        drop(takeover);
        assert_eq!(gone.try_recv(), Err(oneshot::error::TryRecvError::Closed));
        drop(newer);
        assert_eq!(clients.lock().len(), 0);
    }

    #[test]
    fn a_dead_connection_is_not_waited_for() {
        let clients = Arc::new(Clients::new());
        let id: Arc<str> = "plc-1".into();
        let (older, _) = clients.register(&id);
        drop(older);
        assert!(clients.register(&id).1.is_none());
    }

    #[test]
    fn assigned_ids_differ() {
        let clients = Clients::new();
        assert_ne!(clients.assign(), clients.assign());
    }
}
