//! Camera nodes and an edge server as processes on both sides of a link, with certificates of their own.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use tidegate::support::tls::authority::Authority;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use super::client::Seat;
use crate::net::namespace::{Link, Side};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::rig::{CONNECT, tidegate_program};

/// Where the edge server's link input listens, and its subscribers find it.
const LINK_PORT: u16 = 7443;
const FRAMES_PORT: u16 = 7420;
/// Where the first camera node's camera finds it; the next ones follow.
const CAMERA_PORT: u16 = 7500;
/// Certificates are for this run.
const DAYS: u64 = 2;

/// A private authority in the run's folder.
#[derive(Clone, Debug)]
pub(super) struct Keys(PathBuf);

impl Keys {
    /// With certificates for these names, which serve at this address.
    pub(super) fn new(scratch: &Scratch, names: &[(&str, IpAddr)]) -> anyhow::Result<Keys> {
        let folder = scratch.path().join("pki");
        let authority = Authority::at(&folder);
        authority.init()?;
        for (name, address) in names {
            authority.issue(name, &[address.to_string()], DAYS)?;
        }
        Ok(Keys(folder))
    }

    /// Files of a certificate.
    pub(super) fn files(&self, name: &str) -> [PathBuf; 3] {
        ["ca.pem", &format!("{name}.pem"), &format!("{name}.key")].map(|file| self.0.join(file))
    }

    /// As keys of a configuration.
    pub(super) fn written(&self, name: &str, join: &str) -> String {
        let [ca, certificate, key] = self.files(name);
        format!("ca = {ca:?}{join}certificate = {certificate:?}{join}key = {key:?}")
    }

    /// What a client of this name shows.
    pub(super) fn client(&self, name: &str) -> anyhow::Result<ClientTlsConfig> {
        let [ca, certificate, key] = self.files(name);
        let identity = Identity::from_pem(std::fs::read(certificate)?, std::fs::read(key)?);
        let ca = Certificate::from_pem(std::fs::read(ca)?);
        Ok(ClientTlsConfig::new().ca_certificate(ca).identity(identity))
    }
}

/// A camera's name; its node's is `node-` and this.
pub(super) fn camera(number: usize) -> String {
    format!("cam{number}")
}

/// Camera nodes at the edge side and one server in the cloud's. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Rig {
    keys: Keys,
    _processes: Vec<crate::net::process::Quiet>,
}

impl Rig {
    /// Starts a server and so many camera nodes with cameras of this ladder, and waits until they are ready.
    pub(super) async fn start(
        link: &Link,
        scratch: &Scratch,
        nodes: usize,
        ladder: Option<&Path>,
    ) -> anyhow::Result<Rig> {
        let [near, far] = Side::ALL.map(|side| IpAddr::from(side.address()));
        let names: Vec<String> =
            (0..nodes).map(|number| format!("node-{}", camera(number))).collect();
        let mut all = vec![("edge", far), ("client", near)];
        all.extend(names.iter().map(|name| (name.as_str(), near)));
        let keys = Keys::new(scratch, &all)?;
        // The node runs elsewhere.
        let ladder = ladder.map(std::path::absolute).transpose()?;
        let ladder = ladder.map_or(String::new(), |file| format!("ladder = {file:?}\n"));
        let server = format!(
            "[node]\nname = \"edge\"\n[http]\nlisten = []\n\
             [[input]]\nlink = {{ listen = \"{far}:{LINK_PORT}\", {} }}\n\
             [frames]\nlisten = \"{far}:{FRAMES_PORT}\"\nnodes = {names:?}\n{}\n",
            keys.written("edge", ", "),
            keys.written("edge", "\n"),
        );
        let mut processes = vec![start(link, Side::Cloud, scratch, "edge", &server).await?];
        for (number, name) in names.iter().enumerate() {
            let node = format!(
                "[node]\nname = \"{name}\"\n[http]\nlisten = []\n\
                 [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
                 [[output]]\nname = \"edge\"\nlink = {{ to = \"{far}:{LINK_PORT}\", {} }}\n\
                 [frames]\nlisten = \"{near}:{}\"\nserver = \"{far}:{FRAMES_PORT}\"\nto = \"edge\"\n{}\n\
                 [[camera]]\nname = \"{}\"\n{ladder}",
                keys.written(name, ", "),
                CAMERA_PORT + number as u16,
                keys.written(name, "\n"),
                camera(number),
            );
            processes.push(start(link, Side::Edge, scratch, name, &node).await?);
        }
        Ok(Rig { keys, _processes: processes.into_iter().map(Process::quietly).collect() })
    }

    /// Where a camera publishes.
    pub(super) fn camera_seat(&self, number: usize) -> anyhow::Result<Seat> {
        let address = SocketAddr::from((Side::Edge.address(), CAMERA_PORT + number as u16));
        Ok(Seat { address, tls: self.keys.client("client")? })
    }

    pub(super) fn server_seat(&self) -> anyhow::Result<Seat> {
        let address = SocketAddr::from((Side::Cloud.address(), FRAMES_PORT));
        Ok(Seat { address, tls: self.keys.client("client")? })
    }
}

async fn start(
    link: &Link,
    side: Side,
    scratch: &Scratch,
    name: &str,
    configuration: &str,
) -> anyhow::Result<Process> {
    let file = scratch.file(&format!("{name}.toml"), configuration)?;
    let mut command = link.command(side, tidegate_program()?);
    // A node without outputs has a folder for records where it is started.
    command.args(["run", "-c"]).arg(file).current_dir(scratch.path());
    let mut process = Process::start(name, command)?;
    process.says("ready", CONNECT).await?;
    Ok(process)
}
