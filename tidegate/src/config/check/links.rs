//! Links: who they lead to, by which paths, and what both ends prove.

use std::path::PathBuf;

use tidegate_link::PATHS_MAX;
use tidegate_types::units::Size;

use super::Findings;
use crate::config::places::Place;
use crate::config::{Config, LinkInputConfig, LinkOutputConfig};
use crate::support::tls;

/// Least window of a receiving end.
const WINDOW_MIN: Size = Size::from_kib(128);

/// All three files are needed: both ends of a link prove who they are.
pub(super) fn files(
    [ca, certificate, key]: [&Option<PathBuf>; 3],
    place: &Place,
    findings: &mut Findings,
) {
    let all = [("ca", ca), ("certificate", certificate), ("key", key)];
    let missing: Vec<&str> =
        all.iter().filter(|(_, file)| file.is_none()).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        let text = format!(
            "both ends of a link prove who they are; missing: {} (`tidegate keys` makes such files)",
            missing.join(", ")
        );
        findings.error(place.clone(), text);
    }
}

/// The dialing end.
pub(super) fn output(link: &LinkOutputConfig, place: &Place, findings: &mut Findings) {
    let key = if link.to.is_some() { place.to("to") } else { place.clone() };
    match link.far() {
        Err(text) => findings.error(key, text),
        Ok((host, _)) => {
            if let Err(text) = tls::server_name(&host) {
                findings.error(key, text);
            }
        }
    }
    files([&link.ca, &link.certificate, &link.key], place, findings);
    let paths = place.to("paths");
    match link.bindings() {
        Err((index, text)) => findings.error(paths.to(index), text),
        Ok(bindings) if bindings.is_empty() => {
            let text = "nothing could be sent: name an interface, or leave it out for one path";
            findings.error(paths, text);
        }
        Ok(bindings) if bindings.len() > PATHS_MAX => {
            findings.error(paths, format!("{} paths: at most {PATHS_MAX}", bindings.len()));
        }
        Ok(bindings) => {
            for (index, binding) in bindings.iter().enumerate() {
                if bindings[..index].contains(binding) {
                    let text = format!("{binding} stands above: two paths by one way gain nothing");
                    findings.error(paths.to(index), text);
                }
            }
        }
    }
    if let Err(text) = link.schedule() {
        findings.error(place.to("schedule"), text);
    }
    if let Err((key, text)) = link.guard() {
        findings.error(place.to(key), text);
    }
}

/// The listening end.
pub(super) fn listener(link: &LinkInputConfig, place: &Place, findings: &mut Findings) {
    if link.listen.as_ref().is_none_or(|listen| listen.0.is_empty()) {
        let text = "no address to listen on: give listen = [\"0.0.0.0:7443\", \"[::]:7443\"]";
        findings.error(place.clone(), text);
    }
    files([&link.ca, &link.certificate, &link.key], place, findings);
    if link.window.0 < WINDOW_MIN {
        findings.error(place.to("window"), "too small for any link: give at least 128KiB");
    }
    if let Some(from) = &link.from {
        for peer in link.vouches.keys().filter(|peer| !from.contains(peer)) {
            let text =
                format!("{peer} may not come at all: name it in `from` too, or leave it out");
            findings.error(place.to("vouches"), text);
        }
    }
    if link.from.as_ref().is_some_and(Vec::is_empty) {
        let text = "nobody could come: name a node, or leave it out for all with a certificate";
        findings.error(place.to("from"), text);
    }
}

/// What depends on other sections.
pub(super) fn check(config: &Config, findings: &mut Findings) {
    for (index, input) in config.input.iter().enumerate() {
        let Some(link) = &input.link else { continue };
        let (window, record) = (link.window.0, config.limits.record_max.0);
        if window >= WINDOW_MIN && Size(record.0.saturating_mul(2)) > window {
            let text = format!(
                "records of {} (limits.record_max) need a window of at least twice that: raise this, \
                 or lower the other",
                config.limits.record_max
            );
            findings.error(Place::section("input").to(index).to("link").to("window"), text);
        }
    }
    for (index, output) in config.output.iter().enumerate() {
        if output.link.is_none() {
            continue;
        }
        let place = Place::section("output").to(index);
        if output.law.is_some() {
            let text = "a link measures each of its paths itself: leave law out";
            findings.error(place.to("law"), text);
        }
        let mut others = config.output.iter().enumerate().filter(|(other, _)| *other != index);
        if let Some((_, other)) = others.find(|(_, other)| other.uplink() == output.uplink()) {
            let text = format!(
                "output {:?} is on the uplink {:?} as well, and a link has one of its own: leave uplink \
                 out, or give them different names",
                other.label(),
                output.uplink()
            );
            findings.error(place, text);
        }
    }
}
