//! The TLS of who dials, whose files are followed: a connection that begins uses what they say by then.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, ResolvesClientCert, Resumption,
    Tls12ClientSessionValue, Tls13ClientSessionValue, WebPkiServerVerifier,
};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, NamedGroup, SignatureScheme};

use super::{ClientFiles, TlsError, authorities, identity};
use crate::support::followed::Followed;

/// Far ends whose sessions can go on, as many as the library keeps by itself.
const SESSIONS: usize = 256;

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
    config.resumption = Resumption::store(Arc::new(Sessions { said, kept: Mutex::default() }));
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

/// Sessions to go on with: none that began under other files, for the far end is not asked who it is when it goes on.
#[derive(Debug)]
struct Sessions {
    said: Said,
    kept: Mutex<(u64, Option<Arc<ClientSessionMemoryCache>>)>,
}

impl Sessions {
    fn kept(&self) -> Arc<ClientSessionMemoryCache> {
        let (edition, _) = self.said.0.edition();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.0 != edition {
            *kept = (edition, None);
        }
        kept.1.get_or_insert_with(|| Arc::new(ClientSessionMemoryCache::new(SESSIONS))).clone()
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.kept().set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept().kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.kept().set_tls12_session(server, value);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.kept().tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.kept().remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.kept().insert_tls13_ticket(server, value);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.kept().take_tls13_ticket(server)
    }
}
