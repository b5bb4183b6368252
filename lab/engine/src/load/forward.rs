//! A forwarder from an MQTT broker to RabbitMQ, as one writes it by hand: QoS 1 on one side, confirms on
//! the other, and a record is acknowledged when RabbitMQ has it.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::amqp::{self, Confirms, Publisher};
use super::mqtt::{self, Hello, Packet, Reader, Version, Writer};
use super::{READY, say};

/// From where to where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forward {
    pub from: SocketAddr,
    pub filter: String,
    pub to: SocketAddr,
    /// Its user, with the same word as password.
    pub user: String,
    /// The exchange there; slashes of a topic become dots of a key.
    pub exchange: String,
}

impl Forward {
    /// Forwards until a connection ends. Prints [`READY`] when it does.
    ///
    /// # Errors
    /// A broker is not there, ends the connection, or does not take a record.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let login = (self.user.as_str(), self.user.as_str());
        let to = super::connect(self.to).await?;
        let (publisher, confirms) = amqp::publisher(to, login, &self.exchange).await?;
        let hello = Hello { client: "forwarder", version: Version::V5, is_lasting: false };
        let from = super::connect(self.from).await?;
        let (mut reader, mut writer, _) = mqtt::hello(from, hello).await?;
        writer.subscribe(&self.filter).await?;
        reader.wait_for_subscription().await?;
        say(READY);
        // The broker bounds it by how many records it sends without an answer.
        let (sent, unconfirmed) = mpsc::unbounded_channel();
        tokio::try_join!(
            publish(reader, publisher, sent),
            acknowledge(confirms, writer, unconfirmed)
        )?;
        Ok(())
    }
}

/// Publishes what comes, and tells the other half under which ids it came.
async fn publish(
    mut reader: Reader,
    mut publisher: Publisher,
    sent: mpsc::UnboundedSender<u16>,
) -> anyhow::Result<()> {
    while let Some(packet) = reader.packet().await? {
        if let Packet::Publish { topic, payload, id, .. } = packet {
            let id = id.context("a record of QoS 0: there would be nothing to confirm")?;
            sent.send(id).context("the other half has ended")?;
            publisher.publish(&topic.replace('/', "."), &payload).await?;
        }
    }
    bail!("the MQTT broker ended the connection")
}

/// Acknowledges what is confirmed: confirms name places in the order of publication.
async fn acknowledge(
    mut confirms: Confirms,
    mut writer: Writer,
    mut unconfirmed: mpsc::UnboundedReceiver<u16>,
) -> anyhow::Result<()> {
    let mut waiting = Waiting::default();
    while let Some(confirm) = confirms.next().await? {
        ensure!(confirm.is_taken, "RabbitMQ does not take record {}", confirm.tag);
        while let Ok(id) = unconfirmed.try_recv() {
            waiting.sent(id);
        }
        for id in waiting.confirmed(confirm.tag, confirm.is_multiple) {
            writer.acknowledge(id).await?;
        }
    }
    bail!("RabbitMQ ended the connection")
}

/// Ids of records that are published and not confirmed, by their place in the order of publication.
#[derive(Debug, Default)]
struct Waiting {
    ids: std::collections::BTreeMap<u64, u16>,
    last: u64,
}

impl Waiting {
    fn sent(&mut self, id: u16) {
        self.last += 1;
        self.ids.insert(self.last, id);
    }

    fn confirmed(&mut self, tag: u64, is_multiple: bool) -> Vec<u16> {
        if !is_multiple {
            return self.ids.remove(&tag).into_iter().collect();
        }
        let later = self.ids.split_off(&(tag + 1));
        std::mem::replace(&mut self.ids, later).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confirms_are_of_one_record_or_of_all_up_to_it() {
        let mut waiting = Waiting::default();
        [7, 8, 9, 7].into_iter().for_each(|id| waiting.sent(id));
        assert_eq!(waiting.confirmed(2, false), [8]);
        assert_eq!(waiting.confirmed(3, true), [7, 9]);
        assert!(waiting.confirmed(3, true).is_empty());
        assert_eq!(waiting.confirmed(4, false), [7], "an id comes round again");
    }
}
