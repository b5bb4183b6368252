//! Checks `[[class]]`.

use tidegate_types::limits::CLASSES_MAX;

use super::{Findings, name_is_good};
use crate::config::places::Place;
use crate::config::{ClassConfig, Config};

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let section = Place::section("class");
    if config.class.len() > CLASSES_MAX {
        let text = format!("{} classes: at most {CLASSES_MAX}", config.class.len());
        findings.error(section.to(CLASSES_MAX), text);
    }
    for (index, class) in config.class.iter().enumerate() {
        class_is_good(config, index, class, &section.to(index), findings);
    }
    let shares = config.class.iter().map(|class| class.min_share);
    if shares.sum::<f64>() > 1.0 + 1e-9 {
        let text = "the min_share of all classes together is more than 1: lower some";
        findings.error(section, text);
    }
}

fn class_is_good(
    config: &Config,
    index: usize,
    class: &ClassConfig,
    place: &Place,
    findings: &mut Findings,
) {
    let before = &config.class[..index];
    match &class.name {
        None => findings.error(place.clone(), "no name: give name = \"ls\""),
        Some(name) if before.iter().any(|other| other.name.as_ref() == Some(name)) => {
            findings.error(place.to("name"), format!("a class {name:?} stands above: rename one"));
        }
        Some(name) => name_is_good(name, place.to("name"), findings),
    }
    let above = before.last().and_then(|class| class.latency);
    match (class.latency, above) {
        (None, _) => findings.error(place.clone(), "no latency: give latency = \"50ms\""),
        (Some(own), Some(above)) if own <= above && !own.0.is_zero() => {
            let text = format!(
                "{own} is not larger than the {above} of the class above: list the most urgent class \
                 first"
            );
            findings.error(place.to("latency"), text);
        }
        _ => {}
    }
}
