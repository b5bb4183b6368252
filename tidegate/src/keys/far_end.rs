//! The keys by which a far end is found and trusted: `url`, `ca`, `certificate` and `key`.

use std::path::{Path, PathBuf};

use super::findings::Findings;
use super::places::Place;
use super::url::{Scheme, Url};
use crate::support::tls::{self, ClientFiles, ClientTls};

/// These keys of one table.
#[derive(Clone, Copy, Debug)]
pub struct FarEnd<'a> {
    /// What its url begins with.
    pub scheme: Scheme,
    /// `url`.
    pub url: Option<&'a str>,
    /// `ca`.
    pub ca: Option<&'a Path>,
    /// `certificate`.
    pub certificate: Option<&'a Path>,
    /// `key`.
    pub key: Option<&'a Path>,
}

impl<'a> FarEnd<'a> {
    /// The keys of a table that has all of them.
    pub fn new(
        scheme: Scheme,
        url: &'a Option<String>,
        [ca, certificate, key]: [&'a Option<PathBuf>; 3],
    ) -> Self {
        let (ca, certificate, key) = (ca.as_deref(), certificate.as_deref(), key.as_deref());
        FarEnd { scheme, url: url.as_deref(), ca, certificate, key }
    }

    /// Where it is.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub fn url(self) -> Result<Url, String> {
        Url::parse(self.url.unwrap_or_default(), self.scheme)
    }

    /// The files of its TLS, if the url wants TLS. Where no authority is given, those that the system trusts count.
    pub fn tls_files(self) -> Option<ClientFiles> {
        let own = self.certificate.zip(self.key).map(|(own, key)| (own.into(), key.into()));
        let ca = self.ca.map(PathBuf::from);
        self.url().ok()?.tls.then(|| ClientFiles { ca: ca.unwrap_or_else(tls::system_bundle), own })
    }

    /// Where it is, and its TLS, if it speaks TLS.
    ///
    /// # Errors
    /// The url is none, or a file cannot be used.
    pub fn read(self) -> anyhow::Result<(Url, Option<ClientTls>)> {
        let url = self.url().map_err(anyhow::Error::msg)?;
        Ok((url, self.tls_files().map(ClientTls::new).transpose()?))
    }

    /// What is wrong with the keys at `place`; a right url might lead to `example`.
    pub(crate) fn check(self, example: &str, place: &Place, findings: &mut Findings) {
        let scheme = self.scheme.name;
        if self.url.is_none() {
            let text = format!("no url: give url = \"{scheme}://{example}\"");
            return findings.error(place.clone(), text);
        }
        match self.url() {
            Ok(url) => self.check_tls(&url, place, findings),
            Err(text) => findings.error(place.to("url"), text),
        }
    }

    /// What is wrong with the key `alpn`.
    pub(crate) fn check_alpn(self, alpn: Option<&str>, place: &Place, findings: &mut Findings) {
        let Some(alpn) = alpn else { return };
        let place = place.to("alpn");
        if !(1..=255).contains(&alpn.len()) {
            let text = "a protocol has 1 to 255 bytes: give the one that the far end wants";
            findings.error(place.clone(), text);
        }
        if self.url().is_ok_and(|url| !url.tls) {
            let scheme = self.scheme.name;
            findings.error(place, format!("the url asks for no TLS: write {scheme}s:// there"));
        }
    }

    fn check_tls(self, url: &Url, place: &Place, findings: &mut Findings) {
        let FarEnd { ca, certificate, key, scheme: Scheme { name: scheme, .. }, .. } = self;
        if !url.tls {
            for (name, file) in [("ca", ca), ("certificate", certificate), ("key", key)] {
                if file.is_some() {
                    let text = format!("the url asks for no TLS: write {scheme}s:// there");
                    findings.error(place.to(name), text);
                }
            }
            return;
        }
        match (certificate, key) {
            (Some(_), None) => findings.error(place.to("certificate"), "needs its key: give key"),
            (None, Some(_)) => {
                findings.error(place.to("key"), "needs its certificate: give certificate");
            }
            _ => {}
        }
        for host in &url.hosts {
            if let Err(text) = tls::server_name(&host.name) {
                findings.error(place.to("url"), text);
            }
        }
    }
}
