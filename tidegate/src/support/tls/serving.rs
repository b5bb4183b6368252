//! A listener's TLS, whose files are followed: a handshake that begins uses what they say by then. Connections go on
//! with what they agreed on; who must look whether they still may, [`Callers`] tells.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};

use super::{Certificate, ServerFiles, TlsError, authorities, identity, read};
use crate::support::followed::Followed;

/// What the files say.
#[derive(Debug)]
struct Say {
    own: Arc<CertifiedKey>,
    callers: Option<Arc<dyn ClientCertVerifier>>,
}

type Said = Arc<Followed<Say>>;

/// Whose certificates a listener believes now.
#[derive(Clone, Debug)]
pub struct Callers(Said);

/// What a listener needs for TLS: for its handshakes, and to look at its clients again.
///
/// # Errors
/// A file cannot be used; the error names it.
pub fn serving(files: &ServerFiles) -> Result<(Arc<ServerConfig>, Option<Callers>), TlsError> {
    let provider = Arc::new(ring::default_provider());
    let (reader, with) = (files.clone(), provider.clone());
    let said = Followed::new("certificates", files.all(), move || Say::read(&reader, &with))?;
    let said = Arc::new(said);
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Other {
            file: files.certificate.clone(),
            what: error.to_string(),
        })?;
    let callers = files.client_ca.is_some().then(|| Callers(said.clone()));
    let builder = match &callers {
        None => builder.with_no_client_auth(),
        Some(callers) => builder.with_client_cert_verifier(Arc::new(callers.clone())),
    };
    let mut config = builder.with_cert_resolver(Arc::new(Own(said.clone())));
    // Whose certificate is asked for shows it each time: a ticket would bring back one that was revoked meanwhile.
    if callers.is_some() {
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
    }
    Ok((Arc::new(config), callers))
}

impl Say {
    fn read(files: &ServerFiles, provider: &Arc<CryptoProvider>) -> Result<Say, TlsError> {
        let own = Arc::new(identity(&files.certificate, &files.key, provider)?);
        let Some(ca) = &files.client_ca else { return Ok(Say { own, callers: None }) };
        let other = |what: String| TlsError::Other { file: ca.clone(), what };
        let roots = Arc::new(authorities(ca)?);
        let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
        if let Some(crl) = &files.crl {
            builder = builder.with_crls(revoked(crl)?).only_check_end_entity_revocation();
        }
        // Which authorities there are can change, and the library cannot say it anew: clients are told of none.
        let built = builder.clear_root_hint_subjects().build();
        Ok(Say { own, callers: Some(built.map_err(|error| other(error.to_string()))?) })
    }
}

/// The revocation lists of a file, at least one.
fn revoked(file: &std::path::Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let text = read(file)?;
    let wrong = |what: String| TlsError::Pem { file: file.into(), what };
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
    let found = found.map_err(|error| wrong(error.to_string()))?;
    if found.is_empty() {
        let (what, section) = ("revocation list", "X509 CRL");
        return Err(TlsError::Empty { file: file.into(), what, section });
    }
    Ok(found)
}

impl Callers {
    /// Changes whenever the files are read again: only then must clients be looked at anew.
    pub fn edition(&self) -> u64 {
        self.0.edition().0
    }

    /// Whether a client that came with these certificates, its own first, would still be let in. That one has expired
    /// since ends no connection.
    ///
    /// # Errors
    /// Its authority is not trusted any more, or its certificate is revoked.
    pub fn still_trust(&self, chain: &[CertificateDer<'_>]) -> Result<(), Error> {
        let Some((own, others)) = chain.split_first() else {
            return Err(Error::NoCertificatesPresented);
        };
        let now = UnixTime::now().as_secs();
        let until = Certificate::read(own).map_or(now, |own| own.valid_until.unsigned_abs());
        let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now.min(until)));
        self.verify_client_cert(own, others, at).map(drop)
    }

    fn now(&self) -> Result<Arc<dyn ClientCertVerifier>, Error> {
        // Without authorities nobody asks.
        self.0.current().callers.clone().ok_or(Error::NoCertificatesPresented)
    }
}

impl ClientCertVerifier for Callers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.now()?.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.now()?.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.now()?.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.now().map(|now| now.supported_verify_schemes()).unwrap_or_default()
    }
}

/// Shows the listener's certificate.
#[derive(Debug)]
struct Own(Said);

impl ResolvesServerCert for Own {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current().own.clone())
    }
}
