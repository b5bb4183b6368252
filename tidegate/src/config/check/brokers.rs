//! Clients of existing brokers: what they need, and that no record goes round in circles.

use tidegate_mqtt::topics::TopicLine;
use tidegate_types::class::default_classes;
use tidegate_types::topic::Filter;

use super::Findings;
use crate::config::places::Place;
use crate::config::{Config, MqttClientConfig, OutputConfig};
use crate::keys::far_end::FarEnd;
use crate::keys::mqtt::{self, Direction};
use crate::output::mqtt::MqttOutputConfig;

/// What one `mqtt_client` must have.
pub(in crate::config) fn client(client: &MqttClientConfig, place: &Place, findings: &mut Findings) {
    client.far_end().check("10.0.0.3", place, findings);
    client.far_end().check_alpn(client.alpn.as_deref(), place, findings);
    if client.far_end().url().is_ok_and(|url| url.hosts.len() > 1) {
        let text = "one host only: what a broker keeps for a client is there alone";
        findings.error(place.to("url"), text);
    }
    mqtt::check_topics(&client.topic, Direction::In, place, findings);
    if !client.topic.is_empty() && client.topics != MqttClientConfig::default().topics {
        let text = "topic says what comes, too: keep one of the two";
        findings.error(place.to("topics"), text);
    }
    if client.topics.is_empty() && client.topic.is_empty() {
        findings.error(place.to("topics"), "nothing would come: give topics = [\"#\"]");
    }
    for (index, (topic, _)) in client.comes().iter().enumerate() {
        if client.topic.is_empty()
            && let Err(error) = Filter::new(topic)
        {
            findings.error(place.to("topics").to(index), format!("{topic:?}: {error}"));
        }
    }
    if client.client_id.as_ref().is_some_and(String::is_empty) {
        let text = "the broker keeps the session under it: give a name, or leave the key out";
        findings.error(place.to("client_id"), text);
    }
    client.login().check(place, findings);
}

/// No two clients of one name at a broker, and no loop: what is taken from a broker must not be sent to
/// it again.
pub(super) fn check(config: &Config, findings: &mut Findings) {
    let node = config.node.name();
    unnamed(config, findings);
    // Where none is configured there are the default ones.
    let classes = match config.class.len() {
        0 => default_classes().len(),
        count => count,
    };
    let mut names: Vec<(String, String)> = Vec::new();
    for (index, output) in config.output.iter().enumerate() {
        let Some(mqtt) = &output.mqtt else { continue };
        let ids = mqtt.client_ids(&node, output.label(), classes);
        let pairs = |broker: String| ids.iter().map(move |id| (broker.clone(), id.clone()));
        let own = brokers(mqtt.far_end()).into_iter().flat_map(pairs).collect();
        add(own, &mut names, &Place::section("output").to(index).to("mqtt"), findings);
    }
    for (index, input) in config.input.iter().enumerate() {
        let Some(client) = &input.mqtt_client else { continue };
        let place = Place::section("input").to(index).to("mqtt_client");
        let Some(broker) = brokers(client.far_end()).into_iter().next() else { continue };
        let own = vec![(broker.clone(), client.client_id(&node))];
        add(own, &mut names, &place, findings);
        if client.allow_loop {
            continue;
        }
        if let Some((topic, way)) = returns(config, client, &broker) {
            let Way { stream, output } = way;
            let by = match stream {
                Some(stream) => format!("[[stream]] {stream:?} sends them to"),
                None => "no [[stream]] takes them, so they go to the first output,".into(),
            };
            let text = format!(
                "records of {topic:?} go back to the same broker and come again for ever: {by} {output:?}; give \
                 them a [[stream]] before it with topics = [{topic:?}] and to = [] (subscribers here) or another \
                 output, or say allow_loop = true if the broker maps them"
            );
            findings.error(place.to("url"), text);
        }
    }
}

/// Adds clients of brokers, each a broker and a client id: a broker lets each id in only once.
fn add(
    own: Vec<(String, String)>,
    names: &mut Vec<(String, String)>,
    place: &Place,
    findings: &mut Findings,
) {
    if let Some((_, id)) = own.iter().find(|one| names.contains(one)) {
        let text = format!(
            "a client {id:?} of this broker stands above, and the two would end each other: give client_id = \"...\""
        );
        findings.error(place.clone(), text);
    }
    names.extend(own);
}

/// Hosts and ports in one form.
fn brokers(far_end: FarEnd<'_>) -> Vec<String> {
    let hosts = far_end.url().map(|url| url.hosts).unwrap_or_default();
    hosts.iter().map(|host| host.to_string().to_ascii_lowercase()).collect()
}

/// How a record leaves: the stream that says so, or none, and the output.
#[derive(Clone, Copy, Debug)]
struct Way<'c> {
    stream: Option<&'c str>,
    output: &'c str,
}

/// The topics of the client that an output sends to the client's own broker, and how they come there.
fn returns<'c>(
    config: &'c Config,
    client: &'c MqttClientConfig,
    own: &str,
) -> Option<(String, Way<'c>)> {
    let to_own = |label: &str| {
        let output = config.output.iter().find(|output| output.label() == label)?;
        let mqtt = output.mqtt.as_ref()?;
        brokers(mqtt.far_end()).iter().any(|broker| broker == own).then_some(mqtt)
    };
    client.comes().iter().find_map(|(here, there)| {
        let goes_back = |(part, way): &(String, Way<'c>)| {
            to_own(way.output).is_some_and(|mqtt| sends_as(mqtt, part, there))
        };
        ways(config, here).into_iter().find(goes_back)
    })
}

/// Whether an output sends records of these topics by names that a subscription takes.
fn sends_as(mqtt: &MqttOutputConfig, part: &str, subscribed: &str) -> bool {
    let meet = |one: &str, other: &str| common(&levels(one), &levels(other)).is_some();
    let lines = mqtt::map(&mqtt.topic).0;
    let by = |line: &TopicLine| meet(&line.here(), part) && meet(&line.there(), subscribed);
    if lines.is_empty() { meet(part, subscribed) } else { lines.iter().any(by) }
}

/// Records whose topics have no name at the far end of an output.
fn unnamed(config: &Config, findings: &mut Findings) {
    // What comes, as far as the configuration says it.
    let clients: Option<Vec<&MqttClientConfig>> =
        config.input.iter().map(|input| input.mqtt_client.as_ref()).collect();
    let come: Vec<String> = match clients.as_deref() {
        None | Some([]) => vec!["#".into()],
        Some(all) => all.iter().flat_map(|one| one.comes()).map(|(here, _)| here).collect(),
    };
    let all: Vec<(String, Way<'_>)> = come.iter().flat_map(|topic| ways(config, topic)).collect();
    for (index, output) in config.output.iter().enumerate() {
        let Some(mqtt) = output.mqtt.as_ref().filter(|mqtt| !mqtt.topic.is_empty()) else {
            continue;
        };
        let lines: Vec<String> = mqtt::map(&mqtt.topic).0.iter().map(TopicLine::here).collect();
        let is_named = |part: &str| lines.iter().any(|line| covers(&levels(line), &levels(part)));
        let mut those = all.iter().filter(|(_, way)| way.output == output.label());
        if let Some((part, _)) = those.find(|(part, _)| !is_named(part)) {
            let text = format!(
                "records of {part:?} go to this output, and no entry takes all of them: those are dropped and counted \
                 (refused); give them an entry, or a [[stream]] to another output"
            );
            let place = Place::section("output").to(index).to("mqtt").to("topic");
            findings.warning(place, text);
        }
    }
}

/// The ways that records of a filter may take, each with the part of the topics that takes it: rules in their order,
/// without what earlier ones take, up to one that takes all.
fn ways<'c>(config: &'c Config, topic: &str) -> Vec<(String, Way<'c>)> {
    let topic = levels(topic);
    let first = config.output.first().map(OutputConfig::label);
    let mut taken: Vec<Vec<&str>> = Vec::new();
    let mut all = Vec::new();
    for stream in &config.stream {
        let filters: Vec<Vec<&str>> = match &stream.topics {
            None => vec![levels("#")],
            Some(topics) => topics.iter().map(|filter| levels(filter)).collect(),
        };
        let to: Vec<&str> = match &stream.to {
            None => first.into_iter().collect(),
            Some(to) => to.iter().map(String::as_str).collect(),
        };
        for filter in &filters {
            let Some(part) = common(filter, &topic) else { continue };
            if taken.iter().any(|earlier| covers(earlier, &part)) {
                continue;
            }
            let way = |output| Way { stream: Some(stream.label()), output };
            all.extend(to.iter().map(|output| (part.join("/"), way(*output))));
        }
        taken.extend(filters);
        if taken.iter().any(|filter| covers(filter, &topic)) {
            return all;
        }
    }
    all.extend(first.map(|output| (topic.join("/"), Way { stream: None, output })));
    all
}

/// The filter of the topics that match both, if any can.
fn common<'f>(one: &[&'f str], other: &[&'f str]) -> Option<Vec<&'f str>> {
    let (mut one, mut other, mut both) = (one, other, Vec::new());
    loop {
        match (one, other) {
            ([], []) | ([], ["#"]) | (["#"], []) => return Some(both),
            (["#", ..], rest) | (rest, ["#", ..]) => {
                both.extend_from_slice(rest);
                return Some(both);
            }
            ([level, one_rest @ ..], [opposite, other_rest @ ..]) => {
                both.push(match (*level, *opposite) {
                    ("+", level) | (level, "+") => level,
                    (level, same) if level == same => level,
                    _ => return None,
                });
                (one, other) = (one_rest, other_rest);
            }
            ([], _) | (_, []) => return None,
        }
    }
}

fn levels(filter: &str) -> Vec<&str> {
    filter.split('/').collect()
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
    fn two_filters_have_in_common_what_both_match() {
        let common = |one: &str, other: &str| {
            let part = |one: &str, other: &str| {
                common(&levels(one), &levels(other)).map(|part| part.join("/"))
            };
            assert_eq!(part(one, other), part(other, one));
            part(one, other)
        };
        for (one, other, both) in [
            ("#", "a/b", "a/b"),
            ("a", "a/#", "a"),
            ("a/+", "+/b", "a/b"),
            ("a/b", "a/b", "a/b"),
            ("+/#", "x", "x"),
            ("a/#", "+/+/c/#", "a/+/c/#"),
        ] {
            assert_eq!(common(one, other).as_deref(), Some(both), "{one} {other}");
        }
        for (one, other) in [("a", "b"), ("a/+", "a"), ("a/b/#", "a/c"), ("+", "a/b")] {
            assert_eq!(common(one, other), None, "{one} {other}");
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

    #[test]
    fn what_an_earlier_rule_takes_goes_by_no_later_one() {
        let rules = |first: &str| {
            format!(
                "[[stream]]\ntopics = [\"{first}\"]\nto = []\n\
                 [[stream]]\ntopics = [\"cmd/1/a\", \"sensors/#\"]\nto = [\"cloud\"]\n\
                 [[stream]]\nto = [\"plant\"]\n\
                 [[output]]\nname = \"cloud\"\nmqtt.url = \"mqtt://b\"\n\
                 [[output]]\nname = \"plant\"\nmqtt.url = \"mqtt://plant\"\n"
            )
        };
        let loops = |first: &str| {
            let told = told("topics = [\"cmd/+/a\"]", &rules(first));
            told.contains("come again for ever").then_some(told)
        };
        assert_eq!(loops("cmd/1/#"), None, "the second rule gets none of them");
        let said = loops("cmd/2/#").unwrap();
        assert!(said.contains("records of \"cmd/1/a\" go back"), "{said}");
        assert!(said.contains("[[stream]] \"cmd/1/a\" sends them to \"cloud\""), "{said}");
    }

    #[test]
    fn a_way_back_that_nobody_wrote_is_told_with_its_cure() {
        let said = told(
            "topics = [\"cmd/#\"]",
            "[[stream]]\ntopics = [\"sensors/#\"]\nto = [\"cloud\"]\n\
             [[output]]\nname = \"cloud\"\nmqtt.url = \"mqtt://b\"\n",
        );
        assert!(
            said.contains("no [[stream]] takes them, so they go to the first output, \"cloud\""),
            "{said}"
        );
        assert!(said.contains("topics = [\"cmd/#\"] and to = []"), "{said}");
    }

    #[test]
    fn two_outputs_under_one_client_id_would_end_each_other() {
        let outputs = |one: &str, other: &str| {
            let output = |name: &str, keys: &str| {
                format!("[[output]]\nname = \"{name}\"\nmqtt = {{ url = \"mqtt://b\", {keys} }}\n")
            };
            let text = output("near", one) + &output("far", other);
            read(&text).render("node.toml", &text)
        };
        let one = "connections = \"one\", client_id = \"gate\"";
        assert!(outputs(one, one).contains("a client \"gate\" of this broker stands above"));
        let lanes = "client_id = \"gate\"";
        assert!(outputs(lanes, lanes).contains("a client \"gate-0\" of this broker"));
        assert_eq!(outputs(one, lanes), "", "gate is none of gate-0, gate-1 and gate-2");
        assert_eq!(outputs("connections = \"one\"", "connections = \"one\""), "");
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
    fn lines_tell_a_circle_from_two_ways_and_find_what_has_no_name() {
        let line = |there: &str| {
            format!("[{{ pattern = \"#\", local_prefix = \"in/\", remote_prefix = \"{there}\" }}]")
        };
        let input = format!("topic = {}", line("site/"));
        let to = |there: &str| {
            format!("[[output]]\nmqtt.url = \"mqtt://b\"\nmqtt.topic = {}\n", line(there))
        };
        assert!(told(&input, &to("site/")).contains("come again for ever"));
        assert_eq!(told(&input, &to("up/")), "");
        let said = told("topics = [\"other/#\"]", &to("up/"));
        assert!(said.contains("no entry takes all of them"), "{said}");
    }

    #[test]
    fn mistakes_are_told() {
        assert!(told("topics = [\"a#\"]", "").contains("a#"));
        assert!(told("topics = []", "").contains("nothing would come"));
        assert_eq!(told("qos = 3", "").matches("0, 1 or 2").count(), 1);
        assert!(told("password_env = \"P\"", "").contains("without a user"));
        let line = |line: &str| told(&format!("topic = [{{ {line} }}], allow_loop = true"), "");
        assert_eq!(line("pattern = \"#\", local_prefix = \"a/\", remote_prefix = \"site7/\""), "");
        for key in ["local_prefix", "remote_prefix"] {
            for pattern in ["#", "+/up"] {
                let said = line(&format!("pattern = \"{pattern}\", {key} = \"site7\""));
                assert!(said.contains("end it with /, as in \"site7/\""), "{said}");
            }
        }
        assert_eq!(line("pattern = \"up/#\", remote_prefix = \"site7\""), "");
        let said = line("pattern = \"$share/g/up/#\", local_prefix = \"\"");
        assert!(said.contains("a shared subscription has no prefixes"), "{said}");
        let twice = "[[input]]\nmqtt_client.url = \"mqtt://b\"\n";
        assert!(told("", twice).contains("end each other"));
    }
}
