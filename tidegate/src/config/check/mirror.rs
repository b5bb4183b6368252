//! Mirrors: whose log goes where, and what everybody proves.

use super::{Findings, name_is_good};
use crate::config::places::Place;
use crate::config::{Config, MirrorConfig};
use crate::keys::both_ends;

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let mirror = &config.mirror;
    if *mirror == MirrorConfig::default() {
        return;
    }
    let place = Place::section("mirror");
    if mirror.to.is_none() && mirror.listen.is_none() {
        let text = "nothing is mirrored: give to = \"gate-8.example:7445\" for this node's log, or \
                    listen = [\"0.0.0.0:7445\"] for those of others";
        findings.error(place, text);
        return;
    }
    let [ca, certificate, key] = config.mirror_files();
    both_ends::check([&ca, &certificate, &key], &place, findings);
    match mirror.far() {
        Err(text) => findings.error(place.to("to"), text),
        Ok(Some(_)) if config.log.directory.is_none() => {
            findings.error(place.to("to"), "there is no log: give [log] directory");
        }
        Ok(_) => {}
    }
    if mirror.listen.is_none() {
        return;
    }
    if mirror.directory.is_none() {
        let text = "there is no place for logs: give directory = \"/var/lib/tidegate/mirror\"";
        findings.error(place.clone(), text);
    } else if mirror.directory == config.log.directory {
        let text = "this node's own log is there: give another folder";
        findings.error(place.to("directory"), text);
    }
    for (index, name) in mirror.from.iter().enumerate() {
        name_is_good(name, place.to("from").to(index), findings);
    }
}
