//! What an orchestrator is made of, and how its file says it.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use tidegate_fleet::{Amount, FleetOptions};
use tidegate_types::limits::CLASSES_MAX;
use tidegate_types::units::Ratio;

use crate::config::fleet::{OrchestratorConfig, Roles};
use crate::keys::url::host_and_port;
use crate::support::tls::grpc::FleetTls;

/// What an orchestrator is made of.
#[derive(Clone, Debug)]
pub struct OrchestrateOptions {
    /// Where nodes and people come.
    pub listen: Vec<SocketAddr>,
    /// Where its metrics are read, if anywhere.
    pub http: Option<SocketAddr>,
    /// Names by which they are asked for.
    pub http_hosts: Vec<String>,
    /// What it shows, and whom it believes.
    pub tls: FleetTls,
    /// Names in certificates that may drain nodes; where it is empty, those with the role.
    pub operators: Vec<String>,
    /// Names in certificates that may attend; all with the role where it is empty.
    pub nodes: Vec<String>,
    /// Whether certificates without roles may do nothing.
    pub needs_roles: bool,
    /// How it decides.
    pub fleet: FleetOptions,
    /// How it comes to lead.
    pub lead: Lead,
}

/// How an orchestrator comes to lead.
#[derive(Clone, Debug)]
pub enum Lead {
    /// It is the only one: at once. Its revision is the time of its start, unless it is given.
    Alone(Option<u64>),
    /// One of several leads: whoever has a key in etcd.
    Elected {
        /// Addresses of etcd's members, with `http://` or `https://`.
        etcd: Vec<String>,
        /// `host:port` where people and the others find this one.
        address: String,
        /// Name of the fleet: several may use one etcd.
        name: String,
    },
}

impl OrchestrateOptions {
    /// Whether its files can be used.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn check(&self) -> anyhow::Result<()> {
        self.tls.server()?;
        Ok(())
    }
}

impl TryFrom<OrchestratorConfig> for OrchestrateOptions {
    type Error = anyhow::Error;

    fn try_from(config: OrchestratorConfig) -> anyhow::Result<Self> {
        let missing = "[orchestrator] needs ca, certificate and key: `tidegate keys` makes them";
        let OrchestratorConfig { ca, certificate, key, .. } = config;
        let (ca, certificate, key) = (|| Some((ca?, certificate?, key?)))().context(missing)?;
        let uplink_max = Amount::of(config.uplink_max.0);
        let mut fleet = FleetOptions {
            classes: config.classes,
            uplink_max,
            headroom: Ratio::new(config.headroom),
            lease: config.lease.0,
            silence: config.silence.0,
            apart: config.apart.0,
            standing_lease: config.standing.0,
            ..FleetOptions::default()
        };
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
            http: config.http,
            http_hosts: config.http_hosts,
            tls: FleetTls { ca, certificate, key },
            operators: config.operators,
            nodes: config.nodes,
            needs_roles: config.roles == Roles::Required,
            fleet,
            lead,
        })
    }
}
