//! The `link` table of an `[[input]]`, where other nodes dial.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use tidegate_link::claims::VouchPolicy;
use tidegate_types::units::Size;

use super::units::{ByteSize, Listen};
use crate::support::tls::ServerFiles;

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
