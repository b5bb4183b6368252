//! Who carries the load over the link.

use std::net::SocketAddr;

use super::{Load, mosquitto, nats, zenoh};
use crate::load::mqtt::Version;
use crate::load::{Consume, Job, Payload, Publish, Stream};
use crate::net::namespace::{Link, Side};
use crate::net::process::{Process, Quiet};
use crate::net::scratch::Scratch;
use crate::rig;
use crate::rig::brokers::{self, lab};
use crate::rig::versions::Program;

/// A way from clients at the edge to a consumer in the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contestant {
    /// MQTT clients -> Tidegate -> link -> RabbitMQ -> AMQP consumer.
    Tidegate,
    /// The same with one queue for everything: what the order of service alone brings.
    TidegateNative,
    /// MQTT clients -> Mosquitto -> its bridge, QoS 1 -> link -> Mosquitto -> MQTT consumer.
    MosquittoBridge,
    /// MQTT clients -> Mosquitto -> forwarder, QoS 1 and confirms -> link -> RabbitMQ -> AMQP consumer: what
    /// JANUS's evaluation calls native.
    MosquittoForwarder,
    /// MQTT clients -> NATS -> leaf node -> link -> NATS -> NATS consumer: at most once.
    NatsLeaf,
    /// The same through a stream of JetStream at the edge, sourced by one in the cloud: at least once.
    NatsStream,
    /// zenoh clients with priorities -> zenoh router -> link -> zenoh router -> zenoh consumer.
    Zenoh,
}

impl Contestant {
    /// All of them.
    pub const ALL: [Contestant; 7] = [
        Contestant::Tidegate,
        Contestant::TidegateNative,
        Contestant::MosquittoBridge,
        Contestant::MosquittoForwarder,
        Contestant::NatsLeaf,
        Contestant::NatsStream,
        Contestant::Zenoh,
    ];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Contestant::Tidegate => "tidegate",
            Contestant::TidegateNative => "tidegate-native",
            Contestant::MosquittoBridge => "mosquitto-bridge",
            Contestant::MosquittoForwarder => "mosquitto-forwarder",
            Contestant::NatsLeaf => "nats-leaf",
            Contestant::NatsStream => "nats-stream",
            Contestant::Zenoh => "zenoh",
        }
    }

    /// Whether it is somebody else's.
    pub fn is_rival(self) -> bool {
        !matches!(self, Contestant::Tidegate | Contestant::TidegateNative)
    }

    /// The programs that it is made of, by name, with their versions.
    pub(super) fn versions(self) -> Vec<(String, String)> {
        Program::all_with_versions(match self {
            Contestant::Tidegate | Contestant::TidegateNative => {
                &[Program::Tidegate, Program::RabbitMq]
            }
            Contestant::MosquittoBridge => &[Program::Mosquitto],
            Contestant::MosquittoForwarder => &[Program::Mosquitto, Program::RabbitMq],
            Contestant::NatsLeaf | Contestant::NatsStream => &[Program::Nats],
            Contestant::Zenoh => &[Program::Zenoh],
        })
    }

    /// Starts everything but the load.
    pub(super) async fn start(self, link: &Link, scratch: &Scratch) -> anyhow::Result<Rig> {
        match self {
            Contestant::Tidegate => tidegate(link, scratch, "tidegate").await,
            Contestant::TidegateNative => tidegate(link, scratch, "native").await,
            Contestant::MosquittoBridge => mosquitto::bridge(link, scratch).await,
            Contestant::MosquittoForwarder => mosquitto::forwarder(link, scratch).await,
            Contestant::NatsLeaf => nats::leaf(link, scratch).await,
            Contestant::NatsStream => nats::stream(link, scratch).await,
            Contestant::Zenoh => zenoh::routers(link, scratch).await,
        }
    }
}

/// A contestant that is ready for load.
pub(super) struct Rig {
    /// How the load gets to it, at the edge side.
    pub(super) entrance: Entrance,
    /// Prints what arrives in the cloud.
    pub(super) consumer: Process,
    /// What must go on running.
    pub(super) servers: Vec<Quiet>,
}

/// What publishers speak, and where.
pub(super) enum Entrance {
    Mqtt(SocketAddr, Version),
    Zenoh(zenoh::Clients),
}

impl Entrance {
    /// Starts the publishers.
    pub(super) fn publish(
        &self,
        link: &Link,
        loads: &[Load],
        seconds: u32,
        patience: u32,
    ) -> anyhow::Result<Process> {
        match self {
            Entrance::Mqtt(address, version) => {
                let streams = loads.iter().map(Load::stream).collect();
                let (address, version) = (*address, *version);
                let job =
                    Publish { address, version, streams, seconds, patience, ..Publish::default() };
                let mut command = lab(link, Side::Edge)?;
                Job::Publish(job).add_to(&mut command);
                Ok(Process::start("publisher", command)?)
            }
            Entrance::Zenoh(clients) => clients.publish(link, loads, seconds),
        }
    }
}

impl Load {
    fn stream(&self) -> Stream {
        Stream {
            name: self.name.into(),
            topic: self.topic(),
            payload: Payload::Stamped(self.size),
            per_second: self.per_second.into(),
            ..Stream::default()
        }
    }
}

async fn tidegate(link: &Link, scratch: &Scratch, scheduler: &str) -> anyhow::Result<Rig> {
    const STREAMS: &str = "[[stream]]\ntopics = [\"plant/alarm\"]\nlatency = \"50ms\"\n\
                           [[stream]]\ntopics = [\"plant/bulk\"]\nlatency = \"1s\"\n";
    let rabbitmq = brokers::rabbitmq(link, scratch).await?;
    let consumer = rig::client(link, Job::Consume(Consume::once(rig::everything()))).await?;
    let node = rig::tidegate(link, scratch, scheduler, STREAMS).await?;
    let servers = vec![node.quietly(), rabbitmq.quietly()];
    Ok(Rig { entrance: Entrance::Mqtt(rig::edge_listener(), Version::V5), consumer, servers })
}
