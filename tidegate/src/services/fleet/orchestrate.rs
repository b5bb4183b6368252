//! `tidegate orchestrate`: the leader of a fleet as a service, or one of several that may lead.
//!
//! `hub` owns the orchestrator's state machine in one task; `service` is what gRPC calls. Of several, `candidate` stands for
//! election at etcd, and `follow` hears from the leader what no node knows. Nothing is stored: grants live in
//! the nodes, and a new leader hears from them what they hold.

mod callers;
mod candidate;
mod describe;
mod figures;
mod follow;
mod hub;
mod options;
mod service;

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use tidegate_fleet::ElectionOptions;
use tidegate_types::account::Account;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use self::callers::Callers;
use self::candidate::Candidate;
pub use self::figures::OrchestratorFigures;
pub(crate) use self::hub::Hub;
use self::hub::Seat;
pub use self::options::{Lead, OrchestrateOptions};
use self::service::FleetService;
use super::etcd::Etcd;
use crate::support::acceptor::Acceptor;
use crate::support::tls::grpc::{QUIET, SILENT, handshakes};

/// Calls of one connection at a time: a node's stream, and its questions.
const STREAMS_MAX: u32 = 16;
/// Bytes of the headers of a call.
const HEADERS_MAX: u32 = 16 * 1024;
/// Bytes that a connection may send before they are read: the least that HTTP/2 has, and enough for a beat.
const WINDOW: u32 = 65_535;
/// Bytes that a connection may make us hold.
const CONNECTION: usize = (WINDOW + HEADERS_MAX) as usize;
/// Connections that there is memory for. One address has at most three fifths of it, and less while others come.
const CONNECTIONS: usize = 16_384;

/// An orchestrator at work.
#[derive(Debug)]
pub struct Orchestrating {
    /// Where it listens, with the ports that the system chose.
    pub listens: Vec<SocketAddr>,
    hub: Hub,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts an orchestrator.
///
/// # Errors
/// An address cannot be listened on, or a file cannot be used. That etcd does not answer is none: it waits.
pub async fn start(options: OrchestrateOptions) -> anyhow::Result<Orchestrating> {
    let (stop, stopped) = watch::channel(false);
    let (seat, leader) = match options.lead {
        Lead::Alone(revision) => (Seat::Only(revision.unwrap_or_else(self::revision)), None),
        Lead::Elected { etcd, address, name } => {
            let key = format!("tidegate/{name}/leader");
            let etcd = Etcd::new(&etcd, &options.tls.client()?, &key)?;
            let candidate = Candidate::new(ElectionOptions::default(), etcd, address.into());
            let leader = candidate.leader();
            (Seat::OneOf(Box::new(candidate)), Some(leader))
        }
    };
    let uplink_max = options.fleet.uplink_max;
    let (hub, task) = Hub::start(options.fleet, seat);
    let mut tasks = vec![task];
    if let Some(leader) = leader {
        tasks.push(tokio::spawn(follow::run(options.tls.clone(), leader, hub.clone())));
    }
    let account = Account::new(CONNECTIONS * CONNECTION);
    let mut listens = Vec::new();
    for address in options.listen {
        let cure = "choose another address in [orchestrator] listen";
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address} ({cure})"))?;
        listens.push(listener.local_addr()?);
        let callers = Callers {
            operators: options.operators.clone(),
            nodes: options.nodes.clone(),
            needs_roles: options.needs_roles,
            uplink_max,
        };
        let service = FleetService::new(hub.clone(), callers);
        let server = Server::builder()
            .max_concurrent_streams(Some(STREAMS_MAX))
            .http2_max_header_list_size(Some(HEADERS_MAX))
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .http2_keepalive_interval(Some(QUIET.1))
            .http2_keepalive_timeout(Some(SILENT));
        let tls = options.tls.server().context("TLS of the orchestrator")?;
        let mut stopped = stopped.clone();
        let acceptor = Acceptor::new("[orchestrator]", account.clone(), CONNECTION, true);
        tasks.push(tokio::spawn(async move {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
            let incoming = incoming.filter_map(move |came| acceptor.accept(came));
            let incoming = handshakes(tls, incoming);
            let end = async move {
                let _ = stopped.wait_for(|stop| *stop).await;
            };
            if let Err(error) = server.serve_with_incoming_shutdown(service, incoming, end).await {
                tracing::error!("the service ended: {error}");
            }
        }));
    }
    Ok(Orchestrating { listens, hub, stop, tasks })
}

impl Orchestrating {
    /// What knows its figures.
    pub(crate) fn hub(&self) -> &Hub {
        &self.hub
    }

    /// One more task that ends with it.
    pub(crate) fn keep(&mut self, task: JoinHandle<()>) {
        self.tasks.push(task);
    }

    /// Leaves the lead to others, and ends all streams and the service.
    pub async fn stop(self) {
        self.hub.stop().await;
        let _ = self.stop.send(true);
        for task in self.tasks {
            task.abort();
            let _ = task.await;
        }
    }
}

/// The revision of a single orchestrator: larger than that of every process before, as long as the clock
/// does not go back over a restart. Where it does, nodes refuse what it says until their leases end and
/// they have restarted: `docs/howto/fleet.md` says so.
fn revision() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(1)
}
