//! A private authority of the test's own, in a folder that goes with it.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevocationReason,
    RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};

/// See the file's header.
pub(crate) struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// Files of one certificate.
#[derive(Clone, Debug)]
pub(crate) struct Issued {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Authority {
    /// A new one; `name` tells it from the others of the process.
    pub(crate) fn new(name: &str) -> Authority {
        let folder = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, format!("test authority {name}"));
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        std::fs::write(folder.join("ca.pem"), own.pem()).unwrap();
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    /// The file of its list, which revokes the certificates of these names from now on.
    pub(crate) fn revoke(&self, names: &[&str]) -> PathBuf {
        let revoked = |name: &&str| RevokedCertParams {
            serial_number: serial(name),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: Some(RevocationReason::KeyCompromise),
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(2048, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: names.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).unwrap();
        write(&self.folder, "crl", "pem", &list.pem().unwrap())
    }

    /// The file with its certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// A place for a file of the test's.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A certificate of `name` for loopback, good until 2048.
    pub(crate) fn issue(&self, name: &str) -> Issued {
        self.issue_until(name, 2048)
    }

    /// One for another address beside loopback.
    pub(crate) fn issue_for(&self, name: &str, address: &str) -> Issued {
        self.sign(name, 2048, &["127.0.0.1", "::1", address])
    }

    /// A certificate that is good until the first day of `year`.
    pub(crate) fn issue_until(&self, name: &str, year: i32) -> Issued {
        self.sign(name, year, &["127.0.0.1", "::1"])
    }

    fn sign(&self, name: &str, year: i32, addresses: &[&str]) -> Issued {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        for address in addresses {
            let address: IpAddr = address.parse().unwrap();
            params.subject_alt_names.push(SanType::IpAddress(address));
        }
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(serial(name));
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let write = |ending: &str, text: String| write(&self.folder, name, ending, &text);
        Issued {
            certificate: write("pem", certificate.pem()),
            key: write("key", key.serialize_pem()),
        }
    }
}

/// The serial number of the certificates of a name.
fn serial(name: &str) -> SerialNumber {
    let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    SerialNumber::from(name.bytes().fold(0xcbf2_9ce4_8422_2325, hash) >> 1)
}

fn write(folder: &Path, name: &str, ending: &str, text: &str) -> PathBuf {
    let file = folder.join(format!("{name}.{ending}"));
    std::fs::write(&file, text).unwrap();
    file
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
