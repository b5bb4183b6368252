//! The command lines of `tidegate ext-proc` and `tidegate envoy-config`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::file::{OptionalFile, RequiredFile};

/// Arguments of `ext-proc`.
#[derive(Clone, Debug, Args)]
pub struct ExtProcArguments {
    /// The configuration, with `[proxy]` sections: its listeners are where Envoy comes
    #[command(flatten)]
    pub file: OptionalFile,
    /// Without a file: where Envoy comes
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9002",
        conflicts_with = "OptionalFile"
    )]
    pub listen: SocketAddr,
    /// Without a file: a script that sees requests and responses
    #[arg(
        long,
        value_name = "SCRIPT",
        required_unless_present = "OptionalFile",
        conflicts_with = "OptionalFile"
    )]
    pub script: Option<PathBuf>,
}

impl ExtProcArguments {
    /// The configuration that they stand for: every request goes where Envoy's routes say.
    ///
    /// # Errors
    /// There is no script.
    pub fn as_text(&self) -> anyhow::Result<String> {
        let script = self.script.as_ref().context("give --script SCRIPT, or a file")?;
        let file = script.display().to_string();
        Ok(format!(
            "[[proxy.listener]]\nlisten = \"{}\"\n[[proxy.upstream]]\nname = \"envoy\"\n\
             to = [\"original\"]\n[[proxy.route]]\nscript = \"script\"\n\
             [[script]]\nname = \"script\"\nfile = {file:?}\n",
            self.listen
        ))
    }
}

/// Help of `tidegate ext-proc`.
pub const EXT_PROC_HELP: &str = "\
Examples:
  tidegate ext-proc --script shed.luau       Envoy's messages wait here, and its routes stand
  tidegate ext-proc -c proxy.toml            with upstreams, routes and bounds as the proxy has them
  tidegate envoy-config -c proxy.toml        Envoy's side of it

The file is that of tidegate proxy. A listener is where Envoy comes by gRPC; an upstream is Envoy's
cluster of the same name, or, with to = [\"original\"], wherever Envoy's own routes lead. See
docs/PROXY.md. Signals and changed scripts are taken as tidegate proxy takes them.";

/// Which messages of a pod wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    /// What comes to it
    #[default]
    Inbound,
    /// What it sends
    Outbound,
}

impl Direction {
    /// As Istio calls it.
    pub fn context(self) -> &'static str {
        match self {
            Direction::Inbound => "SIDECAR_INBOUND",
            Direction::Outbound => "SIDECAR_OUTBOUND",
        }
    }
}

/// Arguments of `envoy-config`.
#[derive(Clone, Debug, Args)]
pub struct EnvoyConfigArguments {
    #[command(flatten)]
    /// The configuration of `tidegate ext-proc`.
    pub file: RequiredFile,
    /// Look at an Envoy configuration, or at manifests with parts of one, instead of writing one
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
    /// Where Envoy's clients connect
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:10000")]
    pub listen: SocketAddr,
    /// Let messages pass the queues where the processor does not answer; else they are refused
    #[arg(long)]
    pub pass_when_absent: bool,
    /// Write manifests for Istio: a ConfigMap and an EnvoyFilter
    #[arg(long, conflicts_with = "check")]
    pub istio: bool,
    /// With --istio: name of the manifests, and of the label of pods that take part
    #[arg(long, value_name = "NAME", default_value = "tidegate")]
    pub name: String,
    /// With --istio: which messages wait
    #[arg(long, value_name = "WHICH", default_value = "inbound")]
    pub direction: Direction,
}

/// Help of `tidegate envoy-config`.
pub const ENVOY_CONFIG_HELP: &str = "\
Examples:
  tidegate envoy-config -c proxy.toml > envoy.yaml         an Envoy that stands alone
  tidegate envoy-config -c proxy.toml --check envoy.yaml   what in it would defeat the queues
  tidegate envoy-config -c proxy.toml --istio | kubectl apply -f -

Envoy holds a message for 200 ms by default and then answers 504, or lets it pass the queues. Exits
with 0 if --check finds no error, with 1 if it finds one.";
