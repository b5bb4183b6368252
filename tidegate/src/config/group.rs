//! `[group]` and `[[placed]]`: nodes that are one broker for some topics.

use std::net::IpAddr;
use std::path::PathBuf;

use super::Config;
use super::units::Listen;
use crate::keys::table::keys;
use crate::keys::url::host_and_port;
use crate::support::tls::{ClientFiles, ServerFiles};

keys! {
    /// `[group]`; without `members` there is none.
    pub struct GroupConfig: Eq {
        /// Where the other members dial. Required in a group.
        pub listen: Option<Listen>; sample("0.0.0.0:7446"),
        /// The other members. Required in a group.
        pub members: Vec<MemberConfig> = Vec::new();
            sample(r#"[{ name = "gate-8", address = "gate-8.example:7446", clients = "gate-8.example:1883" }]"#),
        /// File in which it is remembered who owns what. Default: nowhere; then the others tell after a restart.
        pub state: Option<PathBuf>; sample("/var/lib/tidegate/group"),
        /// Authorities of all certificates. Default: that of [fleet], as for the next two. A group on one machine needs
        /// none.
        pub ca: Option<PathBuf>; sample("/etc/tidegate/pki/ca.pem"),
        /// The certificate of this node; its common name is the node's name.
        pub certificate: Option<PathBuf>; sample("/etc/tidegate/pki/gate-7.pem"),
        /// Its private key.
        pub key: Option<PathBuf>; sample("/etc/tidegate/pki/gate-7.key"),
    }
}

keys! {
    /// One of `members`.
    pub struct MemberConfig: Eq {
        /// Its [node] name.
        pub name: Option<String>; required(),
        /// Host and port of its [group] listen.
        pub address: Option<String>; required(),
        /// What MQTT 5 publishers are told to use when their topics are there.
        pub clients: Option<String>,
    }
}

impl MemberConfig {
    /// Host and port.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn far(&self) -> Result<(String, u16), String> {
        const EXAMPLE: &str = "write \"host:port\", as in \"gate-8.example:7446\"";
        let text = self.address.as_deref().unwrap_or_default();
        match host_and_port(text) {
            Some((host, Some(port))) => Ok((host.into(), port)),
            _ => Err(format!("{text:?} is no host and port: {EXAMPLE}")),
        }
    }
}

keys! {
    /// `[[placed]]`: topics that move together.
    pub struct PlacedConfig: Eq {
        /// By which `tidegate move` and plans know them.
        pub name: Option<String>; required() sample("taxi-7"),
        /// Filters of what operators read and of what they write.
        pub topics: Vec<String> = Vec::new();
            required() sample(r#"["taxi/gps/7", "taxi/update/7"]"#),
        /// Which node owns them at first.
        pub owner: Option<String>; required() sample("gate-7"),
    }
}

impl Config {
    /// The files of the group's TLS: authorities, certificate and key.
    pub fn group_files(&self) -> [Option<PathBuf>; 3] {
        let Config { group, fleet, .. } = self;
        [(&group.ca, &fleet.ca), (&group.certificate, &fleet.certificate), (&group.key, &fleet.key)]
            .map(|(own, of_fleet)| own.clone().or_else(|| of_fleet.clone()))
    }

    /// What a member shows to another one, and what it asks of it, if all files are given.
    pub fn group_tls(&self) -> Option<(ClientFiles, ServerFiles)> {
        let [ca, certificate, key] = self.group_files();
        let (ca, certificate, key) = (ca?, certificate?, key?);
        let own = Some((certificate.clone(), key.clone()));
        let client = ClientFiles { ca: ca.clone(), own };
        Some((client, ServerFiles { certificate, key, client_ca: Some(ca), crl: None }))
    }

    /// Whether all members are processes of this machine.
    pub fn group_is_here(&self) -> bool {
        let listen = self.group.listen.iter().flat_map(|listen| &listen.0);
        let here = |host: &str| host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        listen.into_iter().all(|address| address.ip().is_loopback())
            && self.group.members.iter().all(|member| {
                member.far().is_ok_and(|(host, _)| here(&host) || host == "localhost")
            })
    }
}
