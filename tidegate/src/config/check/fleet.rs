//! The fleet: who leads, which output, which peers, and what everybody proves.

use tidegate_types::limits::CLASSES_MAX;

use super::{Findings, name_is_good};
use crate::config::Config;
use crate::config::places::Place;
use crate::keys::both_ends;
use crate::keys::url::host_and_port;

const EXAMPLE: &str = "write \"host:port\", as in \"orch-1.example:7400\"";

/// That a text names a host and a port.
fn host_is_good(text: &str, place: Place, findings: &mut Findings) {
    if !matches!(host_and_port(text), Some((_, Some(_)))) {
        findings.error(place, format!("{text:?} is no host and port: {EXAMPLE}"));
    }
}

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let fleet = &config.fleet;
    let place = Place::section("fleet");
    if !fleet.is_set() {
        if *fleet != Default::default() {
            let text = "nobody leads: give orchestrators = [\"orch-1.example:7400\"], or a [[fleet.peer]] with standing";
            findings.error(place, text);
        }
        return;
    }
    for (index, text) in fleet.orchestrators.iter().enumerate() {
        host_is_good(text, place.to("orchestrators").to(index), findings);
    }
    if let Some(name) = &fleet.output
        && fleet.seat(&config.output).is_none()
    {
        findings.unknown(place.to("output"), "output", format!("no output is called {name:?}"));
    }
    if fleet.listen.as_ref().is_none_or(|listen| listen.0.is_empty()) {
        let text = "neighbours could not send records here: give listen = [\"0.0.0.0:7444\"]";
        findings.error(place.clone(), text);
    }
    both_ends::check([&fleet.ca, &fleet.certificate, &fleet.key], &place, findings);
    if config.class.len() >= CLASSES_MAX {
        let text = format!(
            "neighbours' records are a class of their own, and there may be {CLASSES_MAX}: take a \
             [[class]] out"
        );
        findings.error(place.clone(), text);
    }
    match &fleet.advertise {
        Some(text) => host_is_good(text, place.to("advertise"), findings),
        None if fleet.places.is_some() || fleet.site.is_some() => {
            let text = "nobody finds this node, and it finds nobody: give advertise = \"gate-7.example:7444\"";
            findings.error(place.clone(), text);
        }
        None => {}
    }
    for (index, peer) in fleet.peer.iter().enumerate() {
        let place = place.to("peer").to(index);
        match &peer.name {
            None => findings.error(place.clone(), "no name: give that of its certificate"),
            Some(name) => {
                name_is_good(name, place.to("name"), findings);
                let before = &fleet.peer[..index];
                if before.iter().any(|other| other.name.as_ref() == Some(name)) {
                    findings.error(place.to("name"), format!("{name:?} stands above"));
                }
            }
        }
        match &peer.to {
            None => findings.error(place, "no address: give to = \"gate-2.example:7444\""),
            Some(text) => host_is_good(text, place.to("to"), findings),
        }
    }
}
