//! TLS of listeners and outputs: keys that need each other.

use crate::config::outputs::{TlsKeys, Url};
use crate::config::places::Place;
use crate::config::{MqttInputConfig, OutputKind};
use crate::tls;

use super::Findings;

/// An MQTT listener at `place`.
pub(super) fn listener(mqtt: &MqttInputConfig, place: &Place, findings: &mut Findings) {
    if let Some(tls) = &mqtt.tls
        && tls.files().is_none()
    {
        let text = "certificate and key are needed: give certificate = \"node.pem\" and key = \
                    \"node.key\" (`tidegate keys` makes them)";
        findings.error(place.to("tls"), text);
    }
}

/// The TLS of an output's kind at `place`, with its url.
pub(super) fn output(kind: OutputKind<'_>, url: &Url, place: &Place, findings: &mut Findings) {
    let Some(TlsKeys { ca, certificate, key }) = kind.tls_keys() else { return };
    let scheme = kind.name();
    if !url.tls {
        for (name, file) in [("ca", ca), ("certificate", certificate), ("key", key)] {
            if file.is_some() {
                let text = format!("the url asks for no TLS: write {scheme}s:// there");
                findings.error(place.to(name), text);
            }
        }
        return;
    }
    if ca.is_none() {
        let text = format!(
            "{scheme}s:// needs to know whom to trust: give ca = \"ca.pem\", the authority of the far \
             end's certificate"
        );
        findings.error(place.clone(), text);
    }
    match (certificate, key) {
        (Some(_), None) => findings.error(place.to("certificate"), "needs its key: give key"),
        (None, Some(_)) => {
            findings.error(place.to("key"), "needs its certificate: give certificate");
        }
        _ => {}
    }
    if let Err(text) = tls::server_name(&url.host) {
        findings.error(place.to("url"), text);
    }
}
