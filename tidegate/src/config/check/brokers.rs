//! Clients of existing brokers: what they need, and that no record goes round in circles.

use tidegate_types::topic::Filter;

use super::Findings;
use crate::config::places::Place;
use crate::config::{Config, MqttClientConfig, OutputConfig};
use crate::keys::far_end::FarEnd;
use crate::keys::secrets::one_password;

/// What one `mqtt_client` must have.
pub(super) fn client(client: &MqttClientConfig, place: &Place, findings: &mut Findings) {
    client.far_end().check("10.0.0.3", place, findings);
    if client.topics.is_empty() {
        findings.error(place.to("topics"), "nothing would come: give topics = [\"#\"]");
    }
    for (index, topic) in client.topics.iter().enumerate() {
        if let Err(error) = Filter::new(unshared(topic)) {
            findings.error(place.to("topics").to(index), format!("{topic:?}: {error}"));
        }
    }
    if client.qos > 2 {
        findings.error(place.to("qos"), "is 0, 1 or 2");
    }
    if client.client_id.as_ref().is_some_and(String::is_empty) {
        let text = "the broker keeps the session under it: give a name, or leave the key out";
        findings.error(place.to("client_id"), text);
    }
    one_password(&client.password_env, &client.password_file, place, findings);
    let has_password = client.password_env.is_some() || client.password_file.is_some();
    if client.user.is_none() && has_password {
        findings.error(place.clone(), "a password without a user: give user = \"...\"");
    }
}

/// No two clients of one name at a broker, and no loop: what is taken from a broker must not be sent to
/// it again.
pub(super) fn check(config: &Config, findings: &mut Findings) {
    let node = config.node.name();
    let mut names: Vec<(String, String)> = Vec::new();
    for (index, input) in config.input.iter().enumerate() {
        let Some(client) = &input.mqtt_client else { continue };
        let place = Place::section("input").to(index).to("mqtt_client");
        let Some(broker) = broker(client.far_end()) else { continue };
        let name = (broker.clone(), client.client_id(&node));
        if names.contains(&name) {
            let text = format!(
                "a client {:?} of this broker stands above, and the two would end each other: give \
                 client_id = \"...\"",
                name.1
            );
            findings.error(place.clone(), text);
        }
        names.push(name);
        if client.allow_loop {
            continue;
        }
        if let Some(output) = returns(config, client, &broker) {
            let text = format!(
                "records of these topics go back to the same broker by output {output:?}, and come \
                 again for ever: take other topics, or say allow_loop = true if the broker maps them"
            );
            findings.error(place.to("url"), text);
        }
    }
}

/// Host and port in one form.
fn broker(far_end: FarEnd<'_>) -> Option<String> {
    let url = far_end.url().ok()?;
    Some(format!("{}:{}", url.host.to_ascii_lowercase(), url.port))
}

/// The output that sends some of the client's topics to the client's own broker.
fn returns<'c>(config: &'c Config, client: &MqttClientConfig, own: &str) -> Option<&'c str> {
    let is_own = |output: &&OutputConfig| {
        let broker = output.mqtt.as_ref().and_then(|mqtt| broker(mqtt.far_end()));
        broker.as_deref() == Some(own)
    };
    let first = config.output.first().map(OutputConfig::label);
    let goes_back = |topic: &str| {
        let to = destinations(config, topic, first);
        let mut back = config.output.iter().filter(is_own).map(OutputConfig::label);
        back.find(|label| to.contains(label))
    };
    client.topics.iter().find_map(|topic| goes_back(unshared(topic)))
}

/// The outputs that records of a filter may go to: rules in their order, up to one that takes all of them.
fn destinations<'c>(config: &'c Config, topic: &str, first: Option<&'c str>) -> Vec<&'c str> {
    let topic = levels(topic);
    let mut all = Vec::new();
    for stream in &config.stream {
        let filters: Vec<_> = match &stream.topics {
            None => vec![levels("#")],
            Some(topics) => topics.iter().map(|filter| levels(filter)).collect(),
        };
        if filters.iter().any(|filter| overlap(filter, &topic)) {
            match &stream.to {
                None => all.extend(first),
                Some(to) => all.extend(to.iter().map(String::as_str)),
            }
        }
        if filters.iter().any(|filter| covers(filter, &topic)) {
            return all;
        }
    }
    // What no rule takes goes to the first output.
    all.extend(first);
    all
}

fn levels(filter: &str) -> Vec<&str> {
    filter.split('/').collect()
}

/// The filter of a shared subscription, or the filter itself.
fn unshared(topic: &str) -> &str {
    let shared = topic.strip_prefix("$share/").and_then(|rest| rest.split_once('/'));
    shared.map_or(topic, |(_, filter)| filter)
}

/// Whether a topic can match both filters.
fn overlap(one: &[&str], other: &[&str]) -> bool {
    match (one, other) {
        (["#", ..], _) | (_, ["#", ..]) => true,
        ([level, one @ ..], [opposite, other @ ..]) => {
            (*level == "+" || *opposite == "+" || level == opposite) && overlap(one, other)
        }
        (one, other) => one.is_empty() && other.is_empty(),
    }
}

/// Whether the wide filter takes every topic that the narrow one takes.
fn covers(wide: &[&str], narrow: &[&str]) -> bool {
    // A wildcard at the beginning takes no topics of the broker itself, such as $SYS.
    let is_hidden = narrow.first().is_some_and(|level| level.starts_with('$'));
    let is_wild = wide.first().is_some_and(|level| matches!(*level, "#" | "+"));
    !(is_hidden && is_wild) && covers_below(wide, narrow)
}

fn covers_below(wide: &[&str], narrow: &[&str]) -> bool {
    match (wide, narrow) {
        (["#", ..], _) => true,
        (["+", wide @ ..], [level, narrow @ ..]) => *level != "#" && covers_below(wide, narrow),
        ([level, wide @ ..], [same, narrow @ ..]) => level == same && covers_below(wide, narrow),
        (wide, narrow) => wide.is_empty() && narrow.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    #[test]
    fn filters_overlap_where_a_topic_matches_both() {
        let overlap = |one: &str, other: &str| overlap(&levels(one), &levels(other));
        for (one, other) in
            [("#", "a/b"), ("a", "a/#"), ("a/+", "+/b"), ("a/b", "a/b"), ("+/#", "x")]
        {
            assert!(overlap(one, other) && overlap(other, one), "{one} {other}");
        }
        for (one, other) in [("a", "b"), ("a/+", "a"), ("a/b/#", "a/c"), ("+", "a/b")] {
            assert!(!overlap(one, other) && !overlap(other, one), "{one} {other}");
        }
    }

    #[test]
    fn a_filter_covers_another_where_it_takes_all_of_its_topics() {
        let covers = |wide: &str, narrow: &str| covers(&levels(wide), &levels(narrow));
        for (wide, narrow) in
            [("#", "a/b"), ("#", "#"), ("a/#", "a"), ("a/#", "a/+/c/#"), ("+/b", "a/b"), ("+", "+")]
        {
            assert!(covers(wide, narrow), "{wide} {narrow}");
        }
        for (wide, narrow) in [
            ("a/b", "a/+"),
            ("a/+", "a/#"),
            ("a", "a/#"),
            ("+/b", "+/+"),
            ("#", "$SYS/a"),
            ("+/a", "$SYS/a"),
        ] {
            assert!(!covers(wide, narrow), "{wide} {narrow}");
        }
    }

    #[test]
    fn a_bridge_of_two_ways_is_right_where_each_topic_goes_one_way() {
        let both = |down: &str| {
            let rules = format!(
                "[[stream]]\ntopics = [\"cmd/#\"]\nto = {down}\n\
                 [[stream]]\ntopics = [\"sensors/#\"]\nto = [\"cloud\"]\n\
                 [[output]]\nname = \"cloud\"\nmqtt.url = \"mqtt://b\"\n\
                 [[output]]\nname = \"plant\"\nmqtt.url = \"mqtt://plant\"\n"
            );
            told("topics = [\"cmd/#\"]", &rules)
        };
        assert_eq!(both("[]"), "");
        assert_eq!(both("[\"plant\"]"), "");
        assert!(both("[\"plant\", \"cloud\"]").contains("come again for ever"));
        // A rule that takes only a part leaves the rest to those below, and at last to the first output.
        let part =
            "[[stream]]\ntopics = [\"cmd/now\"]\nto = []\n[[output]]\nmqtt.url = \"mqtt://b\"\n";
        assert!(told("topics = [\"cmd/#\"]", part).contains("come again for ever"));
        let earlier = "[[stream]]\ntopics = [\"#\"]\nto = []\n[[stream]]\ntopics = [\"cmd/#\"]\n\
                       [[output]]\nmqtt.url = \"mqtt://b\"\n";
        assert!(!told("topics = [\"cmd/#\"]", earlier).contains("come again for ever"));
    }

    fn told(input: &str, rest: &str) -> String {
        let text = format!("[[input]]\nmqtt_client = {{ url = \"mqtt://b\", {input} }}\n{rest}");
        read(&text).render("node.toml", &text)
    }

    #[test]
    fn a_record_must_not_go_round() {
        let output = "[[output]]\nmqtt.url = \"mqtt://B:1883\"\n";
        assert!(told("", output).contains("come again for ever"));
        assert_eq!(told("allow_loop = true", output), "");
        assert_eq!(told("", "[[output]]\nmqtt.url = \"mqtt://b:1884\"\n"), "");
        let streams = "[[stream]]\ntopics = [\"up/#\"]\n[[stream]]\nto = [\"disk\"]\n\
                       [[output]]\nname = \"b\"\nmqtt.url = \"mqtt://b\"\n\
                       [[output]]\nname = \"disk\"\nsink = {}\n";
        assert_eq!(told("topics = [\"down/#\"]", streams), "");
        assert!(told("topics = [\"$share/g/up/+\"]", streams).contains("come again"));
    }

    #[test]
    fn mistakes_are_told() {
        assert!(told("topics = [\"a#\"]", "").contains("a#"));
        assert!(told("topics = []", "").contains("nothing would come"));
        assert!(told("qos = 3", "").contains("0, 1 or 2"));
        assert!(told("password_env = \"P\"", "").contains("without a user"));
        let twice = "[[input]]\nmqtt_client.url = \"mqtt://b\"\n";
        assert!(told("", twice).contains("end each other"));
    }
}
