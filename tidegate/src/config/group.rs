//! `[group]` and `[[placed]]`: nodes that are one broker for some topics.

use std::net::IpAddr;
use std::path::PathBuf;

use serde::Deserialize;

use super::Config;
use super::units::Listen;
use crate::keys::url::host_and_port;
use crate::support::tls::{ClientFiles, ServerFiles};

/// `[group]`; without `members` there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GroupConfig {
    /// Where the other members dial.
    pub listen: Option<Listen>,
    /// The other members.
    pub members: Vec<MemberConfig>,
    /// File in which it is remembered who owns what.
    pub state: Option<PathBuf>,
    /// PEM file with the authorities of which one must have signed the members' certificates; that of
    /// `[fleet]` if left out, as the other two.
    pub ca: Option<PathBuf>,
    /// PEM file with the certificate of this node; its common name is the node's name.
    pub certificate: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
}

/// One of `members`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MemberConfig {
    /// Its node's name.
    pub name: Option<String>,
    /// `host:port` of its `[group] listen`.
    pub address: Option<String>,
    /// Where clients of MQTT 5 are told to go when their topics are there.
    pub clients: Option<String>,
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

/// `[[placed]]`: topics that move together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlacedConfig {
    /// Its name.
    pub name: Option<String>,
    /// Filters of the topics.
    pub topics: Vec<String>,
    /// Who owns them at first.
    pub owner: Option<String>,
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
        Some((client, ServerFiles { certificate, key, client_ca: Some(ca) }))
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
