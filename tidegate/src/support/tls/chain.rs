//! Whether a certificate leads to an authority, by the certificates beside it in its file.

use std::path::Path;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use super::{Certificate, TlsError, certificates};

/// What a certificate is shown for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownAs {
    /// By who listens.
    Server,
    /// By who connects.
    Client,
}

/// Whether the first certificate of a file leads to an authority: to one of `ca`, or, without it, to the last of its
/// own file. `Ok(false)`: it does not, or is not made for this end.
///
/// # Errors
/// A file cannot be used.
pub fn leads(file: &Path, ca: Option<&Path>, shown: ShownAs) -> Result<bool, TlsError> {
    let chain = certificates(file)?;
    let [own, others @ ..] = chain.as_slice() else { return Ok(false) };
    let anchors = match ca {
        Some(ca) => certificates(ca)?,
        // Alone it is signed by whom clients know, or by itself.
        None => match others.last() {
            Some(last) => vec![last.clone()],
            None => return Ok(true),
        },
    };
    Ok(verify(own, others, &anchors, shown))
}

fn verify(
    own: &CertificateDer<'_>,
    others: &[CertificateDer<'_>],
    anchors: &[CertificateDer<'_>],
    shown: ShownAs,
) -> bool {
    let anchors: Vec<_> =
        anchors.iter().filter_map(|der| anchor_from_trusted_cert(der).ok()).collect();
    let Ok(end) = EndEntityCert::try_from(own) else { return false };
    // Its times are told apart from its chain: it is looked at in the middle of its life.
    let Ok(times) = Certificate::read(own) else { return false };
    let middle = times.valid_from.midpoint(times.valid_until);
    let at = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(middle).unwrap_or(0)));
    let usage = match shown {
        ShownAs::Server => KeyUsage::server_auth(),
        ShownAs::Client => KeyUsage::client_auth(),
    };
    let provider = ring::default_provider();
    let known = provider.signature_verification_algorithms.all;
    end.verify_for_usage(known, &anchors, others, at, usage, None, None).is_ok()
}
