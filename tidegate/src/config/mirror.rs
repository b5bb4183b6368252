//! `[mirror]`: our log at a neighbour, and neighbours' logs here.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_types::units::Size;

use super::Config;
use super::units::{ByteSize, Listen, Period};
use crate::keys::table::keys;
use crate::keys::url::host_and_port;
use crate::support::tls::{ClientFiles, ServerFiles};

/// Least time that a node may be away: it says once a second that it lives.
const AFTER_MIN: Duration = Duration::from_secs(3);

keys! {
    /// `[mirror]`; without `to` and `listen` there is none.
    pub struct MirrorConfig: Eq {
        /// Host and port of the [mirror] listen that keeps this node's log. Default: none.
        pub to: Option<String>; sample("gate-8.example:7445"),
        /// Where other nodes bring their logs. Default: nowhere.
        pub listen: Option<Listen>; sample("0.0.0.0:7445"),
        /// Names of nodes that may. Default: all with a certificate.
        pub from: Vec<String> = Vec::new(); sample(r#"["gate-8"]"#),
        /// Folder of their logs. A sealed log stays sealed: give its key to [log] old_key_files, or this node can keep
        /// it and not send it. Required where something is listened on.
        pub directory: Option<PathBuf>; sample("/var/lib/tidegate/mirror"),
        /// How long a node may be away before its records are sent from here, marked as records that may have arrived.
        /// Longer than its restart takes.
        pub after: Period = Period(Duration::from_secs(10));
            at_least(Period(AFTER_MIN), "too short to tell a node that is gone from one that is slow"),
        /// Bytes of all their logs together.
        pub bound: ByteSize = ByteSize(Size::from_mib(1024)),
        /// Authorities of all certificates. Default: that of [fleet], as for the next two.
        pub ca: Option<PathBuf>; sample("/etc/tidegate/pki/ca.pem"),
        /// The certificate of this node; its common name is the node's name.
        pub certificate: Option<PathBuf>; sample("/etc/tidegate/pki/gate-7.pem"),
        /// Its private key.
        pub key: Option<PathBuf>; sample("/etc/tidegate/pki/gate-7.key"),
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
        Some(ServerFiles { certificate: certificate?, key: key?, client_ca: Some(ca?), crl: None })
    }
}
