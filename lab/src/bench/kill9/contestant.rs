//! Who is killed, how it is set up, and where its records go.

use std::net::SocketAddr;

use clap::ValueEnum;

use crate::load::mqtt::Version;
use crate::load::{Consume, Job, Source};
use crate::net::NetError;
use crate::net::namespace::{Link, Side};
use crate::net::process::{Process, Quiet};
use crate::net::scratch::Scratch;
use crate::rig::versions::Program;
use crate::rig::{self, CONNECT, brokers};

tidegate_types::named! {
    /// A program at the edge that promises to keep what it acknowledges.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
    pub(crate) enum Contestant {
        /// Tidegate with a log -> link -> RabbitMQ, a durable queue, an acknowledging consumer.
        Tidegate = "tidegate",
        /// Mosquitto that writes its database down each second -> its bridge,
        /// QoS 1 -> link -> the same Mosquitto -> an MQTT consumer with a lasting session.
        Mosquitto = "mosquitto",
        /// NATS with JetStream and its MQTT listener -> link -> an MQTT consumer with a lasting session.
        Nats = "nats",
    }
}

impl Contestant {
    /// The programs that take part, by name, with their versions.
    pub(super) fn versions(self) -> Vec<(String, String)> {
        Program::all_with_versions(match self {
            Contestant::Tidegate => &[Program::Tidegate, Program::RabbitMq],
            Contestant::Mosquitto => &[Program::Mosquitto],
            Contestant::Nats => &[Program::Nats],
        })
    }

    /// The MQTT that it speaks with publishers.
    pub(super) fn version(self) -> Version {
        match self {
            Contestant::Tidegate | Contestant::Mosquitto => Version::V5,
            Contestant::Nats => Version::V311,
        }
    }

    /// What prints all that arrives in the cloud.
    pub(super) fn consumer(self) -> Job {
        let mqtt = |address: SocketAddr| {
            // Topics of one level: NATS has topics of its own below others.
            Source::Mqtt { address, filter: "+".into(), version: self.version() }
        };
        let from = match self {
            Contestant::Tidegate => rig::durable("kill9"),
            Contestant::Mosquitto => mqtt((Side::Cloud.address(), brokers::MQTT_PORT).into()),
            Contestant::Nats => mqtt(rig::edge_listener()),
        };
        Job::Consume(Consume { from, is_lasting: true, is_whole: false })
    }

    /// Whether a broker stands in the cloud, which can be killed too.
    pub(super) fn has_cloud(self) -> bool {
        self != Contestant::Nats
    }

    /// Starts the broker in the cloud, and waits until it serves.
    pub(super) async fn start_cloud(
        self,
        link: &Link,
        scratch: &Scratch,
    ) -> anyhow::Result<Option<Quiet>> {
        let broker = match self {
            Contestant::Tidegate => brokers::rabbitmq(link, scratch).await?,
            Contestant::Mosquitto => {
                let text = mosquitto(Side::Cloud, scratch)?;
                brokers::mosquitto(link, Side::Cloud, scratch, &text).await?
            }
            Contestant::Nats => return Ok(None),
        };
        Ok(Some(broker.quietly()))
    }

    /// Kills it as it stands.
    pub(super) async fn kill_cloud(self, link: &Link) -> Result<(), NetError> {
        match self {
            Contestant::Tidegate => link.kill(Side::Cloud, "beam.smp").await,
            Contestant::Mosquitto => link.kill(Side::Cloud, "mosquitto").await,
            Contestant::Nats => Ok(()),
        }
    }

    /// Starts the contestant, and waits until it takes publishes.
    pub(super) async fn start(self, link: &Link, scratch: &Scratch) -> anyhow::Result<Process> {
        match self {
            Contestant::Tidegate => {
                let folder = scratch.path().join("log");
                // The next life waits until the kernel has taken the lock from the last one.
                let log = format!("[log]\ndirectory = \"{}\"\nstandby = true\n", folder.display());
                let mut node = rig::start_tidegate(link, scratch, "tidegate", &log)?;
                node.says("ready", CONNECT).await?;
                Ok(node)
            }
            Contestant::Mosquitto => {
                let cloud = Side::Cloud.address();
                let bridge = format!(
                    "{}connection cloud\naddress {cloud}:{}\ntopic # out 1\ncleansession false\n\
                     bridge_protocol_version mqttv50\nnotifications false\nrestart_timeout 1\n",
                    mosquitto(Side::Edge, scratch)?,
                    brokers::MQTT_PORT
                );
                Ok(brokers::mosquitto(link, Side::Edge, scratch, &bridge).await?)
            }
            Contestant::Nats => {
                let folder = scratch.path().join("jetstream");
                let text = format!(
                    "server_name: edge\nlisten: \"127.0.0.1:4222\"\n\
                     jetstream {{ store_dir: \"{}\" }}\n\
                     mqtt {{ listen: \"{}\", max_ack_pending: 1000 }}\n",
                    folder.display(),
                    rig::edge_listener()
                );
                Ok(brokers::nats(link, Side::Edge, scratch, &text).await?)
            }
        }
    }
}

/// A Mosquitto that keeps what it has as well as it can: after every change (`autosave_on_changes`) it
/// writes all of its database and does not keep up. Its bridge says "receive maximum 0", a protocol error,
/// where its own messages in flight are unlimited: so they are many.
fn mosquitto(side: Side, scratch: &Scratch) -> anyhow::Result<String> {
    let folder = scratch.path().join(format!("{side:?}"));
    std::fs::create_dir_all(&folder)?;
    Ok(format!(
        "listener {} {}\nallow_anonymous true\nuser root\nmax_queued_messages 0\n\
         max_inflight_messages 1000\npersistence true\npersistence_location {}/\n\
         autosave_interval 1\n",
        brokers::MQTT_PORT,
        side.address(),
        folder.display()
    ))
}
