//! Brokers that serve all clients of a benchmark, each in turn: data (`lab/brokers.toml`).

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use tidegate_testbed::free_address;

use crate::net::NetError;
use crate::rig::server::Server;
use crate::rig::versions::Program;

/// A broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BrokerSpec {
    pub(super) name: String,
    /// Its name in figures, where that is another one.
    figure: Option<String>,
    benches: Vec<String>,
    /// What it says of a message that it has acknowledged.
    #[serde(default)]
    pub(super) promise: String,
    pub(super) arguments: Vec<String>,
    /// It knows no `$share`.
    #[serde(default)]
    pub(super) has_no_groups: bool,
    settings: String,
}

/// Those of a benchmark, and where their programs are.
pub(super) fn all(bench: &str) -> Vec<(BrokerSpec, Result<PathBuf, NetError>)> {
    let all: BTreeMap<String, Vec<BrokerSpec>> =
        toml::from_str(include_str!("../../brokers.toml")).expect("a benchmark reads it");
    let all = all.into_values().flatten().filter(|one| one.benches.iter().any(|one| one == bench));
    all.map(|one| (one.clone(), Program::path_of(&one.name))).collect()
}

impl BrokerSpec {
    pub(super) fn is_ours(&self) -> bool {
        self.name == Program::Tidegate.name()
    }

    /// Its name in figures.
    pub(super) fn figure(&self) -> &str {
        self.figure.as_deref().unwrap_or(&self.name)
    }

    /// Starts it in a folder of its own, and waits until it takes connections.
    pub(super) fn launch(&self, path: &Path) -> io::Result<Server> {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let (by, before) = arguments.split_last().ok_or(io::ErrorKind::InvalidInput)?;
        let address = free_address();
        Server::launch_with((path, before), by, address, &self.settings(address), false)
    }

    /// Its settings, to serve at this address.
    pub(super) fn settings(&self, address: SocketAddr) -> String {
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        self.settings.replace("{ip}", &ip).replace("{port}", &port)
    }
}
