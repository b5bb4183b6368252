//! The gRPC channel under mutual TLS: its files, and a connection to an orchestrator.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tonic::transport::{
    Certificate, Channel, ClientTlsConfig, Endpoint, Identity, ServerTlsConfig,
};

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
    std::fs::read(file).with_context(|| file.display().to_string())
}

impl FleetTls {
    fn identity(&self) -> anyhow::Result<Identity> {
        Ok(Identity::from_pem(read(&self.certificate)?, read(&self.key)?))
    }

    /// What an orchestrator shows and asks for.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(crate) fn server(&self) -> anyhow::Result<ServerTlsConfig> {
        let ca = Certificate::from_pem(read(&self.ca)?);
        Ok(ServerTlsConfig::new().identity(self.identity()?).client_ca_root(ca).timeout(HANDSHAKE))
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

/// What is at the bottom of an error: each layer above repeats that a transport failed.
fn innermost<'a>(error: &'a (dyn std::error::Error + 'static)) -> &'a dyn std::error::Error {
    std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error)
}
