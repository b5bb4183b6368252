//! `[fleet]` of a node, and the file of an orchestrator.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use tidegate_core::fleet::FleetOptions;
use tidegate_core::limits::CLASSES_MAX;

use super::links::{LinkInputConfig, LinkOutputConfig};
use super::outputs::host_and_port;
use super::units::Listen;
use super::{Config, InputConfig, OutputConfig};
use crate::fleet::FleetTls;
use crate::fleet::orchestrate::{Lead, OrchestrateOptions};

/// `[fleet]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetConfig {
    /// `host:port` of every orchestrator; without one the node is part of no fleet.
    pub orchestrators: Vec<String>,
    /// Name of the output whose records neighbours may carry; the first one if left out.
    pub output: Option<String>,
    /// Where neighbours dial.
    pub listen: Option<Listen>,
    /// PEM file with the authorities of which one must have signed the certificates of all others.
    pub ca: Option<PathBuf>,
    /// PEM file with the certificate of this node; its common name is the node's name.
    pub certificate: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
    /// Every `[[fleet.peer]]`.
    pub peer: Vec<PeerConfig>,
}

/// `[[fleet.peer]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeerConfig {
    /// The peer's name, as in its certificate.
    pub name: Option<String>,
    /// `host:port` of its `[fleet] listen`.
    pub to: Option<String>,
}

/// Name of the output that leads to a peer.
pub fn peer_label(name: &str) -> String {
    format!("peer {name}")
}

impl FleetConfig {
    /// Whether the node is part of a fleet.
    pub fn is_set(&self) -> bool {
        !self.orchestrators.is_empty()
    }

    /// The files of its TLS, if all are given.
    pub fn tls(&self) -> Option<FleetTls> {
        let FleetConfig { ca, certificate, key, .. } = self.clone();
        Some(FleetTls { ca: ca?, certificate: certificate?, key: key? })
    }

    /// Place of its output among all.
    pub fn seat(&self, outputs: &[OutputConfig]) -> Option<usize> {
        match &self.output {
            None => (!outputs.is_empty()).then_some(0),
            Some(name) => outputs.iter().position(|output| output.label() == name),
        }
    }

    fn link_to(&self, peer: &PeerConfig) -> OutputConfig {
        let FleetConfig { ca, certificate, key, .. } = self.clone();
        let (name, to) = (peer.name.clone().unwrap_or_default(), peer.to.clone());
        let link =
            LinkOutputConfig { to, ca, certificate, key, is_peer: true, ..Default::default() };
        OutputConfig {
            name: Some(peer_label(&name)),
            link: Some(link),
            uplink: Some(peer_label(&name)),
            ..OutputConfig::default()
        }
    }

    fn listener(&self) -> InputConfig {
        let FleetConfig { listen, ca, certificate, key, .. } = self.clone();
        let from = self.peer.iter().filter_map(|peer| peer.name.clone()).collect();
        let link = LinkInputConfig {
            listen,
            ca,
            certificate,
            key,
            from: Some(from),
            relays: true,
            ..Default::default()
        };
        InputConfig { link: Some(link), ..InputConfig::default() }
    }
}

impl Config {
    /// The configuration with the outputs and the input that its fleet needs, after all others: a node of
    /// no fleet stays as it is. To be called once, on a completed one.
    pub fn with_peers(&self) -> Config {
        let mut config = self.clone();
        if config.fleet.is_set() {
            let fleet = &self.fleet;
            config.output.extend(fleet.peer.iter().map(|peer| fleet.link_to(peer)));
            config.input.push(fleet.listener());
        }
        config
    }
}

/// The file of `tidegate orchestrate`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrchestrateConfig {
    /// `[orchestrator]`.
    pub orchestrator: OrchestratorConfig,
}

/// `[orchestrator]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OrchestratorConfig {
    /// Where nodes and people come.
    pub listen: Listen,
    /// PEM file with the authorities of which one must have signed everybody's certificate.
    pub ca: Option<PathBuf>,
    /// PEM file with its certificate.
    pub certificate: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
    /// Names in certificates that may drain nodes; all if left out.
    pub operators: Vec<String>,
    /// Classes of every node.
    pub classes: usize,
    /// How shortage meets spare bandwidth.
    pub matching: Option<String>,
    /// Addresses of etcd's members, where it is one of several orchestrators.
    pub etcd: Vec<String>,
    /// `host:port` where people and the other orchestrators find it.
    pub advertise: Option<String>,
    /// Name of the fleet: several fleets may use one etcd.
    pub fleet: String,
}

impl TryFrom<OrchestratorConfig> for OrchestrateOptions {
    type Error = anyhow::Error;

    fn try_from(config: OrchestratorConfig) -> anyhow::Result<Self> {
        let missing = "[orchestrator] needs ca, certificate and key: `tidegate keys` makes them";
        let OrchestratorConfig { ca, certificate, key, .. } = config;
        let (ca, certificate, key) = (|| Some((ca?, certificate?, key?)))().context(missing)?;
        let mut fleet = FleetOptions { classes: config.classes, ..FleetOptions::default() };
        if let Some(name) = config.matching {
            fleet.matching = name.parse().map_err(anyhow::Error::msg)?;
        }
        ensure!(
            (1..=CLASSES_MAX).contains(&fleet.classes),
            "[orchestrator] classes: 1 to {CLASSES_MAX}"
        );
        let lead = match (config.etcd, config.advertise) {
            (etcd, None) if etcd.is_empty() => Lead::Alone(None),
            (etcd, Some(_)) if etcd.is_empty() => {
                bail!("[orchestrator] advertise is for several orchestrators: give etcd too")
            }
            (_, None) => bail!(
                "[orchestrator] etcd: the others must find this one: give \
                 advertise = \"orch-1.example:7400\", a name in its certificate"
            ),
            (etcd, Some(address)) => {
                let is_good = matches!(host_and_port(&address), Some((_, Some(_))));
                ensure!(
                    is_good,
                    "[orchestrator] advertise: {address:?} is no host and port: write \
                     \"orch-1.example:7400\""
                );
                let name = config.fleet;
                ensure!(
                    !name.is_empty() && !name.contains('/'),
                    "[orchestrator] fleet: a name without \"/\""
                );
                Lead::Elected { etcd, address, name }
            }
        };
        Ok(OrchestrateOptions {
            listen: config.listen.0,
            tls: FleetTls { ca, certificate, key },
            operators: config.operators,
            fleet,
            lead,
        })
    }
}

impl Default for OrchestratorConfig {
    fn default() -> Self {
        OrchestratorConfig {
            listen: Listen(vec![([0, 0, 0, 0], 7400).into()]),
            ca: None,
            certificate: None,
            key: None,
            operators: Vec::new(),
            classes: 3,
            matching: None,
            etcd: Vec::new(),
            advertise: None,
            fleet: "default".into(),
        }
    }
}
