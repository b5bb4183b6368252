//! Accepts clients on every address, and knows who is connected: a name can be used once.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{MqttOptions, connection};
use crate::port::Intake;

/// Wait after an accept that failed for want of descriptors or memory: they come back with time only.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen for MQTT on {address}: {cause}; {cure}", cure = cure(cause))]
pub struct BindError {
    address: SocketAddr,
    #[source]
    cause: io::Error,
}

fn cure(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "another process has it: stop that one or choose another port",
        io::ErrorKind::PermissionDenied => "ports below 1024 need a privilege: choose a higher one",
        io::ErrorKind::AddrNotAvailable => "no interface of this machine has this address",
        _ => "choose another address",
    }
}

/// Who is connected: a name, the number of its connection, and how to tell it that it was taken over.
type Entries = HashMap<Arc<str>, (u64, Arc<Notify>)>;

/// The clients of all listeners of an input. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients {
    entries: Arc<Mutex<Entries>>,
    last_number: Arc<AtomicU64>,
}

impl Clients {
    /// A client logs in; the one of the same name before it is told to go. Returns the connection's
    /// number and what tells it the same.
    pub(super) fn enter(&self, client: Arc<str>) -> (u64, Arc<Notify>) {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        let notify = Arc::new(Notify::new());
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, old)) = entries.insert(client, (number, notify.clone())) {
            old.notify_one();
        }
        (number, notify)
    }

    /// A client is gone, unless its name belongs to a later connection already.
    pub(super) fn leave(&self, client: &str, number: u64) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.get(client).is_some_and(|(present, _)| *present == number) {
            entries.remove(client);
        }
    }

    /// A name for a client without one.
    pub(super) fn fresh_name(&self) -> String {
        format!("tidegate-{}", self.last_number.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Listening sockets, not yet served.
#[derive(Debug)]
pub struct MqttListener {
    listeners: Vec<TcpListener>,
    options: Arc<MqttOptions>,
}

/// Opens every address of the options.
///
/// # Errors
/// The first address that cannot be listened on, and what to do about it.
pub async fn bind(options: MqttOptions) -> Result<MqttListener, BindError> {
    let mut listeners = Vec::new();
    for &address in &options.listen {
        let bound = TcpListener::bind(address).await;
        listeners.push(bound.map_err(|cause| BindError { address, cause })?);
    }
    Ok(MqttListener { listeners, options: options.into() })
}

impl MqttListener {
    /// The addresses, with the ports that the system chose.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// Serves clients until the node is gone and each has been told; dropping it cuts them off.
    pub async fn run(self, intake: Intake) {
        let clients = Clients::default();
        let places = Arc::new(Semaphore::new(self.options.connections_max));
        let mut tasks = JoinSet::new();
        for listener in self.listeners {
            let (options, clients) = (self.options.clone(), clients.clone());
            tasks.spawn(accept(listener, options, clients, places.clone(), intake.clone()));
        }
        while tasks.join_next().await.is_some() {}
    }
}

async fn accept(
    listener: TcpListener,
    options: Arc<MqttOptions>,
    clients: Clients,
    places: Arc<Semaphore>,
    intake: Intake,
) {
    let mut connections = JoinSet::new();
    let mut is_failing = false;
    loop {
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => {
                    is_failing = false;
                    accepted
                }
                Err(error) => {
                    if !is_failing {
                        tracing::warn!(%error, "clients cannot be accepted for now");
                    }
                    is_failing = true;
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            Some(_) = connections.join_next() => continue,
            () = intake.closed() => break,
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tracing::warn!(%peer, limit = options.connections_max, "refused: too many clients");
            continue;
        };
        let (options, clients, intake) = (options.clone(), clients.clone(), intake.clone());
        connections.spawn(async move {
            if let Err(error) = prepare(&stream) {
                tracing::debug!(%peer, %error, "client is gone");
                return;
            }
            connection::serve(stream, peer, options, clients, intake).await;
            drop(place);
        });
    }
    // Each of them sees by itself that the node is gone, and says goodbye to its client.
    while connections.join_next().await.is_some() {}
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)
}
