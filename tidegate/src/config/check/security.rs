//! TLS, users and rights: keys that need each other.

use std::net::IpAddr;

use crate::config::places::Place;
use crate::config::units::Listen;
use crate::config::{MqttInputConfig, UserFrom};
use crate::support::access::Allow;
use crate::support::http::endpoint::Endpoint;

use super::Findings;

/// Entries of `allow`: each client looks through those that are its own.
const ALLOW_MAX: usize = 256;

/// Seconds of a keepalive that MQTT can express; 0 is none at all.
const KEEPALIVES: std::ops::RangeInclusive<u64> = 1..=65_535;

/// An MQTT listener at `place`.
pub(in crate::config) fn listener(mqtt: &MqttInputConfig, place: &Place, findings: &mut Findings) {
    if let Some(tls) = &mqtt.tls
        && tls.files().is_none()
    {
        let text = "certificate and key are needed: give certificate = \"node.pem\" and key = \
                    \"node.key\" (`tidegate keys` makes them)";
        findings.error(place.to("tls"), text);
    }
    if let Some(tls) = mqtt.tls.as_ref().filter(|tls| tls.crl.is_some())
        && tls.client_ca.is_none()
    {
        let text = "clients show no certificate that could be revoked: give client_ca too";
        findings.error(place.to("tls").to("crl"), text);
    }
    identification(mqtt, place, findings);
    origins(mqtt, place, findings);
    if mqtt.keepalive_max.is_some_and(|most| !KEEPALIVES.contains(&most.0.as_secs())) {
        let text = "a keepalive has at least \"1s\" and at most \"65535s\"";
        findings.error(place.to("keepalive_max"), text);
    }
    let Some(allow) = &mqtt.allow else { return };
    let section = place.to("allow");
    if allow.is_empty() || allow.len() > ALLOW_MAX {
        let text = format!("{} entries: give 1 to {ALLOW_MAX}, or leave it out", allow.len());
        findings.error(section.clone(), text);
    }
    let is_known = mqtt.knows_users() || mqtt.user_from == UserFrom::Certificate;
    for (index, entry) in allow.iter().enumerate() {
        let place = section.to(index);
        if entry.topics.is_empty() && entry.subscribe.is_empty() {
            findings.error(place.clone(), "no topics: give topics = [\"factory/%u/#\"]");
        }
        let mut filters = entry.topics.iter().chain(&entry.subscribe);
        let of_user = entry.user.is_some() || filters.any(|topic| topic.contains("%u"));
        if of_user && !is_known {
            let text = "nobody has a user name here: give users = \"users\", jwt or hook, or user_from = \
                        \"certificate\"";
            findings.error(place.clone(), text);
        }
        for (key, filters) in [("topics", &entry.topics), ("subscribe", &entry.subscribe)] {
            if let Err(error) = Allow::new(entry.user.clone(), filters.clone(), Vec::new()) {
                findings.error(place.to(key), error.to_string());
            }
        }
    }
}

/// Pages that may connect.
fn origins(mqtt: &MqttInputConfig, place: &Place, findings: &mut Findings) {
    let Some(websocket) = &mqtt.websocket else { return };
    let place = place.to("websocket").to("origins");
    for (index, origin) in websocket.origins.iter().enumerate() {
        let host = origin.split_once("://").map_or("", |(_, host)| host);
        let is_one = !host.is_empty() && !host.contains('/');
        if !is_one && !["*", "null"].contains(&origin.as_str()) {
            let text =
                "an origin is scheme, host and port, without a path: give \"https://desk.example\"";
            findings.error(place.to(index), text);
        }
    }
    let is_open = !mqtt.knows_users() && mqtt.user_from == UserFrom::Password;
    if is_open && !mqtt.anonymous && websocket.origins.iter().any(|origin| origin == "*") {
        let text = "any page that a browser here opens may publish and subscribe without a login: name the pages, or \
                    give users; anonymous = true says that it is meant";
        findings.warning(place, text);
    }
}

/// Who says who a client is.
fn identification(mqtt: &MqttInputConfig, place: &Place, findings: &mut Findings) {
    if mqtt.user_from == UserFrom::Certificate {
        let asks = mqtt.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        if !asks {
            let text = "clients show no certificate: give tls = { ..., client_ca = \"ca.pem\" }";
            findings.error(place.to("user_from"), text);
        }
        let given = [
            ("users", mqtt.users.is_some()),
            ("jwt", mqtt.jwt.is_some()),
            ("hook", mqtt.hook.is_some()),
        ];
        for (key, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
            let text = format!("the certificate names the user: leave out {key}, or user_from");
            findings.error(place.to(key), text);
        }
    }
    if mqtt.anonymous && mqtt.user_from == UserFrom::Certificate {
        let text = "clients are known by their certificates: leave this out, or user_from";
        findings.error(place.to("anonymous"), text);
    }
    let is_open = |listen: &Listen| listen.0.iter().any(|address| !address.ip().is_loopback());
    let shows_certificate = mqtt.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    if let Some(open) =
        mqtt.listen.iter().flat_map(|listen| &listen.0).find(|one| !one.ip().is_loopback())
        && !mqtt.knows_users()
        && !shows_certificate
        && !mqtt.anonymous
    {
        let text = format!(
            "whoever reaches {open} may publish and subscribe without a login: give users = \"users\", or tls with \
             client_ca, or listen on 127.0.0.1; anonymous = true says that it is meant"
        );
        findings.warning(place.to("listen"), text);
    }
    tokens(mqtt, place, findings);
    hook(mqtt, place, findings);
    if mqtt.knows_users() && mqtt.tls.is_none() && mqtt.listen.as_ref().is_some_and(is_open) {
        let text = "passwords cross the network in the clear: give tls, or listen on loopback";
        findings.warning(place.to("users"), text);
    }
}

/// Passwords are told to the hook.
fn hook(mqtt: &MqttInputConfig, place: &Place, findings: &mut Findings) {
    let url = mqtt.hook.as_ref().and_then(|hook| hook.url.as_deref());
    let Some(Ok(endpoint)) = url.map(Endpoint::parse) else { return };
    let host = endpoint.host();
    let is_here = host.parse().map_or(host == "localhost", |ip: IpAddr| ip.is_loopback());
    if !endpoint.is_tls() && !is_here {
        let text = "passwords cross the network in the clear, and whoever stands between can answer: take https://";
        findings.warning(place.to("hook").to("url"), text);
    }
}

/// Tokens: where keys come from, and what they must say.
fn tokens(mqtt: &MqttInputConfig, place: &Place, findings: &mut Findings) {
    let Some(jwt) = &mqtt.jwt else { return };
    let place = place.to("jwt");
    match (&jwt.keys, &jwt.url) {
        (None, None) => {
            let text =
                "no keys: give keys = \"jwks.json\", or url = \"https://login.example/jwks.json\"";
            findings.error(place.clone(), text);
        }
        (Some(_), Some(_)) => {
            findings.error(place.to("url"), "keys are given too: keep one of the two");
        }
        (None, Some(url)) if url.starts_with("http://") => {
            let text = "whoever stands between can give keys of his own: take https://";
            findings.warning(place.to("url"), text);
        }
        _ => {}
    }
    if jwt.url.is_some() && jwt.audience.is_empty() {
        let text =
            "tokens that were issued for anybody else would be taken: give audience = [\"plant\"]";
        findings.error(place.clone(), text);
    }
}
