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
use crate::rig::{self, brokers};
use crate::world::{self, Broker};

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

    /// The broker in the cloud.
    fn cloud(self) -> Option<world::Process> {
        match self {
            Contestant::Tidegate => Some(rig::rabbitmq()),
            Contestant::Mosquitto => {
                let settings = format!("{KEEPS}persistence_file cloud.db\n");
                Some(rig::broker(Side::Cloud, Broker::Mosquitto, &settings))
            }
            Contestant::Nats => None,
        }
    }

    /// Starts the broker in the cloud, and waits until it serves.
    pub(super) async fn start_cloud(
        self,
        link: &Link,
        scratch: &Scratch,
    ) -> anyhow::Result<Option<Quiet>> {
        let Some(broker) = self.cloud() else { return Ok(None) };
        Ok(Some(rig::raise(link, scratch, &broker).await?.quietly()))
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
        // The next life of a node waits until the kernel has taken the lock from the last one.
        let log = "[log]\ndirectory = \"log\"\nstandby = true\n";
        let process = match self {
            Contestant::Tidegate => rig::node(rig::TO_RABBITMQ, log, "ready"),
            Contestant::Mosquitto => {
                let bridge = format!(
                    "{KEEPS}persistence_file edge.db\nconnection cloud\naddress {{cloud}}\ntopic # out 1\ncleansession false\n\
                     bridge_protocol_version mqttv50\nnotifications false\nrestart_timeout 1\n"
                );
                rig::broker(Side::Edge, Broker::Mosquitto, &bridge)
            }
            Contestant::Nats => rig::broker(
                Side::Edge,
                Broker::Nats,
                "server_name: edge\njetstream { store_dir: \"jetstream\" }\n\
                 mqtt { listen: \"{edge}:1883\", max_ack_pending: 1000 }\n",
            ),
        };
        rig::raise(link, scratch, &process).await
    }
}

/// A Mosquitto that keeps what it has as well as it can: after every change (`autosave_on_changes`) it
/// writes all of its database and does not keep up. Its bridge says "receive maximum 0", a protocol error,
/// where its own messages in flight are unlimited: so they are many.
const KEEPS: &str = "user root\nmax_queued_messages 0\nmax_inflight_messages 1000\n\
                     persistence true\nautosave_interval 1\n";
