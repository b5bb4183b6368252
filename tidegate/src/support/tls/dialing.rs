//! The TLS of who dials, whose files are followed: a connection that begins uses what they say by then.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use super::{ClientFiles, TlsError, authorities, identity};
use crate::support::followed::Followed;

/// What the files say.
#[derive(Debug)]
struct Say {
    far: Arc<WebPkiServerVerifier>,
    own: Option<Arc<CertifiedKey>>,
}

/// What the files say now.
#[derive(Clone, Debug)]
struct Said(Arc<Followed<Say>>);

/// What who dials needs for TLS.
///
/// # Errors
/// A file cannot be used; the error names it.
pub fn client(files: &ClientFiles) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let (reader, with) = (files.clone(), provider.clone());
    let said = Followed::new("certificates", files.all(), move || Say::read(&reader, &with))?;
    let said = Said(Arc::new(said));
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Other { file: files.ca.clone(), what: error.to_string() })?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(said.clone()));
    let mut config = match &files.own {
        None => builder.with_no_client_auth(),
        Some(_) => builder.with_client_cert_resolver(Arc::new(said.clone())),
    };
    // Who is dialed shows its certificate each time: a ticket would bring back one that is not trusted any more.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

impl Say {
    fn read(files: &ClientFiles, provider: &Arc<CryptoProvider>) -> Result<Say, TlsError> {
        let roots = Arc::new(authorities(&files.ca)?);
        let far = WebPkiServerVerifier::builder_with_provider(roots, provider.clone()).build();
        let other = |what: String| TlsError::Other { file: files.ca.clone(), what };
        let far = far.map_err(|error| other(error.to_string()))?;
        let own = files.own.as_ref();
        let own = own.map(|(certificate, key)| identity(certificate, key, provider)).transpose()?;
        Ok(Say { far, own: own.map(Arc::new) })
    }
}

impl ServerCertVerifier for Said {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let far = self.0.current().far.clone();
        far.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.current().far.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.current().far.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.current().far.supported_verify_schemes()
    }
}

impl ResolvesClientCert for Said {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.current().own.clone()
    }

    fn has_certs(&self) -> bool {
        true
    }
}
