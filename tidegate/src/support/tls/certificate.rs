//! What Tidegate asks of a certificate itself: whose it is, what its holder may be, and until when.
//!
//! Whether it is genuine is rustls's question. Here it is only read (X.509, RFC 5280, 4.1, in DER).

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// What a certificate says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Common name of its subject; `None` where it has none, or not exactly one.
    pub common_name: Option<String>,
    /// What its holder may be; empty where it was issued without roles.
    pub roles: Vec<Role>,
    /// Seconds since 1970 before which it is not valid.
    pub valid_from: i64,
    /// Seconds since 1970 after which it is not valid.
    pub valid_until: i64,
}

tidegate_types::named! {
    /// What the holder of a certificate may be: an organizational unit of its subject, as `tidegate:node,operator`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
    pub enum Role {
        /// A node: of links, mirrors, groups and fleets.
        Node = "node",
        /// An orchestrator of a fleet.
        Orchestrator = "orchestrator",
        /// A person or program that asks an orchestrator about its fleet, and drains nodes.
        Operator = "operator",
        /// A client that publishes and subscribes.
        Client = "client",
    }
}

impl Role {
    /// Roles as they stand in a subject.
    pub(super) fn unit(roles: &[Role]) -> String {
        let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        format!("{UNIT}{}", names.join(","))
    }
}

/// The bytes are no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a certificate (X.509 in DER)")]
pub struct CertificateError;

/// Units that are roles begin so.
const UNIT: &str = "tidegate:";
impl Certificate {
    /// Reads the DER bytes of a certificate.
    ///
    /// # Errors
    /// They are none.
    pub fn read(der: &[u8]) -> Result<Certificate, CertificateError> {
        let (_, read) = X509Certificate::from_der(der).map_err(|_| CertificateError)?;
        let subject = read.subject();
        // A second common name could be meant for another reader.
        let mut names = subject.iter_common_name().map(|name| name.as_str().ok());
        let common_name = match (names.next(), names.next()) {
            (Some(only), None) => only.map(str::to_owned),
            _ => None,
        };
        let units = subject.iter_organizational_unit().filter_map(|unit| unit.as_str().ok());
        let units = units.filter_map(|unit| unit.strip_prefix(UNIT));
        let names: Vec<&str> = units.flat_map(|unit| unit.split(',')).collect();
        let is_there = |role: &Role| names.contains(&role.name());
        let roles = Role::ALL.into_iter().filter(is_there).collect();
        let validity = read.validity();
        let (valid_from, valid_until) =
            (validity.not_before.timestamp(), validity.not_after.timestamp());
        Ok(Certificate { common_name, roles, valid_from, valid_until })
    }

    /// Whether its holder may be this. One without roles is of a time before there were any, or of another
    /// authority: it may be everything that need not be asked for.
    pub fn may_be(&self, role: Role) -> bool {
        self.roles.is_empty() || self.roles.contains(&role)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    fn made(names: &[&str]) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for name in names {
            params.distinguished_name.push(DnType::CommonName, *name);
        }
        params.distinguished_name.push(DnType::OrganizationName, "plant");
        params.not_before = date_time_ymd(2024, 2, 29);
        params.not_after = date_time_ymd(2051, 3, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn name_and_times_are_read() {
        let read = Certificate::read(&made(&["plc-7"])).unwrap();
        assert_eq!(read.common_name.as_deref(), Some("plc-7"));
        // date -u -d 2024-02-29 +%s, and 2051-03-01
        assert_eq!((read.valid_from, read.valid_until), (1_709_164_800, 2561241600));
        assert_eq!(Certificate::read(&made(&[])).unwrap().common_name, None);
    }

    #[test]
    fn golden_certificates_say_what_they_said() {
        let pem = include_str!("golden.pem");
        let ders = CertificateDer::pem_slice_iter(pem.as_bytes());
        let read: Vec<Certificate> =
            ders.map(|der| Certificate::read(&der.unwrap()).unwrap()).collect();
        let node_and_operator = vec![Role::Node, Role::Operator];
        let said = [
            (Some("anlage-\u{fc}7"), vec![]),
            (Some("plc-7"), vec![]),
            // Text of 16 bits a character, two names, several values in one part, none.
            (None, vec![]),
            (None, vec![]),
            (Some("edge-1"), node_and_operator),
            (Some("edge-2"), vec![Role::Client]),
            (None, vec![]),
        ];
        assert_eq!(read.len(), said.len());
        for (read, (name, roles)) in read.iter().zip(said) {
            assert_eq!((read.common_name.as_deref(), &read.roles), (name, &roles));
            assert_eq!(read.valid_from, 1_795_645_924, "2026-11-25T22:32:04Z");
        }
        assert_eq!(read[0].valid_until - read[0].valid_from, 3_650 * 86_400);
        assert_eq!(read[1].valid_until - read[1].valid_from, 20_000 * 86_400, "with four digits");
    }

    #[test]
    fn any_bytes_are_answered() {
        let good = made(&["plc-7"]);
        for end in 0..good.len() {
            assert!(Certificate::read(&good[..end]).is_err(), "{end}");
        }
        for place in 0..good.len() {
            for value in [0, 0x30, 0x80, 0x84, 0xFF] {
                let mut bytes = good.clone();
                bytes[place] = value;
                let _ = Certificate::read(&bytes);
            }
        }
    }
}
