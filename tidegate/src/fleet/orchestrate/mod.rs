//! `tidegate orchestrate`: the leader of a fleet as a service.
//!
//! `hub` owns core's orchestrator in one task; `service` is what gRPC calls. Nothing is stored: grants live
//! in the nodes, and a new process hears from them what they hold.

mod hub;
mod service;

use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use tidegate_core::fleet::FleetOptions;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use self::hub::Hub;
use self::service::FleetService;
use super::channel::{ALIVE, FleetTls};

/// What an orchestrator is made of.
#[derive(Clone, Debug)]
pub struct OrchestrateOptions {
    /// Where nodes and people come.
    pub listen: Vec<SocketAddr>,
    /// What it shows, and whom it believes.
    pub tls: FleetTls,
    /// Names in certificates that may drain nodes; all where it is empty.
    pub operators: Vec<String>,
    /// How it decides.
    pub fleet: FleetOptions,
}

/// An orchestrator at work.
#[derive(Debug)]
pub struct Orchestrating {
    /// Where it listens, with the ports that the system chose.
    pub listens: Vec<SocketAddr>,
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts an orchestrator that leads from now on.
///
/// # Errors
/// An address cannot be listened on, or a file cannot be used.
pub async fn start(options: OrchestrateOptions) -> anyhow::Result<Orchestrating> {
    let (stop, stopped) = watch::channel(false);
    let (hub, task) = Hub::start(options.fleet, revision());
    let mut tasks = vec![task];
    let mut listens = Vec::new();
    for address in options.listen {
        let cure = "choose another address in [orchestrator] listen";
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address} ({cure})"))?;
        listens.push(listener.local_addr()?);
        let service = FleetService::new(hub.clone(), options.operators.clone());
        let server = Server::builder()
            .http2_keepalive_interval(Some(ALIVE))
            .http2_keepalive_timeout(Some(ALIVE))
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
    Ok(Orchestrating { listens, stop, tasks })
}

impl Orchestrating {
    /// Ends all streams and the service.
    pub async fn stop(self) {
        let _ = self.stop.send(true);
        for task in self.tasks {
            task.abort();
            let _ = task.await;
        }
    }
}

/// The revision of a single orchestrator: larger than that of every process before, as long as the clock
/// does not go back over a restart. Where it does, nodes refuse what it says until their leases end and
/// they have restarted: `OPERATING.md` says so.
fn revision() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(1)
}
