//! `[mirror]`: our log at a neighbour, and neighbours' logs here.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use tidegate_types::units::Size;

use super::Config;
use super::units::{ByteSize, Listen, Period};
use crate::keys::url::host_and_port;
use crate::support::tls::{ClientFiles, ServerFiles};

/// `[mirror]`; without `to` and `listen` there is none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MirrorConfig {
    /// `host:port` of the node that keeps our log a second time.
    pub to: Option<String>,
    /// Where other nodes bring theirs.
    pub listen: Option<Listen>,
    /// Names of the nodes that may; all with a certificate if empty.
    pub from: Vec<String>,
    /// Folder of their logs.
    pub directory: Option<PathBuf>,
    /// How long one may be away before its records are sent from here.
    pub after: Period,
    /// Bound on the bytes of their logs together.
    pub bound: ByteSize,
    /// PEM file with the authorities of which one must have signed the other nodes' certificates; that of
    /// `[fleet]` if left out, as the other two.
    pub ca: Option<PathBuf>,
    /// PEM file with the certificate of this node; its common name is the node's name.
    pub certificate: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
}

impl Default for MirrorConfig {
    fn default() -> Self {
        MirrorConfig {
            to: None,
            listen: None,
            from: Vec::new(),
            directory: None,
            after: Period(Duration::from_secs(10)),
            bound: ByteSize(Size::from_mib(1024)),
            ca: None,
            certificate: None,
            key: None,
        }
    }
}

impl MirrorConfig {
    /// Host and port of the keeper.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn far(&self) -> Result<Option<(String, u16)>, String> {
        const EXAMPLE: &str =
            "write \"host:port\", as in \"gate-8.example:7445\" or \"[2001:db8::1]:7445\"";
        let Some(text) = self.to.as_deref() else { return Ok(None) };
        match host_and_port(text) {
            Some((host, Some(port))) => Ok(Some((host.into(), port))),
            Some((_, None)) => Err(format!("{text:?} has no port: {EXAMPLE}")),
            None => Err(format!("{text:?} is no host and port: {EXAMPLE}")),
        }
    }
}

impl Config {
    /// The files of the mirror's TLS: authorities, certificate and key.
    pub fn mirror_files(&self) -> [Option<PathBuf>; 3] {
        let Config { mirror, fleet, .. } = self;
        [
            (&mirror.ca, &fleet.ca),
            (&mirror.certificate, &fleet.certificate),
            (&mirror.key, &fleet.key),
        ]
        .map(|(own, of_fleet)| own.clone().or_else(|| of_fleet.clone()))
    }

    /// What the owner of a log shows and asks for, if all files are given.
    pub fn mirror_client(&self) -> Option<ClientFiles> {
        let [ca, certificate, key] = self.mirror_files();
        Some(ClientFiles { ca: ca?, own: Some((certificate?, key?)) })
    }

    /// What the keeper of logs shows and asks for, if all files are given.
    pub fn mirror_server(&self) -> Option<ServerFiles> {
        let [ca, certificate, key] = self.mirror_files();
        Some(ServerFiles { certificate: certificate?, key: key?, client_ca: Some(ca?) })
    }
}
