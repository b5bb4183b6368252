//! `tidegate orchestrate`: the leader of a fleet as a service, or one of several that may lead.
//!
//! `hub` owns the orchestrator's state machine in one task; `service` is what gRPC calls. Of several, `candidate` stands for
//! election at etcd, and `follow` hears from the leader what no node knows. `site` is what metrics are read from. Nothing is stored: grants live in
//! the nodes, and a new leader hears from them what they hold.

mod callers;
mod candidate;
mod describe;
mod follow;
mod hub;
mod service;
mod site;

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use tidegate_fleet::{ElectionOptions, FleetOptions};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use self::callers::Callers;
use self::candidate::Candidate;
use self::hub::{Hub, Seat};
use self::service::FleetService;
use self::site::HubSite;
use super::channel::{FleetTls, QUIET, SILENT};
use super::etcd::Etcd;
use crate::config::HttpConfig;

/// Calls of one connection at a time: a node's stream, and its questions.
const STREAMS_MAX: u32 = 16;
/// Bytes of the headers of a call.
const HEADERS_MAX: u32 = 16 * 1024;

/// What an orchestrator is made of.
#[derive(Clone, Debug)]
pub struct OrchestrateOptions {
    /// Where nodes and people come.
    pub listen: Vec<SocketAddr>,
    /// Where its metrics are read, if anywhere.
    pub http: Option<SocketAddr>,
    /// Names by which they are asked for.
    pub http_hosts: Vec<String>,
    /// What it shows, and whom it believes.
    pub tls: FleetTls,
    /// Names in certificates that may drain nodes; where it is empty, those with the role.
    pub operators: Vec<String>,
    /// Names in certificates that may attend; all with the role where it is empty.
    pub nodes: Vec<String>,
    /// Whether certificates without roles may do nothing.
    pub needs_roles: bool,
    /// How it decides.
    pub fleet: FleetOptions,
    /// How it comes to lead.
    pub lead: Lead,
}

/// How an orchestrator comes to lead.
#[derive(Clone, Debug)]
pub enum Lead {
    /// It is the only one: at once. Its revision is the time of its start, unless it is given.
    Alone(Option<u64>),
    /// One of several leads: whoever has a key in etcd.
    Elected {
        /// Addresses of etcd's members, with `http://` or `https://`.
        etcd: Vec<String>,
        /// `host:port` where people and the others find this one.
        address: String,
        /// Name of the fleet: several may use one etcd.
        name: String,
    },
}

impl OrchestrateOptions {
    /// Whether its files can be used.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn check(&self) -> anyhow::Result<()> {
        self.tls.server()?;
        Ok(())
    }
}

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
    if let Some(address) = options.http {
        let hosts = options.http_hosts;
        let manner = (&HttpConfig { hosts, ..HttpConfig::default() }).into();
        let (bound, task) = crate::http::serve(address, HubSite(hub.clone()), manner)
            .await
            .with_context(|| format!("cannot listen on {address} ([orchestrator] http)"))?;
        tracing::info!("metrics at http://{bound}/metrics");
        tasks.push(task);
    }
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
            .http2_keepalive_interval(Some(QUIET.1))
            .http2_keepalive_timeout(Some(SILENT))
            .tls_config(options.tls.server()?)
            .context("TLS of the orchestrator")?;
        let mut stopped = stopped.clone();
        tasks.push(tokio::spawn(async move {
            let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
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
