//! Keys that the MQTT output and the MQTT client have in common: `version`, `topic`, and those of a login.

use std::path::PathBuf;

use anyhow::Context;
use tidegate_mqtt::Version;
use tidegate_mqtt::topics::{There, TopicLine, TopicMap};
use tidegate_types::topic::{Filter, FilterError};

use super::findings::Findings;
use super::places::Place;
use super::secrets::{self, Secret};
use super::table::{choices, keys};
use crate::support::password::{Password, PasswordSource};

choices! {
    /// `version` of an MQTT output or client.
    pub enum MqttVersion: Copy, Eq {
        /// MQTT 5, and 3.1.1 with a broker that knows no better.
        Auto = "auto",
        /// MQTT 3.1.1.
        V311 = "3.1.1",
        /// MQTT 5.
        V5 = "5",
    }
}

impl MqttVersion {
    /// The one that is spoken; `None` is 5, and 3.1.1 with a broker that knows no better.
    pub fn fixed(self) -> Option<Version> {
        match self {
            MqttVersion::Auto => None,
            MqttVersion::V311 => Some(Version::V311),
            MqttVersion::V5 => Some(Version::V5),
        }
    }
}

choices! {
    /// `direction` of a `topic`.
    pub enum Direction: Copy, Eq {
        /// From here to the far end.
        Out = "out",
        /// From the far end to here.
        In = "in",
        /// Both.
        Both = "both",
    }
}

keys! {
    /// An entry of `topic` of an MQTT output or client.
    pub struct TopicConfig: Eq {
        /// Filter of topics, without the prefixes. An empty one: the prefixes are the topics themselves.
        pub pattern: String = "#".into(),
        /// An output has out, an mqtt_client in.
        pub direction: Option<Direction>; sample("out"),
        /// What an output sends has 1; a client subscribes with 0, 1 or 2.
        pub qos: Option<u8>; sample("1") between(0, 2, "is 0, 1 or 2"),
        /// What the topics begin with here, in front of the pattern.
        pub local_prefix: String = String::new(),
        /// What they begin with at the far end.
        pub remote_prefix: String = String::new(),
        /// In place of remote_prefix, of an output: one topic for all of them; %t in it is the topic here, percent-encoded.
        pub remote_topic: Option<String>; apart("devices/gate-7/messages/events/topic=%t"),
    }
}

impl TopicConfig {
    /// What it says, if it is right.
    pub fn line(&self) -> Option<TopicLine> {
        let pattern = match self.pattern.as_str() {
            "" => None,
            text => Some(Filter::new(text).ok()?),
        };
        let prefix = || There::Prefix(self.remote_prefix.clone());
        let there = self.remote_topic.clone().map_or_else(prefix, There::One);
        Some(TopicLine { pattern, here: self.local_prefix.clone(), there })
    }

    /// A prefix and the pattern are one filter when they are joined.
    fn check_joined(&self, place: &Place, findings: &mut Findings) {
        if self.pattern.is_empty() || Filter::new(&self.pattern).is_err() {
            return;
        }
        let prefixes =
            [("local_prefix", &self.local_prefix), ("remote_prefix", &self.remote_prefix)];
        for (key, prefix) in prefixes {
            if prefix.contains(['+', '#', '\0']) {
                continue;
            }
            match Filter::new(&format!("{prefix}{}", self.pattern)) {
                Ok(_) => {}
                Err(FilterError::Rest(_) | FilterError::One(_)) => {
                    let text = format!(
                        "{prefix:?} and the pattern {:?} make no filter together: end it with /, as in {:?}",
                        self.pattern,
                        format!("{prefix}/"),
                    );
                    findings.error(place.to(key), text);
                }
                Err(error) => findings.error(place.to(key), error.to_string()),
            }
        }
    }

    fn check(&self, end: Direction, place: &Place, findings: &mut Findings) {
        if !self.pattern.is_empty()
            && let Err(error) = Filter::new(&self.pattern)
        {
            findings.error(place.to("pattern"), error.to_string());
        }
        if let Some(direction) = self.direction.filter(|direction| *direction != end) {
            let text = match (end, direction) {
                (Direction::Out, _) => {
                    "an output sends: give direction = \"out\", and what comes back to an [[input]] with \
                     mqtt_client and the same line there with direction = \"in\""
                }
                _ => {
                    "an mqtt_client takes: give direction = \"in\", and what goes out to an [[output]] with mqtt \
                     and the same line there with direction = \"out\""
                }
            };
            findings.error(place.to("direction"), text);
        }
        if end == Direction::Out && self.qos.is_some_and(|qos| qos != 1) {
            let text = "an output sends with QoS 1: a record is ours until the far end has it; give 1, or leave it out";
            findings.error(place.to("qos"), text);
        }
        let texts = [
            ("local_prefix", Some(&self.local_prefix)),
            ("remote_prefix", Some(&self.remote_prefix)),
            ("remote_topic", self.remote_topic.as_ref()),
        ];
        for (key, text) in texts {
            if text.is_some_and(|text| text.contains(['+', '#', '\0'])) {
                findings.error(
                    place.to(key),
                    "a part of a topic has no wildcard: give those to pattern",
                );
            }
        }
        self.check_joined(place, findings);
        let begins_shared = [("remote_prefix", &self.remote_prefix), ("pattern", &self.pattern)]
            .into_iter()
            .find(|(_, text)| text.starts_with("$share/"));
        if let Some((key, _)) = begins_shared.filter(|_| end == Direction::In) {
            let text = "a shared subscription has no prefixes: give it to topics";
            findings.error(place.to(key), text);
        }
        if let Some(topic) = &self.remote_topic {
            if end == Direction::In {
                findings.error(place.to("remote_topic"), "is an output's: give remote_prefix");
            } else if topic.is_empty() || !self.remote_prefix.is_empty() {
                let text =
                    "one of the two names the far end's topic: give remote_prefix or remote_topic";
                findings.error(place.to("remote_topic"), text);
            }
        }
        let is_bare = |prefix: &String| prefix.is_empty();
        let has_topics = self.remote_topic.is_some() || !is_bare(&self.remote_prefix);
        if self.pattern.is_empty() && (is_bare(&self.local_prefix) || !has_topics) {
            let text =
                "without a pattern the prefixes are two topics: give both, or pattern = \"#\"";
            findings.error(place.to("pattern"), text);
        }
    }
}

/// The lines of a table.
pub fn map(lines: &[TopicConfig]) -> TopicMap {
    TopicMap(lines.iter().filter_map(TopicConfig::line).collect())
}

/// What is wrong with the lines of an output (`Out`) or a client (`In`) at `place`.
pub(crate) fn check_topics(
    lines: &[TopicConfig],
    end: Direction,
    place: &Place,
    findings: &mut Findings,
) {
    for (index, line) in lines.iter().enumerate() {
        line.check(end, &place.to("topic").to(index), findings);
    }
}

/// The keys of a login.
#[derive(Clone, Copy, Debug)]
pub struct LoginKeys<'a> {
    /// `user`.
    pub user: &'a Option<String>,
    /// `password_env`.
    pub variable: &'a Option<String>,
    /// `password_file`.
    pub file: &'a Option<PathBuf>,
    /// `password_command`.
    pub command: &'a [String],
}

impl<'a> LoginKeys<'a> {
    /// Those that name a secret.
    pub fn secrets(self) -> Vec<Secret<'a>> {
        Secret::password(self.variable, self.file).collect()
    }

    /// Where the password comes from, if there is one.
    ///
    /// # Errors
    /// There is no such variable, or the file cannot be read.
    pub fn password(self) -> anyhow::Result<Option<Password>> {
        let source = match (self.file, self.command) {
            (_, [_, ..]) => PasswordSource::Command(self.command.to_vec()),
            (Some(file), _) => PasswordSource::File(file.clone()),
            (None, _) => match secrets::password(self.variable.as_deref(), None)? {
                Some(password) => PasswordSource::Fixed(password),
                None => return Ok(None),
            },
        };
        let file = self.file.as_deref().unwrap_or_else(|| "".as_ref());
        let password = Password::new(source);
        Ok(Some(password.with_context(|| format!("password_file: {}", file.display()))?))
    }

    /// What is wrong with them at `place`.
    pub(crate) fn check(self, place: &Place, findings: &mut Findings) {
        secrets::one_password(self.variable, self.file, place, findings);
        let is_kept = self.variable.is_some() || self.file.is_some();
        if is_kept && !self.command.is_empty() {
            let text = "the password is given by another key too: keep one of them";
            findings.error(place.to("password_command"), text);
        }
        if self.user.is_none() && (is_kept || !self.command.is_empty()) {
            findings.error(place.clone(), "a password without a user: give user = \"...\"");
        }
    }
}
