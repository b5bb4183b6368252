//! What a configuration must mean: names that lead somewhere, values within bounds, no stream that
//! another one hides.
//!
//! A configuration without an error here converts into the options of a node without fail
//! (`crate::wire_up` relies on it).

pub(in crate::config) mod brokers;
mod classes;
mod fleet;
mod frames;
mod group;
pub(in crate::config) mod links;
mod log;
mod mirror;
mod operators;
mod proxy;
mod quotas;
mod scripts;
pub(in crate::config) mod security;
mod streams;

use tidegate_capacity::RateControllerName;
use tidegate_types::limits::OUTPUTS_MAX;
use tidegate_types::units::Size;

use super::places::Place;
use super::{Config, FileKind, InputConfig};
use crate::input::kind::InputKind;
pub use crate::keys::findings::{Finding, Findings};
use crate::keys::key::Key;
use crate::keys::table::Table;
use crate::keys::values::Value;
use crate::output::kind::{Below, OutputKind};
use crate::output::registry::OutputConfig;

/// Everything that is wrong with a configuration as written, before [`Config::completed`].
pub fn check(config: &Config) -> Vec<Finding> {
    let mut findings = Findings::default();
    Value::check(config, &Place::default(), &mut findings);
    node(config, &mut findings);
    inputs(config, &mut findings);
    classes::check(config, &mut findings);
    outputs(config, &mut findings);
    uplinks(config, &mut findings);
    listeners(config, &mut findings);
    streams::check(config, &mut findings);
    log::check(config, &mut findings);
    quotas::check(config, &mut findings);
    brokers::check(config, &mut findings);
    links::check(config, &mut findings);
    operators::check(config, &mut findings);
    fleet::check(config, &mut findings);
    mirror::check(config, &mut findings);
    group::check(config, &mut findings);
    frames::check(config, &mut findings);
    proxy::check(config, &mut findings);
    findings.0
}

fn node(config: &Config, findings: &mut Findings) {
    let section = Place::section("node");
    if let Some(name) = &config.node.name {
        name_is_good(name, section.to("name"), findings);
    }
    let limits = Place::section("limits");
    let (memory, record) = (config.limits.memory.0, config.limits.record_max.0);
    if Size(record.0.saturating_mul(2)) > memory {
        let text = format!(
            "records of {} need a memory of at least twice that, and it is {}: lower this or raise \
             limits.memory",
            config.limits.record_max, config.limits.memory
        );
        findings.error(limits.to("record_max"), text);
    }
}

/// Names become labels and parts of identities.
fn name_is_good(name: &str, place: Place, findings: &mut Findings) {
    const LONGEST: usize = 64;
    let odd = |c: char| c.is_control() || c == '/' || c == '"' || c == '\\';
    if name.is_empty() {
        findings.error(place, "empty: give a name such as \"gate-7\", or leave it out");
    } else if name.len() > LONGEST {
        let text = format!("{} bytes are too long for a name: give at most {LONGEST}", name.len());
        findings.error(place, text);
    } else if name.contains(odd) {
        findings.error(place, format!("{name:?} has a character that no name may have: leave out /, \\, quotes and control characters"));
    }
}

/// That exactly one of the kinds of a table is given.
fn one_kind(given: &[&str], kinds: &str, place: &Place, findings: &mut Findings) {
    match given {
        [] => findings.error(place.clone(), format!("no kind: give {kinds}")),
        [_] => {}
        [first, others @ ..] => {
            for other in others {
                let text = format!("beside {first}: give each kind a table of its own");
                findings.error(place.to(*other), text);
            }
        }
    }
}

fn inputs(config: &Config, findings: &mut Findings) {
    for (index, input) in config.input.iter().enumerate() {
        let place = Place::section("input").to(index);
        let given: Vec<&str> = input.kinds().map(InputKind::name).collect();
        input.kinds().for_each(|kind| kind.check(&place.to(kind.name()), findings));
        one_kind(&given, &all_of(&InputConfig::keys()), &place, findings);
    }
}

/// Those of the keys that are kinds, in words.
fn all_of(keys: &[Key]) -> String {
    let kinds = keys.iter().filter(|key| key.shape().table().is_some());
    let kinds: Vec<String> = kinds.map(|kind| format!("{} = {{...}}", kind.name)).collect();
    let (last, others) = kinds.split_last().expect("there are kinds");
    format!("{} or {last}", others.join(", "))
}

fn outputs(config: &Config, findings: &mut Findings) {
    let section = Place::section("output");
    if config.output.len() > OUTPUTS_MAX {
        let text = format!("{} outputs: at most {OUTPUTS_MAX}", config.output.len());
        findings.error(section.to(OUTPUTS_MAX), text);
    }
    for (index, output) in config.output.iter().enumerate() {
        let place = section.to(index);
        let given: Vec<&str> = output.kinds().map(OutputKind::name).collect();
        one_kind(&given, &all_of(&OutputConfig::keys()), &place, findings);
        output.kinds().for_each(|kind| kind.check(&place.to(kind.name()), findings));
        if let Some(name) = &output.name {
            name_is_good(name, place.to("name"), findings);
        }
        let same = |other: &&OutputConfig| other.label() == output.label();
        if config.output[..index].iter().any(|other| same(&other)) && !given.is_empty() {
            let text = format!(
                "an output {:?} stands above: name = \"...\" makes them two",
                output.label()
            );
            let key = if output.name.is_some() { place.to("name") } else { place.clone() };
            findings.error(key, text);
        }
    }
}

/// Outputs that share an uplink must say the same about it.
fn uplinks(config: &Config, findings: &mut Findings) {
    for (index, output) in config.output.iter().enumerate() {
        let place = Place::section("output").to(index);
        if output.law() == RateControllerName::Known && output.rate.cap().is_none() {
            let text = "\"known\" needs to know the rate: give rate = \"18mbit\", or another law";
            findings.error(place.to("law"), text);
        }
        let is_link = |output: &OutputConfig| output.below() == Below::Paths;
        let shares = |other: &&OutputConfig| {
            other.uplink() == output.uplink() && !is_link(other) && !is_link(output)
        };
        let Some(other) = config.output[..index].iter().find(shares) else { continue };
        for (key, differs) in [
            ("rate", other.rate != output.rate),
            ("law", other.law() != output.law()),
            ("queue", other.queue != output.queue),
        ] {
            if differs {
                let text = format!(
                    "differs from that of output {:?}, which shares the uplink {:?}: say the same, or \
                     give one of them an uplink of its own with uplink = \"...\"",
                    other.label(),
                    output.uplink()
                );
                findings.error(place.to(key), text);
            }
        }
    }
}

/// No two listeners of one file on one address, and none on an address that another one covers.
fn listeners(config: &Config, findings: &mut Findings) {
    let all = config.listening(FileKind::NodeAndProxy);
    for (index, listening) in all.iter().enumerate() {
        let Some(before) = all[..index].iter().find(|before| before.excludes(listening)) else {
            continue;
        };
        let (address, other) = (listening.address, before.address);
        let text = match address == other {
            true => format!("{address} is listened on already: choose another port"),
            false => format!(
                "{address} and {other} ({}) take the same port: choose another one, or keep the wider address",
                before.place
            ),
        };
        findings.error(listening.place.clone(), text);
    }
}
