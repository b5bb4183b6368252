//! The `link` tables of the configuration: of an `[[output]]` that dials, and of an `[[input]]` that
//! listens.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Deserialize;
use tidegate_link::claims::VouchPolicy;
use tidegate_link::path_scheduler::PathSchedulerName;
use tidegate_link::{GUARD_SHARE, RedundancyName};
use tidegate_types::units::{Ratio, Size};

use super::units::{ByteSize, Listen};
use crate::link::Binding;
use crate::tls::{ClientFiles, ServerFiles};

/// `link` of an `[[output]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkOutputConfig {
    /// `host:port` of the far node's link input.
    pub to: Option<String>,
    /// Interfaces or addresses, one a path; one path by the routing table if left out.
    pub paths: Option<Vec<String>>,
    /// PEM file with the authorities of which one must have signed the far node's certificate.
    pub ca: Option<PathBuf>,
    /// PEM file with the certificate of this node.
    pub certificate: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
    /// Which path takes the next packet.
    pub schedule: Option<String>,
    /// How far the link goes for records for whose repeat there is no time.
    pub guard: Option<String>,
    /// What that may cost, for each byte of a record.
    pub guard_share: Option<f64>,
    /// Whether TCP stands in.
    pub tcp: Tcp,
    /// Whether it leads to a neighbour that relays (`[[fleet.peer]]`).
    #[serde(skip)]
    pub is_peer: bool,
    /// Whether it dials neighbours that the leader names, one after the other.
    #[serde(skip)]
    pub is_place: bool,
}

/// `tcp` of a `link`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tcp {
    /// Where UDP is blocked.
    #[default]
    Auto,
    /// Not at all.
    Never,
    /// In place of UDP.
    Always,
}

impl LinkOutputConfig {
    /// Host and port.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub fn far(&self) -> Result<(String, u16), String> {
        const EXAMPLE: &str =
            "write \"host:port\", as in \"hq.example:7443\" or \"[2001:db8::1]:7443\"";
        let text = self.to.as_deref().ok_or("no far node: give to = \"hq.example:7443\"")?;
        match super::outputs::host_and_port(text) {
            Some((host, Some(port))) => Ok((host.into(), port)),
            Some((_, None)) => Err(format!("{text:?} has no port: {EXAMPLE}")),
            None => Err(format!("{text:?} is no host and port: {EXAMPLE}")),
        }
    }

    /// Its paths, in order.
    ///
    /// # Errors
    /// The place of the first that is none, and what is wrong.
    pub fn bindings(&self) -> Result<Vec<Binding>, (usize, String)> {
        let Some(paths) = &self.paths else { return Ok(vec![Binding::Route]) };
        let binding = |(place, text): (usize, &String)| {
            Binding::from_str(text).map_err(|error| (place, error))
        };
        paths.iter().enumerate().map(binding).collect()
    }

    /// Which path takes the next packet.
    ///
    /// # Errors
    /// No schedule has the name.
    pub fn schedule(&self) -> Result<PathSchedulerName, String> {
        self.schedule.as_deref().map_or(Ok(PathSchedulerName::default()), str::parse)
    }

    /// How records for whose repeat there is no time are guarded, and what that may cost.
    ///
    /// # Errors
    /// The key, and what is wrong: no guard has the name, or the share is not in [0, 1].
    pub fn guard(&self) -> Result<(RedundancyName, Ratio), (&'static str, String)> {
        let name = self.guard.as_deref().map_or(Ok(RedundancyName::default()), str::parse);
        let name = name.map_err(|error| ("guard", error))?;
        let share = self.guard_share.unwrap_or(GUARD_SHARE);
        if !(0.0..=1.0).contains(&share) {
            return Err(("guard_share", format!("{share} is no share: give 0 to 1, as in 0.45")));
        }
        Ok((name, Ratio::new(share)))
    }

    /// The files of its TLS, if all are given.
    pub fn tls_files(&self) -> Option<ClientFiles> {
        let own = self.certificate.clone().zip(self.key.clone())?;
        Some(ClientFiles { ca: self.ca.clone()?, own: Some(own) })
    }
}

/// `link` of an `[[input]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkInputConfig {
    /// Where other nodes dial, by UDP and TCP.
    pub listen: Option<Listen>,
    /// PEM file with the authorities of which one must have signed the other nodes' certificates.
    pub ca: Option<PathBuf>,
    /// PEM file with the certificate of this node.
    pub certificate: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
    /// Names in certificates that may come; all if left out.
    pub from: Option<Vec<String>>,
    /// Names of origins that a node may give its records beside its own, by the name of that node.
    pub vouches: BTreeMap<String, Vec<String>>,
    /// What becomes of records whose name is not proven.
    pub unproven: Unproven,
    /// Bytes of records of one node that are on their way or not accepted yet.
    pub window: ByteSize,
    /// Whether TCP is listened on too.
    pub tcp: bool,
    /// Whether neighbours' records come by it (`[fleet] listen`).
    #[serde(skip)]
    pub relays: bool,
}

/// `unproven` of a `link`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unproven {
    /// They are taken, told and counted: nodes of earlier versions prove nothing of whom they relay for.
    #[default]
    Take,
    /// They are refused.
    Refuse,
}

impl Default for LinkInputConfig {
    fn default() -> Self {
        LinkInputConfig {
            listen: None,
            ca: None,
            certificate: None,
            key: None,
            from: None,
            vouches: BTreeMap::new(),
            unproven: Unproven::default(),
            window: ByteSize(Size::from_mib(16)),
            tcp: true,
            relays: false,
        }
    }
}

impl LinkInputConfig {
    /// What is asked of the names that nodes give their records.
    pub fn vouching(&self) -> VouchPolicy {
        let is_strict = self.unproven == Unproven::Refuse;
        VouchPolicy { is_strict, vouches: self.vouches.clone() }
    }

    /// The files of its TLS, if all are given.
    pub fn tls_files(&self) -> Option<ServerFiles> {
        let (certificate, key) = (self.certificate.clone()?, self.key.clone()?);
        Some(ServerFiles { certificate, key, client_ca: Some(self.ca.clone()?) })
    }
}
