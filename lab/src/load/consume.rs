//! Prints what a broker delivers: stamp and time of arrival, one line a record.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::READY;
use super::amqp::{Consumer, Delivery, Subscription};
use super::mqtt::{self, Hello, Packet, Version};
use super::stamp::{Stamp, wall_ns};

/// Before a broker that broke off is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// A subscription at an MQTT broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConsumeMqtt {
    /// The broker.
    pub address: SocketAddr,
    /// Topic filter.
    pub filter: String,
    /// Which MQTT.
    pub version: Version,
    /// Come back after every break, to a session that the broker keeps.
    pub is_lasting: bool,
}

/// A queue of its own at an AMQP broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConsumeAmqp {
    /// The broker.
    pub address: SocketAddr,
    /// User.
    pub user: String,
    /// Password.
    pub password: String,
    /// Topic exchange to bind to.
    pub exchange: String,
    /// Binding key.
    pub key: String,
    /// A durable queue of this name, and come back to it after every break.
    pub queue: Option<String>,
    /// Print every record as an [`Arrival`], not only its stamp and time.
    pub is_whole: bool,
}

/// A record that came, as [`ConsumeAmqp`] prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Texts beside the payload.
    pub headers: BTreeMap<String, String>,
    /// The payload as text.
    pub payload: String,
    /// When it came, in nanoseconds since the Unix epoch.
    pub received_ns: u64,
}

impl Arrival {
    fn of(delivery: Delivery) -> Arrival {
        let Delivery { headers, payload, .. } = delivery;
        let payload = String::from_utf8_lossy(&payload).into_owned();
        Arrival { headers, payload, received_ns: wall_ns() }
    }
}

impl ConsumeMqtt {
    /// Runs until the process is killed, or the broker ends it where nothing lasts.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        loop {
            let end = self.consume().await;
            if !self.is_lasting {
                return end;
            }
            sleep(PAUSE).await;
        }
    }

    async fn consume(&self) -> anyhow::Result<()> {
        let socket = super::connect(self.address).await?;
        let ConsumeMqtt { version, is_lasting, .. } = *self;
        let hello = Hello { client: "lab-consumer", version, is_lasting };
        let (mut reader, mut writer, _) = mqtt::hello(socket, hello).await?;
        writer.subscribe(&self.filter).await?;
        while let Some(packet) = reader.packet().await? {
            match packet {
                Packet::Subscribed => say(READY),
                Packet::Publish { payload, id } => {
                    report(&payload)?;
                    if let Some(id) = id {
                        writer.acknowledge(id).await?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl ConsumeAmqp {
    /// Runs until the process is killed, or the broker ends it where nothing lasts.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        loop {
            let end = self.consume().await;
            if self.queue.is_none() {
                return end;
            }
            sleep(PAUSE).await;
        }
    }

    async fn consume(&self) -> anyhow::Result<()> {
        let socket = super::connect(self.address).await?;
        let ConsumeAmqp { user, password, exchange, key, queue, .. } = self;
        let subscription = Subscription { user, password, exchange, key, queue: queue.as_deref() };
        let mut consumer = Consumer::subscribe(socket, subscription).await?;
        say(READY);
        while let Some(delivery) = consumer.next().await? {
            let tag = delivery.tag;
            if self.is_whole {
                say(&serde_json::to_string(&Arrival::of(delivery))?);
            } else {
                report(&delivery.payload)?;
            }
            consumer.acknowledge(tag).await?;
        }
        Ok(())
    }
}

fn report(payload: &[u8]) -> anyhow::Result<()> {
    let received_ns = wall_ns();
    let Stamp { stream, seq, due_ns } = Stamp::read(payload)?;
    say(&format!("{stream} {seq} {due_ns} {received_ns}"));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a client tells its parent by lines")]
fn say(line: &str) {
    println!("{line}");
}
