//! The `[[stream]]` tables: filters, names they lead to, and streams that another one hides.

use tidegate_types::class::default_classes;
use tidegate_types::limits::RULES_MAX;
use tidegate_types::topic::Filter;
use tidegate_types::units::Size;

use super::{Findings, name_is_good};
use crate::config::nearest::suggest;
use crate::config::places::Place;
use crate::config::{Accept, Config, Full, StreamConfig};

pub(super) fn check(config: &Config, findings: &mut Findings) {
    super::scripts::check(config, findings);
    let section = Place::section("stream");
    // One place is for the rule that takes what no stream matches.
    if config.stream.len() >= RULES_MAX {
        let text = format!("{} streams: at most {}", config.stream.len(), RULES_MAX - 1);
        findings.error(section.to(RULES_MAX - 1), text);
        return;
    }
    let mut above: Vec<Above> = Vec::new();
    for (index, stream) in config.stream.iter().enumerate() {
        let place = section.to(index);
        label(&config.stream[..index], stream, &place, findings);
        promise(config, stream, &place, findings);
        destinations(config, stream, &place, findings);
        bounds(config, stream, &place, findings);
        let filters = filters(stream, &place, findings);
        hidden(stream, &filters, &above, &place, findings);
        above.push(Above { label: stream.label().into(), filters });
    }
}

/// A stream that stands above the present one.
struct Above {
    label: String,
    /// `None` takes everything; so does a list with one `None`.
    filters: Vec<Option<Filter>>,
}

fn label(above: &[StreamConfig], stream: &StreamConfig, place: &Place, findings: &mut Findings) {
    if let Some(name) = &stream.name {
        name_is_good(name, place.to("name"), findings);
    }
    let same = above.iter().any(|other| other.label() == stream.label());
    let taken = stream.name.as_deref() == Some("default") && stream.topics.is_some();
    if same && stream.name.is_some() {
        let text = format!("a stream {:?} stands above: rename one", stream.label());
        findings.error(place.to("name"), text);
    } else if same && stream.topics.is_some() {
        let text = format!(
            "a stream {:?} stands above: join the two, or give this one a name",
            stream.label()
        );
        findings.error(place.clone(), text);
    } else if taken {
        let text = "\"default\" is the stream of what no other one matches: choose another name";
        findings.error(place.to("name"), text);
    }
}

fn promise(config: &Config, stream: &StreamConfig, place: &Place, findings: &mut Findings) {
    let Some(class) = &stream.class else { return };
    if stream.latency.is_some() {
        findings.error(place.to("class"), "latency is given too: keep one of the two");
    }
    let defaults = default_classes();
    let names: Vec<&str> = if config.class.is_empty() {
        defaults.iter().map(|spec| &*spec.name).collect()
    } else {
        config.class.iter().filter_map(|class| class.name.as_deref()).collect()
    };
    if !names.contains(&class.as_str()) {
        let text = format!("no class {class:?}: {}", suggest(class, names));
        findings.unknown(place.to("class"), "class", text);
    }
}

fn destinations(config: &Config, stream: &StreamConfig, place: &Place, findings: &mut Findings) {
    let Some(to) = &stream.to else { return };
    let place = place.to("to");
    let names: Vec<&str> = if config.output.is_empty() {
        vec!["sink"]
    } else {
        config.output.iter().map(|output| output.label()).collect()
    };
    for (index, name) in to.iter().enumerate() {
        if to[..index].contains(name) {
            findings.error(place.to(index), format!("{name:?} is named twice: name it once"));
        } else if !names.contains(&name.as_str()) {
            let text = format!("no output {name:?}: {}", suggest(name, names.clone()));
            findings.unknown(place.to(index), "output", text);
        }
    }
}

fn bounds(config: &Config, stream: &StreamConfig, place: &Place, findings: &mut Findings) {
    let default = StreamConfig::default();
    let memory = stream.memory.0;
    if memory != default.memory.0 && memory > config.limits.memory.0 {
        let text = format!(
            "more than the {} of limits.memory: the whole node's bound comes first",
            config.limits.memory
        );
        findings.warning(place.to("memory"), text);
    }
    let is_durable = match stream.accept {
        None => config.log.directory.is_some(),
        Some(accept) => accept == Accept::Durable,
    };
    match &stream.stored {
        Some(_) if !is_durable => {
            let text = "has no effect: its records are not in a log (accept = \"durable\")";
            findings.warning(place.to("stored"), text);
        }
        Some(stored) if stored.0 < Size::from_kib(1) => {
            findings.error(place.to("stored"), "no record fits: give at least 1KiB");
        }
        Some(stored) if stored.0 > config.log.bound.0 => {
            let text =
                format!("more than the {} of log.bound, which comes first", config.log.bound);
            findings.warning(place.to("stored"), text);
        }
        _ => {}
    }
    if stream.block_max != default.block_max && stream.full != Full::Block {
        findings.warning(place.to("block_max"), "has no effect: full is not \"block\"");
    }
}

/// The filters that are right; one that is not is told.
fn filters(stream: &StreamConfig, place: &Place, findings: &mut Findings) -> Vec<Option<Filter>> {
    let place = place.to("topics");
    let Some(topics) = &stream.topics else { return vec![None] };
    if topics.is_empty() {
        findings.error(place, "nothing can match: name a topic filter, or leave it out for all");
        return Vec::new();
    }
    let mut filters = Vec::new();
    for (index, topic) in topics.iter().enumerate() {
        match Filter::new(topic) {
            Ok(filter) => filters.push(Some(filter)),
            Err(error) => findings.error(place.to(index), error.to_string()),
        }
    }
    filters
}

/// Tells what can never match because a stream above takes all of it.
fn hidden(
    stream: &StreamConfig,
    filters: &[Option<Filter>],
    above: &[Above],
    place: &Place,
    findings: &mut Findings,
) {
    let hides = |filter: &Option<Filter>| {
        let covers = |upper: &Option<Filter>| covers(upper.as_ref(), filter.as_ref());
        above.iter().find(|upper| upper.filters.iter().any(covers))
    };
    let hidden: Vec<Option<&Above>> = filters.iter().map(hides).collect();
    if hidden.is_empty() || hidden.iter().all(Option::is_none) {
        return;
    }
    let topics = stream.topics.as_deref().unwrap_or_default();
    if let Some(all) = hidden.iter().copied().collect::<Option<Vec<&Above>>>() {
        let text = format!(
            "never matches: stream {:?} above takes all of it; move this one before it",
            all[0].label
        );
        findings.warning(place.clone(), text);
    } else if topics.len() == filters.len() {
        for (index, upper) in hidden.iter().enumerate() {
            let Some(upper) = upper else { continue };
            let text = format!("never matches: stream {:?} above takes all of it", upper.label);
            findings.warning(place.to("topics").to(index), text);
        }
    }
}

/// Whether every topic that `lower` matches is matched by `upper`; `None` matches every topic.
fn covers(upper: Option<&Filter>, lower: Option<&Filter>) -> bool {
    let (upper, lower) = match (upper, lower) {
        (None, _) => return true,
        (Some(_), None) => return false,
        (Some(upper), Some(lower)) => (upper.as_str(), lower.as_str()),
    };
    // Wildcards at the front do not reach topics that begin with `$`.
    if lower.starts_with('$') && upper.starts_with(['+', '#']) {
        return false;
    }
    let (mut upper, mut lower) = (upper.split('/'), lower.split('/'));
    loop {
        match (upper.next(), lower.next()) {
            (Some("#"), _) | (None, None) => return true,
            (Some("+"), Some(level)) if level != "#" => {}
            (Some(exact), Some(level)) if exact == level && level != "#" => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wider_filter_covers_a_narrower_one() {
        let cases = [
            ("#", "a/b", true),
            ("#", "#", true),
            ("#", "$SYS/#", false),
            ("a/#", "a", true),
            ("a/#", "a/+/c", true),
            ("a/#", "a/#", true),
            ("a/+", "a/b", true),
            ("a/+", "a/+", true),
            ("a/+", "a/#", false),
            ("a/b", "a/+", false),
            ("+/b", "a/b", true),
            ("+/b", "$a/b", false),
            ("a", "a/b", false),
            ("a/b", "a", false),
            ("a/+/#", "a/#", false),
        ];
        for (upper, lower, expected) in cases {
            let filter = |text| Filter::new(text).unwrap();
            let covered = covers(Some(&filter(upper)), Some(&filter(lower)));
            assert_eq!(covered, expected, "{upper} {lower}");
        }
        assert!(covers(None, None) && !covers(Some(&Filter::new("#").unwrap()), None));
    }
}
