//! A small private authority: a folder with `ca.pem`, `ca.key`, and a pair of files for each name.
//!
//! `ca.pem` holds every authority that is trusted, the newest first; `ca.key` signs for the newest.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SanType,
};
use rustls::pki_types::CertificateDer;

use super::{Certificate, Role, TlsError, certificates};
use crate::support::access::users::{name_is_good, replace};

/// Days that an authority is valid: it must outlive what it signs, and be rotated before its end.
const AUTHORITY_DAYS: u64 = 3650;
/// Clocks at the edge may be late by this.
const CLOCKS_DIFFER: Duration = Duration::from_secs(86_400);
const DAY: Duration = Duration::from_secs(86_400);
/// Modes of what everybody may read, and of private keys.
const PUBLIC: u32 = 0o644;
const PRIVATE: u32 = 0o600;

/// Why the authority cannot do it.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A file cannot be written or read.
    #[error("{}: {source}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// There is one already.
    #[error("{} is there already: `tidegate keys rotate` makes a new authority beside it", .0.display())]
    Exists(PathBuf),
    /// A certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The key does not belong to the newest authority.
    #[error("{}: not the key of the first certificate in ca.pem", .0.display())]
    Key(PathBuf),
    /// A name or host cannot be in a certificate.
    #[error("{name:?}: {what}")]
    Name {
        /// Which.
        name: String,
        /// What is wrong.
        what: &'static str,
    },
    /// Making it failed.
    #[error("making a certificate: {0}")]
    Making(#[from] rcgen::Error),
}

/// A folder of keys.
#[derive(Clone, Debug)]
pub struct Authority {
    folder: PathBuf,
}

/// What was issued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// File of the certificate.
    pub certificate: PathBuf,
    /// File of its private key.
    pub key: PathBuf,
    /// Days that it is valid: those that were asked for, or what the authority itself has left.
    pub days: u64,
}

impl Authority {
    /// The authority in a folder, there or not.
    pub fn at(folder: &Path) -> Authority {
        Authority { folder: folder.into() }
    }

    /// Makes the folder and a first authority.
    ///
    /// # Errors
    /// There is one, or a file cannot be written.
    pub fn init(&self) -> Result<(), AuthorityError> {
        if self.ca_key().exists() || self.ca().exists() {
            return Err(AuthorityError::Exists(self.folder.clone()));
        }
        std::fs::create_dir_all(&self.folder).map_err(failed(&self.folder))?;
        self.begin(&[])
    }

    /// Makes a new authority that signs from now on; the old ones stay trusted.
    ///
    /// # Errors
    /// There is none yet, or a file cannot be written.
    pub fn rotate(&self) -> Result<(), AuthorityError> {
        let old = certificates(&self.ca())?;
        self.begin(&old)
    }

    /// Trusts the newest authority only. Returns how many are forgotten.
    ///
    /// # Errors
    /// There is none yet, or a file cannot be written.
    pub fn forget(&self) -> Result<usize, AuthorityError> {
        let mut all = certificates(&self.ca())?;
        let forgotten = all.split_off(1).len();
        write(&self.ca(), &pem(&all), PUBLIC)?;
        Ok(forgotten)
    }

    /// Makes a key for `name` and signs its certificate. With `hosts` (names and addresses) it serves
    /// there; without, it is a client's only.
    ///
    /// # Errors
    /// There is no authority, the name cannot be used, or a file cannot be written.
    pub fn issue(&self, name: &str, hosts: &[String], days: u64) -> Result<Issued, AuthorityError> {
        self.issue_as(name, &[], hosts, days)
    }

    /// The same for one that may be these and nothing else.
    ///
    /// # Errors
    /// As [`Authority::issue`].
    pub fn issue_as(
        &self,
        name: &str,
        roles: &[Role],
        hosts: &[String],
        days: u64,
    ) -> Result<Issued, AuthorityError> {
        let wrong = |name: &str, what| AuthorityError::Name { name: name.into(), what };
        name_is_good(name).map_err(|what| wrong(name, what))?;
        if name == "ca" || name.starts_with('.') {
            return Err(wrong(name, "no name for a file of a key: take another"));
        }
        let (issuer, left) = self.issuer()?;
        let days = days.min(left);
        let mut params = valid_for(days, name);
        if !roles.is_empty() {
            params.distinguished_name.push(DnType::OrganizationalUnitName, Role::unit(roles));
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        for host in hosts {
            let san = match host.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => {
                    super::server_name(host)
                        .map_err(|_| wrong(host, "neither a host name nor an address"))?;
                    SanType::DnsName(host.as_str().try_into()?)
                }
            };
            params.subject_alt_names.push(san);
        }
        if !hosts.is_empty() {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = params.signed_by(&key, &issuer)?;
        let (file, key_file) = (self.file(name, "pem"), self.file(name, "key"));
        write(&key_file, &key.serialize_pem(), PRIVATE)?;
        write(&file, &certificate.pem(), PUBLIC)?;
        Ok(Issued { certificate: file, key: key_file, days })
    }

    /// Writes a new authority before the old ones.
    fn begin(&self, old: &[CertificateDer<'static>]) -> Result<(), AuthorityError> {
        // Whoever looks for the issuer of a certificate finds it by its name.
        let name = format!("Tidegate authority {}", since_1970());
        let mut params = valid_for(AUTHORITY_DAYS, &name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let own = params.self_signed(&key)?;
        let all = [&[own.der().clone()], old].concat();
        write(&self.ca_key(), &key.serialize_pem(), PRIVATE)?;
        write(&self.ca(), &pem(&all), PUBLIC)
    }

    /// Who signs now, and the days that it has left.
    fn issuer(&self) -> Result<(Issuer<'static, KeyPair>, u64), AuthorityError> {
        let all = certificates(&self.ca())?;
        let newest = Certificate::read(&all[0]).ok();
        let wrong = || AuthorityError::Key(self.ca_key());
        let text = std::fs::read_to_string(self.ca_key()).map_err(failed(&self.ca_key()))?;
        let key = KeyPair::from_pem(&text).map_err(|_| wrong())?;
        let public = key.der_bytes();
        if public.is_empty() || !all[0].windows(public.len()).any(|part| part == public) {
            return Err(wrong());
        }
        let newest = newest.ok_or_else(wrong)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = named(&newest.common_name.unwrap_or_default());
        let left = u64::try_from(newest.valid_until).unwrap_or(0).saturating_sub(since_1970());
        Ok((Issuer::new(params, key), left / DAY.as_secs()))
    }

    fn ca(&self) -> PathBuf {
        self.file("ca", "pem")
    }

    fn ca_key(&self) -> PathBuf {
        self.file("ca", "key")
    }

    fn file(&self, name: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{name}.{ending}"))
    }
}

/// A certificate of this name from a little before now.
fn valid_for(days: u64, name: &str) -> CertificateParams {
    let now = SystemTime::now();
    let mut params = CertificateParams::default();
    params.distinguished_name = named(name);
    params.not_before = (now - CLOCKS_DIFFER).into();
    params.not_after = (now + Duration::from_secs(days * DAY.as_secs())).into();
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn since_1970() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Certificates in PEM, by the lines of RFC 7468.
fn pem(all: &[CertificateDer<'static>]) -> String {
    use base64::Engine;
    /// Characters of a line.
    const LINE: usize = 64;
    let mut text = String::new();
    for certificate in all {
        let body = base64::engine::general_purpose::STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        let mut rest = body.as_str();
        while !rest.is_empty() {
            let (line, others) = rest.split_at(rest.len().min(LINE));
            text.push_str(line);
            text.push('\n');
            rest = others;
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

fn write(file: &Path, text: &str, mode: u32) -> Result<(), AuthorityError> {
    replace(file, text, mode).map_err(failed(file))
}

fn failed(file: &Path) -> impl Fn(io::Error) -> AuthorityError {
    move |source| AuthorityError::File { file: file.into(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::support::tls::{ClientFiles, ServerFiles, Stream, client, server, server_name};

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("tidegate-authority-{name}-{}", std::process::id());
            Folder(std::env::temp_dir().join(name))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn hosts() -> Vec<String> {
        vec!["localhost".into(), "127.0.0.1".into(), "::1".into()]
    }

    /// Whether a node and a client with these files agree on TLS.
    async fn agree(ca: &Path, node: &Issued, machine: &Issued) -> bool {
        let files = ServerFiles {
            certificate: node.certificate.clone(),
            key: node.key.clone(),
            client_ca: Some(ca.into()),
            crl: None,
        };
        let own = Some((machine.certificate.clone(), machine.key.clone()));
        let trust = client(&ClientFiles { ca: ca.into(), own }).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tcp = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let mut near = Stream::client(tcp, trust, server_name("127.0.0.1").unwrap()).unwrap();
        let mut far = Stream::server(far, server(&files).unwrap()).unwrap();
        let (near, far) = tokio::join!(near.handshake(), far.handshake());
        near.is_ok() && far.is_ok()
    }

    #[tokio::test]
    async fn what_is_issued_is_trusted_until_its_authority_is_forgotten() {
        let folder = Folder::new("whole");
        let authority = Authority::at(&folder.0);
        authority.init().unwrap();
        assert!(matches!(authority.init(), Err(AuthorityError::Exists(_))));
        let node = authority.issue("node", &hosts(), 365).unwrap();
        let machine = authority.issue("plc-7", &[], 90).unwrap();
        assert_eq!((node.days, machine.days), (365, 90));
        for file in [folder.0.join("ca.key"), node.key.clone()] {
            let mode = std::fs::metadata(file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let ca = folder.0.join("ca.pem");
        assert!(agree(&ca, &node, &machine).await);
        let [own, ..] = &certificates(&machine.certificate).unwrap()[..] else { panic!() };
        assert_eq!(Certificate::read(own).unwrap().common_name.as_deref(), Some("plc-7"));
        authority.rotate().unwrap();
        assert!(agree(&ca, &node, &machine).await, "both are trusted");
        let node = authority.issue("node", &hosts(), 365).unwrap();
        assert!(agree(&ca, &node, &machine).await, "old and new meet");
        assert_eq!(authority.forget().unwrap(), 1);
        assert!(!agree(&ca, &node, &machine).await);
        let machine = authority.issue("plc-7", &[], 90).unwrap();
        assert!(agree(&ca, &node, &machine).await);
        assert!(!agree(&ca, &machine, &node).await, "a client's certificate serves nowhere");
    }

    #[test]
    fn a_certificate_says_what_its_holder_may_be() {
        let folder = Folder::new("roles");
        let authority = Authority::at(&folder.0);
        authority.init().unwrap();
        let read = |issued: Issued| {
            Certificate::read(&certificates(&issued.certificate).unwrap()[0]).unwrap()
        };
        let both = [Role::Operator, Role::Node];
        let node = read(authority.issue_as("gate-7", &both, &hosts(), 9).unwrap());
        assert_eq!(node.common_name.as_deref(), Some("gate-7"));
        assert_eq!(node.roles, [Role::Node, Role::Operator]);
        assert!(node.may_be(Role::Operator) && !node.may_be(Role::Orchestrator));
        let old = read(authority.issue("gate-8", &hosts(), 9).unwrap());
        assert!(old.roles.is_empty() && old.may_be(Role::Node));
    }

    #[test]
    fn nothing_outlives_its_authority_and_names_are_checked() {
        let folder = Folder::new("names");
        let authority = Authority::at(&folder.0);
        assert!(matches!(authority.issue("a", &[], 1), Err(AuthorityError::Tls(_))));
        authority.init().unwrap();
        let days = authority.issue("a", &[], 100_000).unwrap().days;
        assert!((AUTHORITY_DAYS - 1..=AUTHORITY_DAYS).contains(&days), "{days}");
        for name in ["ca", "../a", ".a", ""] {
            assert!(matches!(authority.issue(name, &[], 1), Err(AuthorityError::Name { .. })));
        }
        assert!(authority.issue("a", &["a b".into()], 1).is_err());
        let key = KeyPair::generate().unwrap();
        std::fs::write(folder.0.join("ca.key"), key.serialize_pem()).unwrap();
        assert!(matches!(authority.issue("a", &[], 1), Err(AuthorityError::Key(_))));
    }
}
