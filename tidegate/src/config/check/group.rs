//! Groups: who their members are, what they prove, and which topics move among them.

use tidegate_types::topic::Filter;

use super::{Findings, name_is_good};
use crate::config::places::Place;
use crate::config::{Config, GroupConfig, MemberConfig};
use crate::keys::both_ends;
use crate::support::tls;

/// Longest text that clients are told.
const TEXT_MAX: usize = 256;

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let group = &config.group;
    let place = Place::section("group");
    if group.members.is_empty() {
        if *group != GroupConfig::default() || !config.placed.is_empty() {
            let text = "there is nobody to move topics to: give members = [{ name = \"gate-8\", \
                        address = \"gate-8.example:7446\" }]";
            findings.error(place, text);
        }
        return;
    }
    if group.listen.is_none() {
        findings.error(place.clone(), "give listen = \"0.0.0.0:7446\": the other members dial it");
    }
    if config.node.name.is_none() {
        let text = "members know each other by name: give [node] name";
        findings.error(place.clone(), text);
    }
    if !config.group_is_here() || config.group_files().iter().any(Option::is_some) {
        let [ca, certificate, key] = config.group_files();
        both_ends::check([&ca, &certificate, &key], &place, findings);
    }
    for (index, member) in group.members.iter().enumerate() {
        let place = place.to("members").to(index);
        let MemberConfig { name, .. } = member;
        name_is_good(name.as_deref().unwrap_or_default(), place.to("name"), findings);
        let is_again = group.members[..index].iter().any(|other| other.name == *name);
        if is_again || *name == config.node.name {
            findings.error(place.to("name"), "this name is taken: each member has its own");
        }
        if member.clients.as_ref().is_some_and(|text| text.is_empty() || text.len() > TEXT_MAX) {
            let text = "give clients = \"gate-8.example:1883\", as MQTT clients are told it";
            findings.error(place.to("clients"), text);
        }
        match member.far() {
            Err(text) => findings.error(place.to("address"), text),
            Ok((host, _)) => {
                if let Err(text) = tls::server_name(&host) {
                    findings.error(place.to("address"), text);
                }
            }
        }
    }
    placed(config, findings);
}

fn placed(config: &Config, findings: &mut Findings) {
    let mut known: Vec<(usize, Filter)> = Vec::new();
    for (index, unit) in config.placed.iter().enumerate() {
        let place = Place::section("placed").to(index);
        let name = unit.name.as_deref().unwrap_or_default();
        if name.is_empty() || name.chars().any(char::is_control) {
            findings.error(place.clone(), "give name = \"taxi-7\": plans and commands use it");
        }
        if config.placed[..index].iter().any(|other| other.name == unit.name) {
            findings.error(place.to("name"), "this name is taken");
        }
        if unit.topics.is_empty() {
            findings.error(place.clone(), "nothing is placed: give topics = [\"taxi/gps/7\"]");
        }
        for (number, text) in unit.topics.iter().enumerate() {
            let place = place.to("topics").to(number);
            let filter = match Filter::new(text) {
                Ok(filter) => filter,
                Err(error) => {
                    findings.error(place, error.to_string());
                    continue;
                }
            };
            let other = known.iter().find(|(of, known)| *of != index && known.overlaps(&filter));
            if let Some((_, other)) = other {
                let text = format!("{:?} of another [[placed]] has topics of it", other.as_str());
                findings.error(place, text);
            }
            known.push((index, filter));
        }
        let members = config.group.members.iter().map(|member| &member.name);
        if unit.owner.is_none() || members.chain([&config.node.name]).all(|it| *it != unit.owner) {
            let text = "the first owner must be this node or one of [group] members";
            findings.error(place.to("owner"), text);
        }
    }
}
