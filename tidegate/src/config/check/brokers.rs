//! Clients of existing brokers: what they need, and that no record goes round in circles.

use tidegate_types::topic::Filter;

use super::security::far_end;
use super::{Findings, one_password};
use crate::config::outputs::Url;
use crate::config::places::Place;
use crate::config::{Config, MqttClientConfig, OutputKind};

/// What one `mqtt_client` must have.
pub(super) fn client(client: &MqttClientConfig, place: &Place, findings: &mut Findings) {
    match &client.url {
        None => findings.error(place.clone(), "no url: give url = \"mqtt://10.0.0.3\""),
        Some(url) => match Url::parse(url, "mqtt") {
            Ok(url) => far_end(client.tls_keys(), "mqtt", &url, place, findings),
            Err(text) => findings.error(place.to("url"), text),
        },
    }
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
        let Some(broker) = broker(client.url.as_deref()) else { continue };
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
fn broker(url: Option<&str>) -> Option<String> {
    let url = Url::parse(url?, "mqtt").ok()?;
    Some(format!("{}:{}", url.host.to_ascii_lowercase(), url.port))
}

/// The output that sends some of the client's topics to the client's own broker.
fn returns<'c>(config: &'c Config, client: &MqttClientConfig, own: &str) -> Option<&'c str> {
    for (place, output) in config.output.iter().enumerate() {
        let is_own = output.kinds().any(|kind| match kind {
            OutputKind::Mqtt(mqtt) => broker(mqtt.url.as_deref()).as_deref() == Some(own),
            OutputKind::Amqp(_)
            | OutputKind::Link(_)
            | OutputKind::Sink(_)
            | OutputKind::Frames => false,
        });
        let leads_here = |to: &Option<Vec<String>>| match to {
            None => place == 0,
            Some(to) => to.iter().any(|name| name == output.label()),
        };
        let some = |topics: &Option<Vec<String>>| match topics {
            None => true,
            Some(topics) => topics.iter().any(|topic| is_taken(client, topic)),
        };
        let mut rules = config.stream.iter();
        let by_rule = rules.any(|stream| leads_here(&stream.to) && some(&stream.topics));
        // What no rule takes goes to the first output.
        let has_rest = config.stream.iter().all(|stream| stream.topics.is_some());
        if is_own && (by_rule || has_rest && place == 0) {
            return Some(output.label());
        }
    }
    None
}

fn is_taken(client: &MqttClientConfig, filter: &str) -> bool {
    let levels = |filter: &str| filter.split('/').map(str::to_owned).collect::<Vec<_>>();
    client.topics.iter().any(|topic| overlap(&levels(unshared(topic)), &levels(filter)))
}

/// The filter of a shared subscription, or the filter itself.
fn unshared(topic: &str) -> &str {
    let shared = topic.strip_prefix("$share/").and_then(|rest| rest.split_once('/'));
    shared.map_or(topic, |(_, filter)| filter)
}

/// Whether a topic can match both filters.
fn overlap(one: &[String], other: &[String]) -> bool {
    let (is_rest, is_any) = (|level: &String| level == "#", |level: &String| level == "+");
    match (one, other) {
        ([level, ..], _) if is_rest(level) => true,
        (_, [level, ..]) if is_rest(level) => true,
        ([level, one @ ..], [opposite, other @ ..]) => {
            (is_any(level) || is_any(opposite) || level == opposite) && overlap(one, other)
        }
        (one, other) => one.is_empty() && other.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    #[test]
    fn filters_overlap_where_a_topic_matches_both() {
        let overlap = |one: &str, other: &str| {
            let levels = |text: &str| text.split('/').map(str::to_owned).collect::<Vec<_>>();
            overlap(&levels(one), &levels(other))
        };
        for (one, other) in
            [("#", "a/b"), ("a", "a/#"), ("a/+", "+/b"), ("a/b", "a/b"), ("+/#", "x")]
        {
            assert!(overlap(one, other) && overlap(other, one), "{one} {other}");
        }
        for (one, other) in [("a", "b"), ("a/+", "a"), ("a/b/#", "a/c"), ("+", "a/b")] {
            assert!(!overlap(one, other) && !overlap(other, one), "{one} {other}");
        }
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
