//! A program that runs on a host of a world.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::World;

/// The program: one of `command`, `tidegate`, `broker`, `client` and `zenoh`. Processes start in their order and end
/// with their world.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Process {
    /// Its name, before each of its lines.
    pub name: String,
    /// Where it runs.
    pub host: String,
    /// Any program and its arguments. `{HOST}` is a host's address, `{HOST.LINK}` the one on that link.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The configuration of a node, as for `tidegate run -c`, with addresses as in a command. The
    /// password of a broker is in the variable `BROKER_PASSWORD`, its user is `tidegate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tidegate: Option<String>,
    /// A broker that listens on all addresses of its host, at its protocol's port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<Broker>,
    /// A job of the lab's own client, as [`crate::load::Job`] has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Value>,
    /// A job of the lab's script for zenoh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zenoh: Option<Value>,
    /// Lines for the end of a broker's configuration; of a command a file of its own, `{settings}` in its words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
    /// What it says when it can serve; the next process starts then. Of the others than commands it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
}

/// A broker that is set up for a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Broker {
    /// RabbitMQ, for AMQP.
    Rabbitmq,
    /// Mosquitto, for MQTT.
    Mosquitto,
    /// NATS, with what `settings` say.
    Nats,
}

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Program<'p> {
    /// Any program and its arguments.
    Command(&'p [String]),
    /// A node of this configuration.
    Tidegate(&'p str),
    /// A broker.
    Broker(Broker),
    /// A client of the lab with this job.
    Client(&'p Value),
    /// A part of zenoh with this job.
    Zenoh(&'p Value),
}

impl Process {
    /// What it is.
    pub fn program(&self) -> Program<'_> {
        match (&self.tidegate, self.broker, &self.client, &self.zenoh) {
            (Some(configuration), ..) => Program::Tidegate(configuration),
            (_, Some(broker), ..) => Program::Broker(broker),
            (_, _, Some(job), _) => Program::Client(job),
            (.., Some(job)) => Program::Zenoh(job),
            _ => Program::Command(&self.command),
        }
    }

    pub(super) fn validate(&self, world: &World) -> anyhow::Result<()> {
        world.has_host(&self.host)?;
        let is_client = self.client.is_some() || self.zenoh.is_some();
        let is_command = !self.command.is_empty();
        let given = [is_command, self.tidegate.is_some(), self.broker.is_some(), is_client];
        let given = given.into_iter().filter(|is_given| *is_given).count();
        ensure!(given == 1, "needs one of command, tidegate, broker, client and zenoh");
        let has_settings = self.broker.is_some() || is_command;
        ensure!(self.settings.is_none() || has_settings, "settings are a broker's or a command's");
        Ok(())
    }
}

/// The word with addresses in the place of `{HOST}` and `{HOST.LINK}`.
///
/// # Errors
/// A name of no host, or of no link of that host.
pub fn fill(word: &str, addresses: &BTreeMap<String, Ipv4Addr>) -> anyhow::Result<String> {
    let mut filled = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let is_name =
            |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '.';
        let end = after.find(|char| !is_name(char)).unwrap_or(after.len());
        let (name, after_name) = after.split_at(end);
        rest = match after_name.strip_prefix('}').filter(|_| !name.is_empty()) {
            Some(after_name) => {
                let address = addresses.get(name).with_context(|| {
                    let known: Vec<&str> = addresses.keys().map(String::as_str).collect();
                    format!("{{{name}}} is no address; there are {}", known.join(", "))
                })?;
                filled.push_str(&address.to_string());
                after_name
            }
            // Braces of somebody else, as in JSON and TOML.
            None => {
                filled.push('{');
                after
            }
        };
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_addresses() {
        let address = Ipv4Addr::new(10, 212, 1, 2);
        let addresses = [("cloud".to_owned(), address), ("cloud.lte".to_owned(), address)].into();
        let filled = |word| fill(word, &addresses).map_err(|error| error.to_string());
        assert_eq!(
            filled("tcp://{cloud}:1883/{cloud.lte}"),
            Ok("tcp://10.212.1.2:1883/10.212.1.2".into())
        );
        assert_eq!(filled("{\"a\": 1} {}"), Ok("{\"a\": 1} {}".into()));
        assert_eq!(filled("{ at = '{cloud}' }"), Ok("{ at = '10.212.1.2' }".into()));
        assert_eq!(
            filled("{moon}"),
            Err("{moon} is no address; there are cloud, cloud.lte".into())
        );
        assert_eq!(filled("a{b"), Ok("a{b".into()));
    }
}
