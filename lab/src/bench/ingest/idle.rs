//! What a connection costs that says nothing: resident memory of the process, with TLS and without.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate_testbed::free_address;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::Options;
use super::server::{self, Contestant, Work};
use crate::load::raw;
use crate::net::scratch::Scratch;
use crate::rig::{self, server::Server};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Resident memory of a process, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) alone: f64,
    /// More for each connection.
    pub(super) each: f64,
}

/// A private authority, and what a listener on loopback needs.
#[derive(Debug)]
pub(in crate::bench) struct Keys {
    pub(in crate::bench) ca: PathBuf,
    pub(in crate::bench) certificate: PathBuf,
    pub(in crate::bench) key: PathBuf,
    _folder: Scratch,
}

impl Keys {
    /// Makes them by the program's own command.
    pub(in crate::bench) fn new(tidegate: &Path) -> io::Result<Keys> {
        let folder = Scratch::new().map_err(io::Error::other)?;
        let pki = folder.path().join("pki");
        rig::keys(tidegate, &pki, &[("node", Some("127.0.0.1"))]).map_err(io::Error::other)?;
        let [ca, certificate, key] = ["ca.pem", "node.pem", "node.key"].map(|file| pki.join(file));
        Ok(Keys { ca, certificate, key, _folder: folder })
    }

    /// A client that trusts the authority.
    pub(in crate::bench) fn trust(&self) -> io::Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(&self.ca).map_err(io::Error::other)?;
        roots.add(authority).map_err(io::Error::other)?;
        Ok(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
    }
}

pub(super) fn plain(contestant: Contestant, options: &Options) -> io::Result<Held> {
    let server = server::start(contestant, Work::Discard, free_address(), &options.tidegate, None)?;
    hold(&server, options.connections, |name| raw::log_in(server.address, name))
}

pub(super) fn over_tls(contestant: Contestant, options: &Options) -> io::Result<Held> {
    let keys = Keys::new(&options.tidegate)?;
    let trust = keys.trust()?;
    let (sink, tidegate) = (free_address(), &options.tidegate);
    let server = server::start(contestant, Work::Discard, sink, tidegate, Some(&keys))?;
    hold(&server, options.connections, |name| {
        Ok(log_in(server.address, trust.clone(), &raw::connect_packet(name))?.0)
    })
}

/// Connects with TLS and says a CONNECT; the answer is the connection and the code of its CONNACK.
pub(in crate::bench) fn log_in(
    to: SocketAddr,
    trust: Arc<ClientConfig>,
    hello: &[u8],
) -> io::Result<(StreamOwned<ClientConnection, TcpStream>, u8)> {
    let tcp = TcpStream::connect_timeout(&to, PATIENCE)?;
    tcp.set_read_timeout(Some(PATIENCE))?;
    let connection = ClientConnection::new(trust, to.ip().into()).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, tcp);
    stream.write_all(hello)?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer)?;
    Ok((stream, answer[3]))
}

fn hold<S>(
    server: &Server,
    connections: usize,
    log_in: impl Fn(&str) -> io::Result<S>,
) -> io::Result<Held> {
    let alone = server.resident_kib()?;
    let held: io::Result<Vec<S>> =
        (0..connections).map(|number| log_in(&format!("idle-{number}"))).collect();
    let held = held?;
    let more = server.resident_kib()?.saturating_sub(alone);
    let each = (more * 1024) as f64 / held.len().max(1) as f64;
    Ok(Held { alone: (alone * 1024) as f64, each })
}
