//! The gRPC channel under mutual TLS: its files, a listener's handshakes, and a connection to an orchestrator.
//!
//! The files are followed: each handshake uses what they say by then, at both ends.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::{FILE_MAX, ServerFiles, files, serving};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(3);
/// How long the handshake of who comes may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A connection on which nothing came for so long is asked whether it lives: by a node, which looks for
/// another leader then, and by an orchestrator, which hears a leader's nodes once a second and has time.
pub(crate) const QUIET: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(10));
/// How long it has to answer.
pub(crate) const SILENT: Duration = Duration::from_secs(2);

/// Files of both ends: everybody proves who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetTls {
    /// Authorities of which one must have signed the other end's certificate.
    pub ca: PathBuf,
    /// Our certificate. Its common name is the node's.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    files::read(file, FILE_MAX).with_context(|| file.display().to_string())
}

impl FleetTls {
    fn identity(&self) -> anyhow::Result<Identity> {
        Ok(Identity::from_pem(read(&self.certificate)?, read(&self.key)?))
    }

    /// The same files, as those of any listener.
    pub(crate) fn files(self) -> ServerFiles {
        let FleetTls { ca, certificate, key } = self;
        ServerFiles { certificate, key, client_ca: Some(ca), crl: None }
    }

    /// What a listener shows and asks for.
    ///
    /// # Errors
    /// A file cannot be used.
    pub(crate) fn server(&self) -> anyhow::Result<TlsAcceptor> {
        let (config, _) = serving(&self.clone().files())?;
        let mut config = ServerConfig::clone(&config);
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Arc::new(config).into())
    }

    /// What who connects shows and asks for.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn client(&self) -> anyhow::Result<ClientTlsConfig> {
        let ca = Certificate::from_pem(read(&self.ca)?);
        Ok(ClientTlsConfig::new().ca_certificate(ca).identity(self.identity()?))
    }

    /// A way to an orchestrator at `host:port`, that is not connected yet.
    ///
    /// # Errors
    /// A file cannot be read, or no host can have this name.
    pub(crate) fn endpoint(&self, to: &str) -> anyhow::Result<Endpoint> {
        let tls = self.client()?;
        let endpoint = Endpoint::from_shared(format!("https://{to}"))
            .with_context(|| format!("{to:?} is no host and port"))?;
        Ok(endpoint
            .tls_config(tls)
            .with_context(|| format!("TLS to {to}"))?
            .connect_timeout(CONNECT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(QUIET.0)
            .keep_alive_timeout(SILENT)
            .keep_alive_while_idle(true))
    }

    /// A connection to an orchestrator.
    ///
    /// # Errors
    /// As [`FleetTls::endpoint`], or nobody answers.
    pub(crate) async fn connect(&self, to: &str) -> anyhow::Result<Channel> {
        let endpoint = self.endpoint(to)?;
        let nobody =
            |error| anyhow::anyhow!("no orchestrator answers at {to}: {}", innermost(&error));
        endpoint.connect().await.map_err(nobody)
    }
}

/// The connections of a listener, each when its handshake is over. One whose handshake fails or takes too long is closed.
pub(crate) fn handshakes<C>(
    acceptor: TlsAcceptor,
    incoming: impl Stream<Item = io::Result<C>> + Send + 'static,
) -> impl Stream<Item = io::Result<TlsStream<C>>>
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (ready, all) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut incoming = std::pin::pin!(incoming);
        loop {
            let came = tokio::select! {
                came = incoming.next() => came,
                () = ready.closed() => return,
            };
            match came {
                None => return,
                // The service knows which errors of a listener pass.
                Some(Err(error)) => _ = ready.send(Err(error)).await,
                Some(Ok(stream)) => {
                    let (handshake, ready) = (acceptor.accept(stream), ready.clone());
                    tokio::spawn(async move {
                        if let Ok(Ok(stream)) = timeout(HANDSHAKE, handshake).await {
                            // Where that fails, the service has ended.
                            let _ = ready.send(Ok(stream)).await;
                        }
                    });
                }
            }
        }
    });
    ReceiverStream::new(all)
}

/// What is at the bottom of an error: each layer above repeats that a transport failed.
fn innermost<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a dyn std::error::Error {
    std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error)
}
