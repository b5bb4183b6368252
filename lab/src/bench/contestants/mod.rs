//! Who carries a load over a link, from clients at the edge to a consumer in the cloud.

mod mosquitto;
mod nats;
mod node;
mod zenoh;

use std::net::SocketAddr;

use crate::load::mqtt::Version;
use crate::load::{Job, Publish};
use crate::net::namespace::{Link, Side};
use crate::net::process::{Process, Quiet};
use crate::net::scratch::Scratch;
use crate::rig;
use crate::rig::versions::Program;

pub(crate) use node::{Destination, NodeRig};

/// A way from clients at the edge to a consumer in the cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    /// MQTT clients -> Tidegate -> link -> a broker -> consumer.
    Tidegate(NodeRig),
    /// MQTT clients -> Mosquitto, and nobody subscribes.
    MosquittoAlone,
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
    /// As on the command line and in figures.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Contestant::Tidegate(rig) => rig.name,
            Contestant::MosquittoAlone => "mosquitto-alone",
            Contestant::MosquittoBridge => "mosquitto-bridge",
            Contestant::MosquittoForwarder => "mosquitto-forwarder",
            Contestant::NatsLeaf => "nats-leaf",
            Contestant::NatsStream => "nats-stream",
            Contestant::Zenoh => "zenoh",
        }
    }

    /// Whether it is somebody else's.
    pub(crate) fn is_rival(&self) -> bool {
        !matches!(self, Contestant::Tidegate(_))
    }

    /// The programs that it is made of, by name, with their versions.
    pub(crate) fn versions(&self) -> Vec<(String, String)> {
        use Program::{Mosquitto, Nats, RabbitMq, Tidegate, Zenoh};
        Program::all_with_versions(match self {
            Contestant::Tidegate(rig) => match rig.to {
                Destination::RabbitMq => &[Tidegate, RabbitMq],
                Destination::Mosquitto => &[Tidegate, Mosquitto],
                Destination::Files | Destination::Nothing => &[Tidegate],
            },
            Contestant::MosquittoAlone | Contestant::MosquittoBridge => &[Mosquitto],
            Contestant::MosquittoForwarder => &[Mosquitto, RabbitMq],
            Contestant::NatsLeaf | Contestant::NatsStream => &[Nats],
            Contestant::Zenoh => &[Zenoh],
        })
    }

    /// Starts everything but the load.
    pub(super) async fn start(&self, link: &Link, scratch: &Scratch) -> anyhow::Result<Rig> {
        match self {
            Contestant::Tidegate(rig) => rig.start(link, scratch).await,
            Contestant::MosquittoAlone => mosquitto::alone(link, scratch).await,
            Contestant::MosquittoBridge => mosquitto::bridge(link, scratch).await,
            Contestant::MosquittoForwarder => mosquitto::forwarder(link, scratch).await,
            Contestant::NatsLeaf => nats::leaf(link, scratch).await,
            Contestant::NatsStream => nats::stream(link, scratch).await,
            Contestant::Zenoh => zenoh::routers(link, scratch).await,
        }
    }
}

/// The one of this name.
pub(super) fn named(all: Vec<Contestant>, name: &str) -> Result<Contestant, String> {
    let found = all.into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| format!("no contestant is called {name}"))
}

/// A contestant that is ready for load.
pub(super) struct Rig {
    /// How the load gets to it, at the edge side.
    pub(super) entrance: Entrance,
    /// Prints what arrives; `None` where nothing is to arrive.
    pub(super) consumer: Option<Process>,
    /// What runs at the edge: what the contestant costs there.
    pub(super) edge: Vec<Component>,
    /// What must go on running elsewhere.
    #[expect(dead_code, reason = "held, not read: dropping them ends them")]
    elsewhere: Vec<Quiet>,
}

/// A process of a contestant at the edge.
pub(super) struct Component {
    pub(super) name: &'static str,
    pub(super) id: u32,
    _process: Quiet,
}

impl Component {
    fn new(name: &'static str, process: Process) -> Component {
        let id = process.id().unwrap_or_default();
        Component { name, id, _process: process.quietly() }
    }
}

/// What publishers speak, and where.
pub(super) enum Entrance {
    Mqtt(SocketAddr, Version),
    Zenoh(zenoh::Clients),
}

impl Entrance {
    /// Starts the publishers. The address and version of the job are given here.
    pub(super) fn publish(&self, link: &Link, job: Publish) -> anyhow::Result<Process> {
        match self {
            Entrance::Mqtt(address, version) => {
                let (address, version) = (*address, *version);
                let job = Job::Publish(Publish { address, version, ..job });
                rig::started(link, Side::Edge, "publisher", &job)
            }
            Entrance::Zenoh(clients) => clients.publish(link, &job),
        }
    }
}
