//! Who carries the load over the link, and how each is set up.

use std::net::SocketAddr;
use std::time::Duration;

use crate::bench::brokers::{self, AMQP_PORT, MQTT_PORT, USER, lab};
use crate::bench::tidegate_program;
use crate::load::{ConsumeAmqp, ConsumeMqtt, Job, READY};
use crate::net::namespace::{Link, Side};
use crate::net::process::{Process, Quiet};
use crate::net::scratch::Scratch;

/// Time for a contestant to reach the far side.
const CONNECT: Duration = Duration::from_secs(30);

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

fn edge_listener() -> SocketAddr {
    (Side::Edge.address(), MQTT_PORT).into()
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
    let consumer = consumer(link, Job::ConsumeMqtt(ConsumeMqtt { address, filter: "#".into() }));
    let consumer = consumer.await?;
    let bridge = format!(
        "{}connection cloud\naddress {address}\ntopic # out 1\n\
         bridge_protocol_version mqttv50\nnotifications false\n",
        listener(Side::Edge)
    );
    let edge = brokers::mosquitto(link, Side::Edge, scratch, &bridge).await?;
    cloud.says(&format!("connected from {}", Side::Edge.address()), CONNECT).await?;
    Ok(Rig { address: edge_listener(), consumer, servers: vec![edge.quietly(), cloud.quietly()] })
}

async fn tidegate(link: &Link, scratch: &Scratch, scheduler: &str) -> anyhow::Result<Rig> {
    let program = tidegate_program()?;
    let rabbitmq = brokers::rabbitmq(link, scratch).await?;
    let cloud = Side::Cloud.address();
    let consume = ConsumeAmqp {
        address: (cloud, AMQP_PORT).into(),
        user: USER.into(),
        password: USER.into(),
        exchange: "amq.topic".into(),
        key: "#".into(),
    };
    let consumer = consumer(link, Job::ConsumeAmqp(consume)).await?;
    let password = scratch.file("password", USER)?;
    let listen = edge_listener();
    let configuration = format!(
        "[node]\nname = \"edge\"\nscheduler = \"{scheduler}\"\n\
         [[input]]\nmqtt = {{ listen = \"{listen}\" }}\n\
         [[stream]]\ntopics = [\"plant/alarm\"]\nlatency = \"50ms\"\n\
         [[stream]]\ntopics = [\"plant/bulk\"]\nlatency = \"1s\"\n\
         [[output]]\nname = \"cloud\"\nrate = \"auto\"\n\
         amqp = {{ url = \"amqp://{cloud}:{AMQP_PORT}\", exchange = \"amq.topic\", \
         user = \"{USER}\", password_file = \"{}\" }}\n",
        password.display()
    );
    let file = scratch.file("node.toml", &configuration)?;
    let mut command = link.command(Side::Edge, program);
    command.args(["run", "-c"]).arg(file);
    let mut node = Process::start("tidegate", command)?;
    node.says("output is up", CONNECT).await?;
    let servers = vec![node.quietly(), rabbitmq.quietly()];
    Ok(Rig { address: listen, consumer, servers })
}

async fn consumer(link: &Link, job: Job) -> anyhow::Result<Process> {
    let mut command = lab(link, Side::Cloud)?;
    job.add_to(&mut command);
    let mut process = Process::start("consumer", command)?;
    process.says(READY, CONNECT).await?;
    Ok(process)
}
