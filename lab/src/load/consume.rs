//! Prints what a broker delivers: stamp and time of arrival, one line a record.

use std::net::SocketAddr;

use anyhow::Context;
use futures_lite::StreamExt;
use lapin::options::{BasicConsumeOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use serde::{Deserialize, Serialize};

use super::READY;
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
    /// The broker, with user and password.
    pub url: String,
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
        let connection = Connection::connect(&self.url, ConnectionProperties::default());
        let connection = connection.await.context("the AMQP broker refuses")?;
        let channel = connection.create_channel().await?;
        let own = QueueDeclareOptions { exclusive: true, auto_delete: true, ..Default::default() };
        let queue = channel.queue_declare("".into(), own, FieldTable::default()).await?;
        let name = queue.name().clone();
        let (exchange, key) = (self.exchange.into(), self.key.into());
        let bind = QueueBindOptions::default();
        channel.queue_bind(name.clone(), exchange, key, bind, FieldTable::default()).await?;
        let options = BasicConsumeOptions { no_ack: true, ..Default::default() };
        let consumer = channel.basic_consume(name, "lab".into(), options, FieldTable::default());
        let mut consumer = consumer.await?;
        say(READY);
        while let Some(delivery) = consumer.next().await {
            report(&delivery?.data)?;
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
