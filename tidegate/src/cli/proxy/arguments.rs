//! The command line of `tidegate proxy`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::cli::file::OptionalFile;

/// Arguments of `proxy`.
#[derive(Clone, Debug, Args)]
pub struct ProxyArguments {
    #[command(flatten)]
    /// The configuration, with `[proxy]` sections.
    pub file: OptionalFile,
    /// Without a file: where clients connect
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8080",
        conflicts_with = "OptionalFile"
    )]
    pub listen: SocketAddr,
    /// Without a file: host and port that requests go to
    #[arg(
        long,
        value_name = "HOST:PORT",
        required_unless_present = "OptionalFile",
        conflicts_with = "OptionalFile"
    )]
    pub to: Option<String>,
    /// Without a file: a script that sees requests and responses
    #[arg(long, value_name = "SCRIPT", conflicts_with = "OptionalFile")]
    pub script: Option<PathBuf>,
}

impl ProxyArguments {
    /// The configuration that they stand for.
    ///
    /// # Errors
    /// There is no address to go to.
    pub fn as_text(&self) -> anyhow::Result<String> {
        let to = self.to.as_deref().context("give --to HOST:PORT, or a file")?;
        let mut text = format!(
            "[[proxy.listener]]\nlisten = \"{}\"\n[[proxy.upstream]]\nname = \"upstream\"\nto = [{to:?}]\n\
             [[proxy.route]]\n",
            self.listen
        );
        if let Some(script) = &self.script {
            let file = script.display().to_string();
            text.push_str(&format!(
                "script = \"script\"\n[[script]]\nname = \"script\"\nfile = {file:?}\n"
            ));
        }
        Ok(text)
    }
}

/// Help of `tidegate proxy`.
pub(in crate::cli) const PROXY_HELP: &str = "\
Examples:
  tidegate proxy --to 127.0.0.1:3000                     8080 in front of a service
  tidegate proxy --to 127.0.0.1:3000 --script shed.luau  with a script over what waits
  tidegate proxy proxy.toml                              listeners, upstreams, routes, TLS

  # proxy.toml: requests of this machine to two detectors, the nearer one when the cloud is cut off
  [[proxy.listener]]
  listen = \"127.0.0.1:8080\"
  [[proxy.upstream]]
  name = \"cloud\"
  to = [\"detector.example:80\"]
  [[proxy.upstream]]
  name = \"edge\"
  to = [\"10.0.0.7:80\"]
  [[proxy.route]]
  to = \"cloud\"
  script = \"fallback\"
  down = \"wait\"
  [[script]]
  name = \"fallback\"
  file = \"/usr/share/tidegate/lua/fallback.luau\"
  parameters = { primary = \"cloud\", fallback = \"edge\" }

HTTP/1.1 and HTTP/2, gRPC and WebSocket; also where connections are led here by iptables (docs/PROXY.md).
A file or script that changes is read anew within a second; requests under way end as they began.
The first SIGINT (Ctrl-C) or SIGTERM takes no more connections and finishes what is under way for at
most node.stop_timeout; a second one ends at once.";
