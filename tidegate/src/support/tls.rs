//! TLS 1.2 and 1.3, of listeners and of outputs: rustls with ring, certificates from PEM files.
//!
//! [`Stream`] is a TCP connection with or without TLS. It works by readiness like the socket beneath, so
//! that whoever writes still knows how much was handed to the kernel, and holds back the rest.

pub mod authority;
mod certificate;
mod chain;
mod dialing;
pub(crate) mod grpc;
pub(crate) mod private;
mod roots;
mod second;
mod serving;
mod stream;
mod trust;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::files;

pub use self::certificate::{Certificate, CertificateError, Role};
pub use self::chain::{ShownAs, leads};
pub use self::dialing::client;
pub use self::roots::system_bundle;
pub use self::second::WriteHandle;
pub use self::serving::{Callers, serving};
pub use self::stream::Stream;
pub use self::trust::{Trust, Untrusted};

/// Largest PEM file: a bundle of all public authorities has a quarter of it.
pub(crate) const FILE_MAX: u64 = 1 << 20;

/// Files of a listener's TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// Its certificate, then those that lead to its authority.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// Authorities whose certificates clients must show; `None` asks for none.
    pub client_ca: Option<PathBuf>,
    /// Their revocation lists; a client whose authority has none in it is not let in.
    pub crl: Option<PathBuf>,
}

impl ServerFiles {
    fn all(&self) -> Vec<PathBuf> {
        let rest = self.client_ca.iter().chain(&self.crl);
        [&self.certificate, &self.key].into_iter().chain(rest).cloned().collect()
    }
}

/// Files of an output's TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// Authorities of which one must have signed the far end's certificate.
    pub ca: PathBuf,
    /// What it shows of itself, and the key, if the far end wants to see that.
    pub own: Option<(PathBuf, PathBuf)>,
}

impl ClientFiles {
    fn all(&self) -> Vec<PathBuf> {
        let own = self.own.iter().flat_map(|(certificate, key)| [certificate, key]);
        std::iter::once(&self.ca).chain(own).cloned().collect()
    }
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file is no PEM.
    #[error("{}: not PEM ({what}): a section begins with a line such as -----BEGIN CERTIFICATE-----", file.display())]
    Pem {
        /// Which.
        file: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// A file lacks what it must hold.
    #[error("{}: holds no {what}: give a PEM file with a section {section}", file.display())]
    Empty {
        /// Which.
        file: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// How that begins.
        section: &'static str,
    },
    /// A certificate is none.
    #[error("{}: certificate {number}: {what}", file.display())]
    Certificate {
        /// Which file.
        file: PathBuf,
        /// Which of its certificates, from 1.
        number: usize,
        /// What is wrong.
        what: String,
    },
    /// A key is of no use.
    #[error("{}: {what}: give the key of {} (ECDSA P-256 or P-384, Ed25519, or RSA of 2048 bits or more)", key.display(), certificate.display())]
    Key {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Any other refusal of the library.
    #[error("{}: {what}", file.display())]
    Other {
        /// The file it is about.
        file: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// What a listener needs for TLS. Its files are followed.
///
/// # Errors
/// A file cannot be used; the error names it.
pub fn server(files: &ServerFiles) -> Result<Arc<ServerConfig>, TlsError> {
    serving(files).map(|(config, _)| config)
}

/// The same listener, which speaks these protocols (ALPN) with who asks for one, and with nobody who asks for others.
pub fn speaking(config: Arc<ServerConfig>, protocols: &[&str]) -> Arc<ServerConfig> {
    let mut config = Arc::unwrap_or_clone(config);
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

/// What an output needs for TLS, with the files that it came from, which are followed.
#[derive(Clone, Debug)]
pub struct ClientTls {
    files: ClientFiles,
    config: Arc<ClientConfig>,
}

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// As [`client`].
    pub fn new(files: ClientFiles) -> Result<Self, TlsError> {
        let config = client(&files)?;
        Ok(ClientTls { files, config })
    }

    /// The same, which asks for this protocol (ALPN), if for any.
    #[must_use]
    pub fn speaking(mut self, protocol: Option<&str>) -> Self {
        if let Some(protocol) = protocol {
            Arc::make_mut(&mut self.config).alpn_protocols = vec![protocol.as_bytes().to_vec()];
        }
        self
    }

    /// What connections need.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.config.clone()
    }
}

impl PartialEq for ClientTls {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files && self.config.alpn_protocols == other.config.alpn_protocols
    }
}

impl Eq for ClientTls {}

/// The name that the certificate of `host` must have.
///
/// # Errors
/// It is neither a name nor an address.
pub fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host:?} is no name that a certificate could have"))
}

/// Why TLS failed, in our words where ours say what to do; `None` if it is not TLS that failed.
pub fn explain(error: &std::io::Error) -> Option<String> {
    use rustls::{AlertDescription as Alert, CertificateError as Bad, Error, InvalidMessage};
    let error: &Error = error.get_ref()?.downcast_ref()?;
    let words = match error {
        Error::InvalidCertificate(Bad::UnknownIssuer) => {
            "the certificate of the far end is not from an authority that is trusted here (ca)"
        }
        Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "the certificate of the far end has expired"
        }
        Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            "the certificate of the far end is not valid yet: is the clock of this machine right?"
        }
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            "the certificate of the far end is for another name"
        }
        Error::AlertReceived(Alert::CertificateRequired) => {
            "the far end wants a certificate: give certificate and key"
        }
        Error::AlertReceived(Alert::UnknownCA) => {
            "the far end does not trust the authority of the certificate that it was shown"
        }
        Error::AlertReceived(Alert::CertificateExpired) => {
            "the far end says that the certificate that it was shown has expired"
        }
        Error::NoCertificatesPresented => "the far end shows no certificate",
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "the far end does not speak TLS"
        }
        other => return Some(other.to_string()),
    };
    Some(words.into())
}

/// A certificate chain and its key, which must belong together.
fn identity(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(certificate)?;
    let wrong =
        |what: String| TlsError::Key { key: key.into(), certificate: certificate.into(), what };
    private::look_at(key).map_err(|source| TlsError::File { file: key.into(), source })?;
    let found = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            TlsError::Empty { file: key.into(), what: "private key", section: "PRIVATE KEY" }
        }
        error => TlsError::Pem { file: key.into(), what: error.to_string() },
    })?;
    let signer = provider
        .key_provider
        .load_private_key(found)
        .map_err(|_| wrong("a key that cannot be used".into()))?;
    let own = CertifiedKey::new(chain, signer);
    match own.keys_match() {
        Ok(()) => Ok(own),
        Err(_) => Err(wrong("another key than the certificate's".into())),
    }
}

/// The authorities of a file.
fn authorities(file: &Path) -> Result<RootCertStore, TlsError> {
    if *file == *system_bundle() {
        return roots::of_system(file);
    }
    let mut roots = RootCertStore::empty();
    for (place, certificate) in certificates(file)?.into_iter().enumerate() {
        roots.add(certificate).map_err(|error| TlsError::Certificate {
            file: file.into(),
            number: place + 1,
            what: error.to_string(),
        })?;
    }
    Ok(roots)
}

/// The certificates of a file, at least one, each of which can be read.
///
/// # Errors
/// The file cannot be read or holds something else.
pub fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let found =
        found.map_err(|error| TlsError::Pem { file: file.into(), what: error.to_string() })?;
    if found.is_empty() {
        let (what, section) = ("certificate", "CERTIFICATE");
        return Err(TlsError::Empty { file: file.into(), what, section });
    }
    for (place, der) in found.iter().enumerate() {
        Certificate::read(der).map_err(|error| TlsError::Certificate {
            file: file.into(),
            number: place + 1,
            what: error.to_string(),
        })?;
    }
    Ok(found)
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    files::read(file, FILE_MAX).map_err(|source| TlsError::File { file: file.into(), source })
}

#[cfg(test)]
mod tests;
