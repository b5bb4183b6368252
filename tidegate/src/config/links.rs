//! The `link` table of an `[[input]]`, where other nodes dial.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tidegate_link::claims::VouchPolicy;
use tidegate_types::units::Size;

use super::units::{ByteSize, Listen};
use crate::keys::table::{choices, keys};
use crate::support::tls::ServerFiles;

/// Least window of a receiving end.
pub(super) const WINDOW_MIN: Size = Size::from_kib(128);

keys! {
    /// `link` of an `[[input]]`.
    pub struct LinkInputConfig: Eq {
        /// One address or a list, of UDP, and of TCP for those whose UDP is blocked.
        pub listen: Option<Listen>; required() sample(r#"["0.0.0.0:7443", "[::]:7443"]"#),
        /// Authorities of the other end's certificate.
        pub ca: Option<PathBuf>; required() sample("ca.pem"),
        /// The certificate of this node.
        pub certificate: Option<PathBuf>; required() sample("node.pem"),
        /// Its private key.
        pub key: Option<PathBuf>; required() sample("node.key"),
        /// Names in certificates that may come. Default: all whose certificate is from ca.
        pub from: Option<Vec<String>>; apart(r#"["gate-7"]"#),
        /// Whose records a node may bring under their own names, beside its own: one that relays. "*" is everybody.
        /// Such names count as proven.
        pub vouches: BTreeMap<String, Vec<String>> = BTreeMap::new();
            apart(r#"{ relay-1 = ["gate-7"], hub = ["*"] }"#),
        /// What becomes of a record that bears the name of another node than the one whose certificate came, without
        /// proof.
        pub unproven: Unproven = Unproven::Take,
        /// Bytes of records of one node that are on their way or not accepted yet.
        pub window: ByteSize = ByteSize(Size::from_mib(16));
            at_least(ByteSize(WINDOW_MIN), "too small for any link"),
        /// Whether to listen on TCP as well.
        pub tcp: bool = true,
        inner {
            /// Whether neighbours' records come by it (`[fleet] listen`).
            pub relays: bool,
        }
    }
}

choices! {
    /// `unproven` of a `link`.
    pub enum Unproven: Copy, Eq {
        /// It is taken, told and counted; it never stands for a rightful one.
        Take = "take",
        /// It is dropped by its sender with the reason refused.
        Refuse = "refuse",
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
        Some(ServerFiles { certificate, key, client_ca: Some(self.ca.clone()?), crl: None })
    }
}
