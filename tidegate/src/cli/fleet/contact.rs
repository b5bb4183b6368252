//! Which orchestrator is asked, and as whom: what the command line says, else what a file says.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::arguments::{FleetArguments, FleetCommand};
use crate::assembly::read_orchestrator;
use crate::config::{Config, FileKind, FleetConfig, OrchestratorConfig, read, read_file};
use crate::services::fleet::FleetTls;

/// Where and as whom a file would ask; what it does not say is left to the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Contact {
    at: Option<String>,
    files: [Option<PathBuf>; 3],
}

/// The orchestrator, and what is shown to it.
///
/// # Errors
/// The file cannot be read, or tells of no fleet.
pub(super) fn whom(arguments: &FleetArguments) -> anyhow::Result<(String, FleetTls)> {
    let file = match &arguments.command {
        FleetCommand::Status { file } | FleetCommand::Grants { file } => file.as_ref(),
        FleetCommand::Explain(asked) => asked.place.config.as_ref(),
        FleetCommand::Drain { .. } => None,
    };
    let file = file.or(arguments.config.as_ref());
    let said = file.map(|file| of_file(file)).transpose()?.unwrap_or_default();
    let [ca, certificate, key] = said.files;
    let pick = |given: &Option<PathBuf>, said: Option<PathBuf>, default: &str| {
        given.clone().or(said).unwrap_or_else(|| Path::new("/etc/tidegate/pki").join(default))
    };
    let tls = FleetTls {
        ca: pick(&arguments.ca, ca, "ca.pem"),
        certificate: pick(&arguments.certificate, certificate, "ops.pem"),
        key: pick(&arguments.key, key, "ops.key"),
    };
    let at = arguments.at.clone().or(said.at);
    Ok((at.unwrap_or_else(|| "localhost:7400".into()), tls))
}

fn of_file(file: &Path) -> anyhow::Result<Contact> {
    let text = read_file(file).map_err(anyhow::Error::msg)?;
    let name = file.display().to_string();
    if FileKind::of(file, &text) == FileKind::Orchestrator {
        let reading = read_orchestrator(&text);
        anyhow::ensure!(reading.counts().0 == 0, "{}", reading.render(&name, &text));
        return Ok(of_orchestrator(reading.config.orchestrator));
    }
    let reading = read(&text);
    anyhow::ensure!(reading.counts().0 == 0, "{}", reading.render(&name, &text));
    let Config { fleet, .. } = reading.config;
    anyhow::ensure!(fleet.is_set(), "{name}: has no [fleet]: name an orchestrator by --at");
    Ok(of_node(fleet))
}

fn of_node(fleet: FleetConfig) -> Contact {
    let FleetConfig { orchestrators, ca, certificate, key, .. } = fleet;
    Contact { at: orchestrators.into_iter().next(), files: [ca, certificate, key] }
}

fn of_orchestrator(orchestrator: OrchestratorConfig) -> Contact {
    let OrchestratorConfig { listen, advertise, ca, certificate, key, .. } = orchestrator;
    let own = |address: &SocketAddr| match address.ip().is_unspecified() {
        true => format!("localhost:{}", address.port()),
        false => address.to_string(),
    };
    let at = advertise.or_else(|| listen.0.first().map(own));
    Contact { at, files: [ca, certificate, key] }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn whom_of(arguments: &[&str]) -> anyhow::Result<(String, FleetTls)> {
        let all = ["tidegate", "fleet"].iter().chain(arguments);
        let Command::Fleet(arguments) = Cli::try_parse_from(all)?.command else {
            panic!("not this command");
        };
        whom(&arguments)
    }

    #[test]
    fn a_file_says_whom_to_ask_and_the_command_line_says_it_better() {
        let folder = std::env::temp_dir();
        let file = |name: &str, text: &str| {
            let file = folder.join(format!("tidegate-contact-{}-{name}", std::process::id()));
            std::fs::write(&file, text).unwrap();
            file.display().to_string()
        };
        let files = "ca = \"a\"\ncertificate = \"b\"\nkey = \"c\"\n";
        let fleet = "[fleet]\norchestrators = [\"orch-1:7400\"]\nlisten = \"127.0.0.1:7444\"\n";
        let node = file("node.toml", &format!("{fleet}{files}"));
        let listen = "[orchestrator]\nlisten = [\"0.0.0.0:7411\"]\n";
        let orchestrator = file("fleet.toml", &format!("{listen}{files}"));
        let other = file("other.toml", "[node]\nname = \"a\"\n");
        for way in [
            &["status", &node][..],
            &["status", "-c", &node],
            &["-c", &node, "grants"],
            &["explain", "gate-3", "-c", &node],
            &["drain", "gate-2", "-c", &node],
        ] {
            let (at, tls) = whom_of(way).unwrap();
            assert_eq!((at.as_str(), tls.key), ("orch-1:7400", PathBuf::from("c")), "{way:?}");
        }
        let (at, tls) = whom_of(&["status", &orchestrator, "--key", "mine"]).unwrap();
        assert_eq!((at.as_str(), tls.key), ("localhost:7411", PathBuf::from("mine")));
        assert_eq!(tls.ca, PathBuf::from("a"));
        let (at, tls) = whom_of(&["status"]).unwrap();
        assert_eq!(
            (at.as_str(), tls.ca.as_path()),
            ("localhost:7400", Path::new("/etc/tidegate/pki/ca.pem"))
        );
        let error = whom_of(&["status", &other]).unwrap_err().to_string();
        assert!(error.contains("has no [fleet]"), "{error}");
        for file in [node, orchestrator, other] {
            std::fs::remove_file(file).unwrap();
        }
    }
}
