//! The jobs that send and receive datagrams of bare QUIC: what the library below a link costs by itself.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::pem::PemObject;
use quinn::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use quinn::{ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig};
use serde::{Deserialize, Serialize};

use super::READY;
use super::records::{Seen, Sent};
use super::stamp::wall_ns;

/// Bytes of a datagram: as many as a link's packet has.
const SIZE: usize = 1160;
/// What is due is sent so often.
const TURN: Duration = Duration::from_millis(1);
/// How often the receiver tells.
const PERIOD: Duration = Duration::from_millis(200);
/// Bytes that a connection keeps for its sockets and for its reader.
const BUFFER: usize = 4 << 20;

/// A connection for each path, with datagrams paced on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SendDatagrams {
    /// Of each path: our address, theirs, and its part of the rate.
    pub paths: Vec<(Ipv4Addr, SocketAddrV4, f64)>,
    /// Who vouches for the receiver.
    pub ca: PathBuf,
    /// The receiver's name in its certificate.
    pub name: String,
    /// Bits a second on all paths; as fast as they go if left out.
    pub rate: Option<f64>,
    /// When it begins, nanoseconds since the Unix epoch.
    pub begin_ns: u64,
    /// How long it lasts, in seconds.
    pub seconds: f64,
}

/// The other end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReceiveDatagrams {
    pub at: SocketAddrV4,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

fn transport() -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    transport
        .initial_mtu(1200)
        .mtu_discovery_config(None)
        .congestion_controller_factory(Arc::new(unpaced()))
        .datagram_receive_buffer_size(Some(BUFFER))
        .datagram_send_buffer_size(BUFFER);
    Arc::new(transport)
}

/// A window so large that a tenth of lost packets does not matter.
fn unpaced() -> quinn::congestion::NewRenoConfig {
    let mut config = quinn::congestion::NewRenoConfig::default();
    config.initial_window(1 << 32).loss_reduction_factor(1.0);
    config
}

impl SendDatagrams {
    /// Sends, then says how much.
    #[expect(clippy::print_stdout, reason = "the result of a job")]
    pub fn run(&self) -> anyhow::Result<()> {
        let sent = alone(self.send())?;
        println!("{}", serde_json::to_string(&sent)?);
        let _ = std::io::stdin().read(&mut [0]);
        Ok(())
    }

    async fn send(&self) -> anyhow::Result<Sent> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(&self.ca)? {
            roots.add(certificate?)?;
        }
        let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
        config.transport_config(transport());
        let mut connections = Vec::new();
        for &(from, to, part) in &self.paths {
            let endpoint = Endpoint::client(SocketAddr::from((from, 0)))?;
            let connecting = endpoint.connect_with(config.clone(), to.into(), &self.name)?;
            connections.push((connecting.await.context("QUIC")?, part, 0.0));
        }
        let wait = self.begin_ns.saturating_sub(wall_ns());
        tokio::time::sleep(Duration::from_nanos(wait)).await;
        let (begin, mut sent) = (Instant::now(), Sent::default());
        let content = Bytes::from(vec![b'.'; SIZE]);
        while begin.elapsed().as_secs_f64() < self.seconds {
            for (connection, part, bytes) in &mut connections {
                let due = self.rate.map(|rate| rate / 8.0 * *part * begin.elapsed().as_secs_f64());
                *bytes += fill(connection, &content, due.map(|due| due - *bytes)).await?;
            }
            if self.rate.is_some() {
                tokio::time::sleep(TURN).await;
            }
        }
        sent.bytes = connections.iter().map(|(_, _, bytes)| *bytes as u64).sum();
        sent.records = sent.bytes / SIZE as u64;
        Ok(sent)
    }
}

/// Sends what is due, or a few as soon as there is room. Answers how many bytes.
async fn fill(connection: &Connection, content: &Bytes, due: Option<f64>) -> anyhow::Result<f64> {
    let count = due.map_or(64, |due| (due.max(0.0) / SIZE as f64) as usize);
    for _ in 0..count {
        match due {
            Some(_) => connection.send_datagram(content.clone())?,
            None => connection.send_datagram_wait(content.clone()).await?,
        }
    }
    Ok((count * SIZE) as f64)
}

impl ReceiveDatagrams {
    /// Receives until it is ended, and tells from time to time how much.
    #[expect(clippy::print_stdout, reason = "the result of a job")]
    pub fn run(&self) -> anyhow::Result<()> {
        alone(async {
            let chain =
                CertificateDer::pem_file_iter(&self.certificate)?.collect::<Result<_, _>>()?;
            let key = PrivateKeyDer::from_pem_file(&self.key)?;
            let mut config = ServerConfig::with_single_cert(chain, key)?;
            config.transport_config(transport());
            let endpoint = Endpoint::server(config, self.at.into())?;
            println!("{READY}");
            let bytes = Arc::new(AtomicU64::new(0));
            tokio::spawn(tell(bytes.clone()));
            while let Some(incoming) = endpoint.accept().await {
                let bytes = bytes.clone();
                tokio::spawn(async move {
                    let Ok(connection) = incoming.await else { return };
                    while let Ok(datagram) = connection.read_datagram().await {
                        bytes.fetch_add(datagram.len() as u64, Ordering::Relaxed);
                    }
                });
            }
            Ok(())
        })
    }
}

/// Runs it on a thread of its own: QUIC on several is dearer.
fn alone<T: Send>(task: impl Future<Output = anyhow::Result<T>> + Send) -> anyhow::Result<T> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(task)
    };
    let joined = std::thread::scope(|scope| scope.spawn(run).join());
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[expect(clippy::print_stdout, reason = "the result of a job")]
async fn tell(bytes: Arc<AtomicU64>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let bytes = bytes.load(Ordering::Relaxed);
        let seen = Seen { bytes, records: bytes / SIZE as u64, ..Seen::default() };
        println!("{}", serde_json::to_string(&seen).unwrap_or_default());
    }
}
