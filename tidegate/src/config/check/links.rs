//! Links: who they lead to, by which paths, and what both ends prove.

use tidegate_types::units::Size;

use super::Findings;
use crate::config::links::WINDOW_MIN;
use crate::config::places::Place;
use crate::config::{Config, LinkInputConfig};
use crate::keys::both_ends;
use crate::keys::units::OutputQueue;

/// The listening end.
pub(in crate::config) fn listener(link: &LinkInputConfig, place: &Place, findings: &mut Findings) {
    if link.listen.as_ref().is_none_or(|listen| listen.0.is_empty()) {
        let text = "no address to listen on: give listen = [\"0.0.0.0:7443\", \"[::]:7443\"]";
        findings.error(place.clone(), text);
    }
    both_ends::check([&link.ca, &link.certificate, &link.key], place, findings);
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
        if output.queue != OutputQueue::Auto {
            let text = "a link keeps the queue of each of its paths itself: leave queue out";
            findings.error(place.to("queue"), text);
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
