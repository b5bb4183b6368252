//! Signatures that do not belong to a connection: whether a certificate that an authority has signed made them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::{TlsError, authorities};
use crate::support::followed::Followed;

/// Whose certificates are believed, as the file says at the time. Cheap to clone.
#[derive(Clone)]
pub struct Trust(Arc<Followed<Arc<dyn ClientCertVerifier>>>);

/// A signature, or the certificate behind it, is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not signed by a certificate that is trusted here")]
pub struct Untrusted;

impl Trust {
    /// The authorities of a file.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn read(ca: &Path) -> Result<Trust, TlsError> {
        let file = ca.to_owned();
        let read = move || {
            let roots = Arc::new(authorities(&file)?);
            let provider = Arc::new(ring::default_provider());
            let built = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            built.map_err(|error| TlsError::Other { file: file.clone(), what: error.to_string() })
        };
        Ok(Trust(Arc::new(Followed::new("authorities", vec![ca.into()], read)?)))
    }

    /// Whether this certificate, in DER, is from one of the authorities and its key has signed the message.
    /// Certificates between it and the authority are not known here.
    ///
    /// # Errors
    /// It is not.
    pub fn check(
        &self,
        certificate: &[u8],
        scheme: SignatureScheme,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), Untrusted> {
        let der = CertificateDer::from(certificate);
        let verified = self.0.current().verify_client_cert(&der, &[], UnixTime::now());
        verified.map_err(|_| Untrusted)?;
        let end = webpki::EndEntityCert::try_from(&der).map_err(|_| Untrusted)?;
        let known = ring::default_provider().signature_verification_algorithms.mapping;
        let mut algorithms =
            known.iter().filter(|(known, _)| *known == scheme).flat_map(|(_, all)| all.iter());
        let is_good = algorithms.any(|one| end.verify_signature(*one, message, signature).is_ok());
        if is_good { Ok(()) } else { Err(Untrusted) }
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Trust")
    }
}
