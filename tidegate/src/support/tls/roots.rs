//! The public authorities that this system trusts: the bundle that its packages keep.
//!
//! Read by hand and not by a crate (docs/decisions/0104): on Linux it is one file at one of a few places.

use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::{TlsError, read};

/// The variable by which OpenSSL and others are told another bundle.
const VARIABLE: &str = "SSL_CERT_FILE";
/// Debian, Alpine, Arch; Fedora, RHEL; openSUSE; RHEL of old; Alpine of old.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// The system's bundle: the one that `SSL_CERT_FILE` names, or the first that is there. Where there is none, the
/// first place at which one is expected.
pub fn system_bundle() -> PathBuf {
    let named = std::env::var_os(VARIABLE).map(PathBuf::from);
    let there = || BUNDLES.iter().map(PathBuf::from).find(|file| file.exists());
    named.or_else(there).unwrap_or_else(|| BUNDLES[0].into())
}

/// The authorities of the system's bundle. Those that cannot be read are left out: bundles of thirty years have odd
/// ones among them.
///
/// # Errors
/// There is no such file, or no authority in it.
pub(super) fn of_system(file: &Path) -> Result<RootCertStore, TlsError> {
    let none = |what: &str| TlsError::Other {
        file: file.into(),
        what: format!(
            "{what}, and no ca is given: give ca = \"ca.pem\", or install the public authorities (Debian: \
             ca-certificates)"
        ),
    };
    if !file.exists() {
        return Err(none("no public authorities are here"));
    }
    let text = read(file)?;
    let mut roots = RootCertStore::empty();
    let all = CertificateDer::pem_slice_iter(&text).filter_map(Result::ok);
    roots.add_parsable_certificates(all);
    if roots.is_empty() { Err(none("holds no authority")) } else { Ok(roots) }
}
