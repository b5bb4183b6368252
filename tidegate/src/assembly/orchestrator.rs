//! The file of an orchestrator, read as a node's is: every mistake with its line.

use super::files::server_side;
use super::trial::{Tried, attempt_addresses};
use crate::config::check::{Finding, Findings};
use crate::config::places::Place;
use crate::config::{OrchestrateConfig, Reading, read_tree};
use crate::keys::values::Value;
use crate::services::fleet::orchestrate::OrchestrateOptions;
use crate::support::tls::ServerFiles;

/// The only section.
const SECTION: &str = "orchestrator";

/// Reads and checks the text of an orchestrator's file.
pub fn read_orchestrator(text: &str) -> Reading<OrchestrateConfig> {
    read_tree(text, &mut |config| meaning(config))
}

/// The same, with the files that it names, and its addresses where `tried` counts them.
pub fn read_orchestrator_here(
    text: &str,
    mut tried: Option<&mut Tried>,
) -> Reading<OrchestrateConfig> {
    read_tree(text, &mut |config| {
        let mut findings = Findings(meaning(config));
        files(config, &mut findings);
        if let Some(tried) = tried.as_deref_mut() {
            let place = |key: &str| Place::section(SECTION).to(key);
            let listen = config.orchestrator.listen.0.iter().map(|one| (place("listen"), *one));
            let http = config.orchestrator.http.iter().map(|one| (place("http"), *one));
            attempt_addresses(&listen.chain(http).collect::<Vec<_>>(), tried, &mut findings);
        }
        findings.0
    })
}

fn meaning(config: &OrchestrateConfig) -> Vec<Finding> {
    let mut findings = Findings::default();
    Value::check(config, &Place::default(), &mut findings);
    if let Err(error) = OrchestrateOptions::try_from(config.orchestrator.clone()) {
        let text = format!("{error:#}");
        // What serves the start names the section; here the place does.
        let text = text.strip_prefix("[orchestrator] ").unwrap_or(&text);
        let (key, text) = match text.split_once(": ") {
            Some((key @ ("classes" | "etcd" | "advertise" | "fleet"), text)) => (Some(key), text),
            _ => (None, text),
        };
        let section = Place::section(SECTION);
        findings.error(key.map_or(section.clone(), |key| section.to(key)), text);
    }
    findings.0
}

fn files(config: &OrchestrateConfig, findings: &mut Findings) {
    let config = &config.orchestrator;
    let (Some(ca), Some(certificate), Some(key)) = (&config.ca, &config.certificate, &config.key)
    else {
        return;
    };
    let files = ServerFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_ca: Some(ca.clone()),
        crl: None,
    };
    server_side(&files, &Place::section(SECTION), findings);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        read_orchestrator(text).render("fleet.toml", text)
    }

    #[test]
    fn every_mistake_has_its_line() {
        let said = told("[orchestrator]\nlisten = \"127.0.0.1:7400\"\nclases = 3\n");
        assert!(
            said.contains("fleet.toml:3:1: error: orchestrator: unknown key \"clases\""),
            "{said}"
        );
        assert!(said.contains("did you mean \"classes\""), "{said}");
        assert!(!said.contains("needs ca"), "it may only follow: {said}");
        let said = told("[orchestrator]\nclasses = 3\n");
        assert!(said.contains("error: orchestrator: needs ca, certificate and key"), "{said}");
        let files = "ca = \"a\"\ncertificate = \"b\"\nkey = \"c\"\n";
        assert_eq!(told(&format!("[orchestrator]\n{files}")), "");
        let said = told(&format!("[orchestrator]\n{files}classes = 99\n"));
        assert!(said.starts_with("fleet.toml:5:11: error: orchestrator.classes: "), "{said}");
        let said = told(&format!("[orchestrator]\n{files}standing = \"25h\"\n"));
        assert!(said.starts_with("fleet.toml:5:12: error: orchestrator.standing: "), "{said}");
        assert_eq!(told(&format!("[orchestrator]\n{files}standing = \"24h\"\n")), "");
    }

    #[test]
    fn its_files_are_looked_at() {
        let text = "[orchestrator]\nca = \"/nowhere/ca.pem\"\ncertificate = \"/nowhere/o.pem\"\n\
                    key = \"/nowhere/o.key\"\n";
        let said = read_orchestrator_here(text, None).render("fleet.toml", text);
        assert!(said.contains("/nowhere/o.pem: No such file"), "{said}");
    }
}
