//! Who is killed, how it is set up, and where its records go.

use std::net::SocketAddr;

use crate::load::mqtt::Version;
use crate::load::{ConsumeAmqp, ConsumeMqtt, Job};
use crate::net::NetError;
use crate::net::namespace::{Link, Side};
use crate::net::process::{Process, Quiet};
use crate::net::scratch::Scratch;
use crate::rig::{self, CONNECT, brokers};

/// A program at the edge that promises to keep what it acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contestant {
    /// Tidegate with a log -> link -> RabbitMQ, a durable queue, an acknowledging consumer.
    Tidegate,
    /// Mosquitto that writes its database down each second -> its bridge,
    /// QoS 1 -> link -> the same Mosquitto -> an MQTT consumer with a lasting session.
    Mosquitto,
    /// NATS with JetStream and its MQTT listener -> link -> an MQTT consumer with a lasting session.
    Nats,
}

impl Contestant {
    /// All of them.
    pub const ALL: [Contestant; 3] =
        [Contestant::Tidegate, Contestant::Mosquitto, Contestant::Nats];

    /// Its name in figures and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Contestant::Tidegate => "tidegate",
            Contestant::Mosquitto => "mosquitto",
            Contestant::Nats => "nats",
        }
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
            let (version, is_lasting) = (self.version(), true);
            // Topics of one level: NATS has topics of its own below others.
            Job::ConsumeMqtt(ConsumeMqtt { address, filter: "+".into(), version, is_lasting })
        };
        match self {
            Contestant::Tidegate => Job::ConsumeAmqp(ConsumeAmqp {
                queue: Some("kill9".into()),
                ..rig::everything(false)
            }),
            Contestant::Mosquitto => mqtt((Side::Cloud.address(), brokers::MQTT_PORT).into()),
            Contestant::Nats => mqtt(rig::edge_listener()),
        }
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
            Contestant::Nats => brokers::nats(link, Side::Edge, scratch).await.map_err(Into::into),
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
