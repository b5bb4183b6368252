//! The commands of a fleet.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::file::RequiredFile;
use crate::cli::log::LogPlace;

/// Arguments of `orchestrate`.
#[derive(Clone, Debug, Args)]
pub struct OrchestrateArguments {
    #[command(flatten)]
    /// Its configuration.
    pub file: RequiredFile,
    /// Only tell whether the configuration is right, as `tidegate check` does
    #[arg(long)]
    pub check: bool,
}

pub(in crate::cli) const ORCHESTRATE_HELP: &str = "\
A file for it:
  [orchestrator]
  listen = [\"0.0.0.0:7400\", \"[::]:7400\"]
  ca = \"/etc/tidegate/pki/ca.pem\"
  certificate = \"/etc/tidegate/pki/orchestrator.pem\"
  key = \"/etc/tidegate/pki/orchestrator.key\"
  operators = [\"ops\"]          # who may drain nodes; default: certificates with --role operator
  nodes = [\"gate-1\", \"gate-2\"] # who may attend; default: every certificate that may be a node
  roles = \"optional\"           # \"required\": certificates without a role may do nothing
  uplink_max = \"10gbit\"        # who claims more of its uplink is not believed
  standing = \"10m\"            # how long standing permits last unless they are renewed; \"0s\": there are none
  classes = 3                  # those of every node
  matching = \"augment\"         # how shortage meets spare bandwidth
  http = \"127.0.0.1:7401\"      # /metrics, /healthz and /readyz; nowhere if left out
  http_hosts = [\"orch-1.example\"] # names by which they are asked for, beside addresses and the machine's own

Nothing is stored: a new process hears from the nodes what they hold. Without one, nodes go on
alone. SIGINT or SIGTERM stops it.

Several of them, so that one may fail (an odd number of etcd's members, one beside each, say):
  advertise = \"orch-1.example:7400\"                   # of this one; a name in its certificate
  etcd = [\"https://etcd-1.example:2379\", \"https://etcd-2.example:2379\", ...]
  fleet = \"default\"                                 # fleets of one etcd have different names

One leads, by a key in etcd with a lease of 2 s; the others stand by and follow it within 3 s. Name
all of them in each node's [fleet] orchestrators. etcd shows and gets certificates of the same
authority.";

/// Arguments of `fleet`.
#[derive(Clone, Debug, Args)]
pub struct FleetArguments {
    /// The file of a node of the fleet or of an orchestrator, which says the next four
    #[arg(short, long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// The orchestrator [default: the first that the file names, or localhost:7400]
    #[arg(long, value_name = "HOST:PORT", global = true)]
    pub at: Option<String>,
    /// Authorities that signed its certificate [default: the file's, or /etc/tidegate/pki/ca.pem]
    #[arg(long, value_name = "FILE", global = true)]
    pub ca: Option<PathBuf>,
    /// Your certificate [default: the file's, or /etc/tidegate/pki/ops.pem]
    #[arg(long, value_name = "FILE", global = true)]
    pub certificate: Option<PathBuf>,
    /// Its key [default: the file's, or /etc/tidegate/pki/ops.key]
    #[arg(long, value_name = "FILE", global = true)]
    pub key: Option<PathBuf>,
    #[command(subcommand)]
    /// What to ask.
    pub command: FleetCommand,
}

/// What can be asked.
#[derive(Clone, Debug, Subcommand)]
pub enum FleetCommand {
    /// Every node: what its uplink carries, what it wants, lends and borrows
    Status {
        /// The same as -c
        #[arg(value_name = "FILE", conflicts_with = "config")]
        file: Option<PathBuf>,
    },
    /// Every grant, and what is carried of it
    Grants {
        /// The same as -c
        #[arg(value_name = "FILE", conflicts_with = "config")]
        file: Option<PathBuf>,
    },
    /// Why a node borrows and lends what it does, or why a record went by a neighbour
    Explain(ExplainFleetArguments),
    /// Let a node lend nothing, and its borrowers leave it: before maintenance
    Drain {
        /// The node's name
        node: String,
        /// Let it take part again
        #[arg(long)]
        undo: bool,
    },
}

/// Arguments of `fleet explain`.
#[derive(Clone, Debug, Args)]
pub struct ExplainFleetArguments {
    /// The node's name; or a record, NODE/INCARNATION/STREAM/SEQ, with the log of its node
    #[arg(value_name = "NODE-OR-RECORD")]
    pub what: String,
    /// The folder of the log, for a record
    #[arg(short, long, conflicts_with = "config")]
    pub directory: Option<PathBuf>,
    #[command(flatten)]
    /// Which log.
    pub place: LogPlace,
}

pub(in crate::cli) const FLEET_HELP: &str = "\
Examples:
  tidegate fleet status --at orch-1.example:7400   any orchestrator: it names the leader
  tidegate fleet status node.toml        where and as whom a node asks
  tidegate fleet explain gate-3          why its records go where they go
  tidegate fleet explain gate-3/1c9f5a0be7d20c11/12/345 -c node.toml
                                         why this one went by a neighbour: on its node
  tidegate fleet drain gate-2            before it is taken down; --undo afterwards

You prove who you are by a certificate of the fleet's authority:\n  tidegate keys issue pki ops --role operator";
