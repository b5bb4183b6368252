//! `[fleet]` of a node, and the file of an orchestrator.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_fleet::{FleetOptions, MatchingName};

use super::links::LinkInputConfig;
use super::units::{BitRate, Listen, Period};
use super::{Config, InputConfig, OutputConfig};
use crate::keys::table::{choices, keys};
use crate::keys::values::{Choice, Shape};
use crate::output::link::LinkOutputConfig;
use crate::support::tls::grpc::FleetTls;

keys! {
    /// `[fleet]`.
    pub struct FleetConfig {
        /// Host and port of every orchestrator. Default: none; without a standing permit of a neighbour it is then in no
        /// fleet.
        pub orchestrators: Vec<String> = Vec::new(); sample(r#"["orch-1.example:7400"]"#),
        /// The output whose records neighbours may carry, and to which theirs go. Default: the first.
        pub output: Option<String>; sample("cloud"),
        /// Where neighbours dial, by UDP and TCP. Required in a fleet.
        pub listen: Option<Listen>; sample("0.0.0.0:7444"),
        /// Authorities of all certificates. Required in a fleet.
        pub ca: Option<PathBuf>; sample("/etc/tidegate/pki/ca.pem"),
        /// The certificate of this node; its common name is the node's name. Required in a fleet.
        pub certificate: Option<PathBuf>; sample("/etc/tidegate/pki/gate-7.pem"),
        /// Its private key. Required in a fleet.
        pub key: Option<PathBuf>; sample("/etc/tidegate/pki/gate-7.key"),
        /// Host and port by which neighbours find listen: with it neighbours are found by themselves, and every node
        /// whose certificate is good may be one. Default: none, only those named below.
        pub advertise: Option<String>; sample("gate-7.example:7444"),
        /// Only nodes of the same site are named to each other: those that reach each other. Default: one site for all
        /// that name none.
        pub site: Option<String>; sample("hall-3"),
        /// How many neighbours that were found it keeps links to at once; a link is opened when the uplink is short,
        /// and closed a minute after its last use.
        pub places: Option<usize>;
            usually(PLACES) at_most(PLACES_MAX, "each is an output of the node"),
        /// A neighbour: it may carry records for us, and we for it.
        pub peer: Vec<PeerConfig> = Vec::new(),
    }
}

/// Places where the configuration does not say: a busy node rarely needs more lenders at once.
const PLACES: usize = 4;
/// Places at most: each is an output of the node.
pub const PLACES_MAX: usize = 8;
/// Shortest lease of a grant: a leader's lease, the next election, and a directive.
const LEASE_MIN: Duration = Duration::from_secs(4);
/// Longest lease of a grant that a node believes.
pub const LEASE_MAX: Duration = Duration::from_secs(60);
/// Shortest silence: two beats.
const SILENCE_MIN: Duration = Duration::from_secs(2);
/// Longest lease of a standing permit that a node believes.
pub const STANDING_MAX: Duration = Duration::from_secs(24 * 3600);

keys! {
    /// `[[fleet.peer]]`.
    pub struct PeerConfig {
        /// Its name, as in its certificate.
        pub name: Option<String>; required() sample("gate-8"),
        /// Host and port of its [fleet] listen.
        pub to: Option<String>; required() sample("gate-8.example:7444"),
        /// What the two may always send by each other, of all classes but the last, whoever leads: the same at both. A
        /// node honours a tenth of what its uplink carries, all neighbours together. Default: what the leader gives.
        pub standing: Option<BitRate>; sample("200kbit"),
        /// Whether its output leads to the edge server of this node's cameras: else it carries no frames for us.
        pub frames: bool = false,
    }
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

keys! {
    /// The file of `tidegate orchestrate`.
    pub struct OrchestrateConfig {
        /// It leads a fleet: it tells nodes which neighbour carries what their uplink cannot (docs/howto/fleet.md).
        pub orchestrator: OrchestratorConfig = OrchestratorConfig::default(); restarts(),
    }
}

keys! {
    /// `[orchestrator]`.
    pub struct OrchestratorConfig {
        /// Where nodes and people come: one address or a list.
        pub listen: Listen = Listen(vec![([0, 0, 0, 0], 7400).into()]),
        /// Where its /metrics, /healthz and /readyz are read. Default: nowhere.
        pub http: Option<SocketAddr>; sample("127.0.0.1:7401"),
        /// Names by which they are asked for, beside addresses, localhost and the machine's own name. Default: none.
        pub http_hosts: Vec<String> = Vec::new(); sample(r#"["orch-1.example"]"#),
        /// Authorities of everybody's certificate.
        pub ca: Option<PathBuf>; required() sample("/etc/tidegate/pki/ca.pem"),
        /// Its certificate.
        pub certificate: Option<PathBuf>; required() sample("/etc/tidegate/pki/orch-1.pem"),
        /// Its private key.
        pub key: Option<PathBuf>; required() sample("/etc/tidegate/pki/orch-1.key"),
        /// Names in certificates that may drain nodes. Default: all with the role operator.
        pub operators: Vec<String> = Vec::new(); sample(r#"["ops"]"#),
        /// Names in certificates that may attend as nodes. Default: all.
        pub nodes: Vec<String> = Vec::new(); sample(r#"["gate-7"]"#),
        /// Whether every certificate must say by a role what its holder may be.
        pub roles: Roles = Roles::Optional,
        /// What a node's uplink has at most.
        pub uplink_max: BitRate = BitRate(FleetOptions::default().uplink_max.rate()),
        /// How long standing permits last unless they are renewed; zero: there are none.
        pub standing: Period = Period(FleetOptions::default().standing_lease);
            at_most(Period(STANDING_MAX), "nodes hold no permit for longer than a day"),
        /// Part of a node's uplink that is not lent anew: what it wants moves by some per cent from one beat to the next, and
        /// each such surprise would take a grant back (docs/algorithms-fleet.md#keys).
        pub headroom: f64 = FleetOptions::default().headroom.as_f64();
            between(0.0, 0.9, "is a part of the uplink: give a number from 0 to 0.9, such as 0.05"),
        /// How long a grant lasts unless it is renewed: longer than it takes until another orchestrator leads (3 s), and
        /// no longer than the uplink of a node that nobody reaches any more may stay lent.
        pub lease: Period = Period(FleetOptions::default().lease);
            between(Period(LEASE_MIN), Period(LEASE_MAX), "is 4 s to a minute: less ends before another leads"),
        /// Time without a word after which a node is gone, and its grants with it: nodes speak once a second, so it is
        /// three words lost.
        pub silence: Period = Period(FleetOptions::default().silence);
            between(Period(SILENCE_MIN), Period(LEASE_MAX), "is 2 s to a minute: nodes speak once a second"),
        /// How long two nodes of which one did not help the other are left alone: a trial costs 2 s of redirection in
        /// vain, which is 3 % of a minute.
        pub apart: Period = Period(FleetOptions::default().apart);
            at_most(Period(STANDING_MAX), "nodes that share an uplink for a day are parted by hand"),
        /// Classes of every node.
        pub classes: usize = 3,
        /// How shortage meets spare bandwidth.
        pub matching: Option<String>;
            usually(MatchingName::default().name().to_owned()) one_of(matchings),
        /// Addresses of etcd's members, where it is one of several orchestrators. Default: it is the only one.
        pub etcd: Vec<String> = Vec::new(); sample(r#"["https://etcd-1.example:2379"]"#),
        /// Host and port where people and the other orchestrators find it. Required with etcd.
        pub advertise: Option<String>; sample("orch-1.example:7400"),
        /// Name of the fleet: several fleets may use one etcd.
        pub fleet: String = "default".into(),
    }
}

fn matchings() -> Shape {
    Shape::Choice(MatchingName::ALL.map(|one| Choice::new(one.name(), &[one.about()])).to_vec())
}

choices! {
    /// `roles` of `[orchestrator]`.
    pub enum Roles: Copy, Eq {
        /// Certificates without roles may do all but drain.
        Optional = "optional",
        /// They may do nothing.
        Required = "required",
    }
}
