//! Who carries the load over the link, and how each is set up.

use std::net::SocketAddr;

use crate::load::mqtt::Version;
use crate::load::{ConsumeMqtt, Job};
use crate::net::namespace::{Link, Side};
use crate::net::process::{Process, Quiet};
use crate::net::scratch::Scratch;
use crate::rig::brokers::{self, MQTT_PORT};
use crate::rig::versions::Program;
use crate::rig::{self, CONNECT};

/// A way from MQTT clients at the edge to a consumer in the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contestant {
    /// MQTT clients -> Tidegate -> link -> RabbitMQ -> AMQP consumer.
    Tidegate,
    /// The same with one queue for everything: what the order of service alone brings.
    TidegateNative,
    /// MQTT clients -> Mosquitto -> its bridge, QoS 1 -> link -> Mosquitto -> MQTT consumer.
    MosquittoBridge,
}

impl Contestant {
    /// All of them.
    pub const ALL: [Contestant; 3] =
        [Contestant::Tidegate, Contestant::TidegateNative, Contestant::MosquittoBridge];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Contestant::Tidegate => "tidegate",
            Contestant::TidegateNative => "tidegate-native",
            Contestant::MosquittoBridge => "mosquitto-bridge",
        }
    }

    /// Versions of the programs that it is made of, by name.
    pub(super) fn versions(self) -> Vec<(String, String)> {
        let all: &[Program] = match self {
            Contestant::Tidegate | Contestant::TidegateNative => {
                &[Program::Tidegate, Program::RabbitMq]
            }
            Contestant::MosquittoBridge => &[Program::Mosquitto],
        };
        all.iter().map(|program| (program.name().to_owned(), program.version())).collect()
    }

    /// Starts everything but the load.
    pub(super) async fn start(self, link: &Link, scratch: &Scratch) -> anyhow::Result<Rig> {
        match self {
            Contestant::Tidegate => tidegate(link, scratch, "tidegate").await,
            Contestant::TidegateNative => tidegate(link, scratch, "native").await,
            Contestant::MosquittoBridge => mosquitto_bridge(link, scratch).await,
        }
    }
}

/// A contestant that is ready for load.
pub(super) struct Rig {
    /// Where the load goes, at the edge side.
    pub(super) address: SocketAddr,
    /// Prints what arrives in the cloud.
    pub(super) consumer: Process,
    /// What must go on running.
    pub(super) servers: Vec<Quiet>,
}

async fn mosquitto_bridge(link: &Link, scratch: &Scratch) -> anyhow::Result<Rig> {
    let address: SocketAddr = (Side::Cloud.address(), MQTT_PORT).into();
    let listener = |side: Side| {
        format!(
            "listener {MQTT_PORT} {}\nallow_anonymous true\npersistence false\n",
            side.address()
        )
    };
    let mut cloud = brokers::mosquitto(link, Side::Cloud, scratch, &listener(Side::Cloud)).await?;
    let consume =
        ConsumeMqtt { address, filter: "#".into(), version: Version::V5, is_lasting: false };
    let consumer = rig::client(link, Job::ConsumeMqtt(consume)).await?;
    let bridge = format!(
        "{}connection cloud\naddress {address}\ntopic # out 1\n\
         bridge_protocol_version mqttv50\nnotifications false\n",
        listener(Side::Edge)
    );
    let edge = brokers::mosquitto(link, Side::Edge, scratch, &bridge).await?;
    cloud.says(&format!("connected from {}", Side::Edge.address()), CONNECT).await?;
    Ok(Rig {
        address: rig::edge_listener(),
        consumer,
        servers: vec![edge.quietly(), cloud.quietly()],
    })
}

async fn tidegate(link: &Link, scratch: &Scratch, scheduler: &str) -> anyhow::Result<Rig> {
    const STREAMS: &str = "[[stream]]\ntopics = [\"plant/alarm\"]\nlatency = \"50ms\"\n\
                           [[stream]]\ntopics = [\"plant/bulk\"]\nlatency = \"1s\"\n";
    let rabbitmq = brokers::rabbitmq(link, scratch).await?;
    let consumer = rig::client(link, Job::ConsumeAmqp(rig::everything(false))).await?;
    let node = rig::tidegate(link, scratch, scheduler, STREAMS).await?;
    let servers = vec![node.quietly(), rabbitmq.quietly()];
    Ok(Rig { address: rig::edge_listener(), consumer, servers })
}
