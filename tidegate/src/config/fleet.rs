//! `[fleet]` of a node, and the file of an orchestrator.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::Deserialize;
use tidegate_fleet::FleetOptions;

use super::links::LinkInputConfig;
use super::units::{BitRate, Listen, Period};
use super::{Config, InputConfig, OutputConfig};
use crate::output::link::LinkOutputConfig;
use crate::support::tls::grpc::FleetTls;

/// `[fleet]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetConfig {
    /// `host:port` of every orchestrator; without one, and without a standing permit, the node is part of no fleet.
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
    /// `host:port` by which neighbours find `listen`: with it neighbours are found by themselves.
    pub advertise: Option<String>,
    /// Nodes of one site reach each other.
    pub site: Option<String>,
    /// How many neighbours that were found it keeps links to at once.
    pub places: Option<usize>,
    /// Every `[[fleet.peer]]`.
    pub peer: Vec<PeerConfig>,
}

/// Places where the configuration does not say: a busy node rarely needs more lenders at once.
const PLACES: usize = 4;
/// Places at most: each is an output of the node.
pub const PLACES_MAX: usize = 8;

/// `[[fleet.peer]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PeerConfig {
    /// The peer's name, as in its certificate.
    pub name: Option<String>,
    /// `host:port` of its `[fleet] listen`.
    pub to: Option<String>,
    /// What the two may always send by each other, of all classes but the last: the same at both.
    pub standing: Option<BitRate>,
}

/// Name of the output of a place for a neighbour that is found.
fn place_label(place: usize) -> String {
    format!("neighbour {}", place + 1)
}

/// Name of the output that leads to a peer.
pub fn peer_label(name: &str) -> String {
    format!("peer {name}")
}

impl FleetConfig {
    /// Whether the node is part of a fleet.
    pub fn is_set(&self) -> bool {
        !self.orchestrators.is_empty() || self.peer.iter().any(|peer| peer.standing.is_some())
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

    /// Links to the peers that are named, and places for neighbours that are found.
    fn links(&self) -> impl Iterator<Item = OutputConfig> + '_ {
        let peer = |peer: &PeerConfig| {
            let name = peer.name.as_deref().unwrap_or_default();
            self.link(peer_label(name), peer.to.clone(), false)
        };
        let places = if self.advertise.is_some() { self.places.unwrap_or(PLACES) } else { 0 };
        let place = |place| self.link(place_label(place), None, true);
        self.peer.iter().map(peer).chain((0..places).map(place))
    }

    fn link(&self, label: String, to: Option<String>, is_place: bool) -> OutputConfig {
        let FleetConfig { ca, certificate, key, .. } = self.clone();
        let is_peer = true;
        let link = LinkOutputConfig {
            to,
            ca,
            certificate,
            key,
            is_peer,
            is_place,
            ..LinkOutputConfig::default()
        };
        OutputConfig {
            name: Some(label.clone()),
            link: Some(link),
            uplink: Some(label),
            ..OutputConfig::default()
        }
    }

    fn listener(&self) -> InputConfig {
        let FleetConfig { listen, ca, certificate, key, .. } = self.clone();
        // Who is found may be anybody of the fleet: its authority vouches for them.
        let names = || self.peer.iter().filter_map(|peer| peer.name.clone()).collect();
        let from = self.advertise.is_none().then(names);
        let link = LinkInputConfig {
            listen,
            ca,
            certificate,
            key,
            from,
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
            config.output.extend(fleet.links());
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
    /// Where its metrics are read over HTTP; nowhere if left out.
    pub http: Option<SocketAddr>,
    /// Names by which they are asked for, beside addresses, localhost and the machine's own name.
    pub http_hosts: Vec<String>,
    /// PEM file with the authorities of which one must have signed everybody's certificate.
    pub ca: Option<PathBuf>,
    /// PEM file with its certificate.
    pub certificate: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
    /// Names in certificates that may drain nodes; all with the role `operator` if left out.
    pub operators: Vec<String>,
    /// Names in certificates that may attend as nodes; all if left out.
    pub nodes: Vec<String>,
    /// Whether every certificate must say by a role what its holder may be.
    pub roles: Roles,
    /// What a node's uplink has at most.
    pub uplink_max: BitRate,
    /// How long standing permits last unless they are renewed; zero: there are none.
    pub standing: Period,
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

/// `roles` of `[orchestrator]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Roles {
    /// Certificates without roles may do all but drain.
    #[default]
    Optional,
    /// They may do nothing.
    Required,
}

impl Default for OrchestratorConfig {
    fn default() -> Self {
        OrchestratorConfig {
            listen: Listen(vec![([0, 0, 0, 0], 7400).into()]),
            http: None,
            http_hosts: Vec::new(),
            ca: None,
            certificate: None,
            key: None,
            operators: Vec::new(),
            nodes: Vec::new(),
            roles: Roles::default(),
            uplink_max: BitRate(FleetOptions::default().uplink_max.rate()),
            standing: Period(FleetOptions::default().standing_lease),
            classes: 3,
            matching: None,
            etcd: Vec::new(),
            advertise: None,
            fleet: "default".into(),
        }
    }
}
