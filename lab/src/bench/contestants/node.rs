//! Tidegate as a contestant: which scheduler, with a log or without, and where its records go.

use crate::load::mqtt::Version;
use crate::load::{Consume, Job, Source};
use crate::net::namespace::{Link, Side};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::rig::brokers::{self, MQTT_PORT};
use crate::rig::{self, CONNECT};

use super::mosquitto::listener;
use super::{Component, Entrance, Rig};

/// A node and what is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeRig {
    pub(crate) name: &'static str,
    /// As in its configuration.
    pub(crate) scheduler: &'static str,
    /// Whether records are safe on disk before they are acknowledged.
    pub(crate) has_log: bool,
    pub(crate) to: Destination,
    /// `[[stream]]` tables of its configuration.
    pub(crate) streams: &'static str,
}

tidegate_types::named! {
    /// Where a node sends.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Destination: "destination" {
        /// RabbitMQ in the cloud, AMQP.
        RabbitMq = "rabbitmq",
        /// Mosquitto in the cloud, MQTT.
        Mosquitto = "mosquitto",
        /// Files of the embedded sink.
        Files = "files",
        /// The embedded sink confirms and forgets.
        Nothing = "nothing",
    }
}

impl NodeRig {
    pub(super) async fn start(&self, link: &Link, scratch: &Scratch) -> anyhow::Result<Rig> {
        let mut elsewhere = Vec::new();
        let consumer = match self.to {
            Destination::RabbitMq => {
                elsewhere.push(brokers::rabbitmq(link, scratch).await?.quietly());
                Some(consumer(link, Side::Cloud, rig::everything()).await?)
            }
            Destination::Mosquitto => {
                let text = listener(Side::Cloud);
                let cloud = brokers::mosquitto(link, Side::Cloud, scratch, &text).await?;
                elsewhere.push(cloud.quietly());
                let address = (Side::Cloud.address(), MQTT_PORT).into();
                let from = Source::Mqtt { address, filter: "#".into(), version: Version::V5 };
                Some(consumer(link, Side::Cloud, from).await?)
            }
            Destination::Files => {
                let from = Source::Sink { folder: scratch.path().join("sink") };
                Some(consumer(link, Side::Edge, from).await?)
            }
            Destination::Nothing => None,
        };
        let mut node = rig::start_node(link, scratch, self.scheduler, &self.tables(scratch)?)?;
        let is_far = matches!(self.to, Destination::RabbitMq | Destination::Mosquitto);
        node.says(if is_far { "output is up" } else { "ready" }, CONNECT).await?;
        let edge = vec![Component::new("tidegate", node)];
        let entrance = Entrance::Mqtt(rig::edge_listener(), Version::V5);
        Ok(Rig { entrance, consumer, edge, elsewhere })
    }

    /// What its configuration says beside its name and its listener.
    fn tables(&self, scratch: &Scratch) -> anyhow::Result<String> {
        let output = match self.to {
            Destination::RabbitMq => rig::to_rabbitmq(scratch)?,
            Destination::Mosquitto => {
                let address = Side::Cloud.address();
                format!("rate = \"auto\"\nmqtt = {{ url = \"mqtt://{address}:{MQTT_PORT}\" }}\n")
            }
            Destination::Files => {
                let folder = scratch.path().join("sink");
                format!("sink = {{ directory = \"{}\" }}\n", folder.display())
            }
            Destination::Nothing => "sink = { discard = true }\n".into(),
        };
        let log = match self.has_log {
            true => format!("[log]\ndirectory = \"{}\"\n", scratch.path().join("log").display()),
            false => String::new(),
        };
        Ok(format!("{}[[output]]\nname = \"cloud\"\n{output}{log}", self.streams))
    }
}

async fn consumer(link: &Link, side: Side, from: Source) -> anyhow::Result<Process> {
    rig::client_at(link, side, Job::Consume(Consume::once(from))).await
}
