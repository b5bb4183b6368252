//! Prints what a broker delivers: stamp and time of arrival, one line a record.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::READY;
use super::amqp::{Consumer, Subscription};
use super::mqtt::{self, Packet};
use super::stamp::{Stamp, wall_ns};

/// A subscription at an MQTT broker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConsumeMqtt {
    /// The broker.
    pub address: SocketAddr,
    /// Topic filter.
    pub filter: String,
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
}

impl ConsumeMqtt {
    /// Runs until the broker ends it or the process is killed.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let socket = super::connect(self.address).await?;
        let (mut reader, mut writer, _) = mqtt::hello(socket, "lab-consumer").await?;
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
    /// Runs until the broker ends it or the process is killed.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let socket = super::connect(self.address).await?;
        let ConsumeAmqp { user, password, exchange, key, .. } = &self;
        let subscription = Subscription { user, password, exchange, key };
        let mut consumer = Consumer::subscribe(socket, subscription).await?;
        say(READY);
        while let Some(payload) = consumer.next().await? {
            report(&payload)?;
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
