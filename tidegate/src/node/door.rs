//! The one door of a node: every record comes in by it, from whatever input, service or connection.
//!
//! A record of a placed topic is handed over to the node that owns the topic. Every other one is published to who has
//! subscribed here, and what is then for outputs is left to be offered to the node.

use std::sync::Arc;

use tidegate_broker::Message;
use tidegate_cluster::handover::Member;
use tidegate_types::record::{Offered, Token};

use super::broker::{Hub, Publisher, TopicFacts};
use super::contract::{Source, Stopping};

/// From where records come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From<'a> {
    /// A client, another broker or a file.
    Outside,
    /// This node, by a link. Where it owns a placed topic, it has published the record in the cluster already.
    Node(&'a str),
    /// The cluster: the topic is placed, and ours.
    Cluster,
}

/// Who brings records, and hears what becomes of them at the door.
pub trait Bringer: Sync {
    /// The QoS of a record.
    fn qos_of(&self, record: &Offered) -> u8;

    /// The message of a record of QoS 2, and its packet identifier: it is to be published when the node has accepted the
    /// record.
    fn hold(&mut self, token: Token, published: (Option<u16>, Arc<Message>));

    /// A record is for subscribers here only, and so it is accepted.
    fn accepted(&mut self, token: Token);
}

/// Brings records of one QoS, none of which is held, and collects those that are accepted.
#[derive(Debug, Default)]
pub struct Plain {
    /// The QoS.
    pub qos: u8,
    /// Records that were accepted at the door.
    pub accepted: Vec<Token>,
}

impl Plain {
    /// Brings records of this QoS.
    pub fn new(qos: u8) -> Self {
        Plain { qos, accepted: Vec::new() }
    }
}

impl Bringer for Plain {
    fn qos_of(&self, _record: &Offered) -> u8 {
        self.qos
    }

    fn hold(&mut self, _token: Token, _published: (Option<u16>, Arc<Message>)) {}

    fn accepted(&mut self, token: Token) {
        self.accepted.push(token);
    }
}

/// A connection's way in.
#[derive(Debug)]
pub struct Door {
    publisher: Publisher,
}

impl Door {
    /// To the node of this broker.
    pub fn new(hub: &Hub) -> Self {
        Door { publisher: hub.publisher() }
    }

    /// The same for what comes from the owner of placed topics only: what it publishes of them goes to the other nodes.
    pub fn of_owner(hub: &Hub) -> Self {
        Door { publisher: hub.publisher().of_owner() }
    }

    /// What it publishes by.
    pub fn publisher(&mut self) -> &mut Publisher {
        &mut self.publisher
    }

    /// The node's own broker.
    pub fn hub(&self) -> &Hub {
        self.publisher.hub()
    }

    /// Lets records in: what it leaves in `records` is to be offered to the node. Returns who owns all of them, where
    /// one other member does. Where it is given up, `records` are as they were. It waits while the journal of sessions is
    /// still being read, or its disk is behind.
    ///
    /// # Errors
    /// The node is stopping.
    pub async fn admit(
        &mut self,
        source: &Source,
        from: From<'_>,
        records: &mut Vec<Offered>,
        bringer: &mut impl Bringer,
    ) -> Result<Option<Member>, Stopping> {
        if let Some(journal) = self.hub().journal().filter(|_| !records.is_empty()).cloned() {
            journal.ready().await;
        }
        self.let_in(source, from, records, bringer).await
    }

    /// The same without the wait for the disk: for who brings little, and holds up others meanwhile.
    ///
    /// # Errors
    /// The node is stopping.
    pub async fn let_in(
        &mut self,
        source: &Source,
        from: From<'_>,
        records: &mut Vec<Offered>,
        bringer: &mut impl Bringer,
    ) -> Result<Option<Member>, Stopping> {
        if records.is_empty() {
            return Ok(None);
        }
        if let Some(journal) = self.hub().journal().cloned() {
            journal.loaded().await;
        }
        let owner = self.hand_over(source, from, records, bringer).await?;
        self.publish(from, records, bringer);
        Ok(owner)
    }

    /// Hands records of placed topics over to their owners, and takes them out; `source` hears the answers. This alone
    /// is for what was let in before and is offered again.
    ///
    /// # Errors
    /// The node is stopping.
    pub async fn hand_over(
        &self,
        source: &Source,
        from: From<'_>,
        records: &mut Vec<Offered>,
        bringer: &impl Bringer,
    ) -> Result<Option<Member>, Stopping> {
        let sender = match from {
            From::Outside => None,
            From::Node(sender) => Some(sender),
            From::Cluster => return Ok(None),
        };
        match self.hub().group() {
            Some(group) => {
                group.divert(source, sender, records, &|record| bringer.qos_of(record)).await
            }
            None => Ok(None),
        }
    }

    /// Publishes records to who has subscribed here; those that are for nobody else are accepted, and taken out.
    fn publish(&mut self, from: From<'_>, records: &mut Vec<Offered>, bringer: &mut impl Bringer) {
        // What is of a placed topic came from its owner: subscribers here get it by the cluster.
        let skips_placed = matches!(from, From::Node(_)) && self.hub().group().is_some();
        let publisher = &mut self.publisher;
        records.retain_mut(|record| {
            let (TopicFacts { is_local, is_placed }, way) = publisher.turn_to(&record.key);
            let qos = bringer.qos_of(record);
            match record.token {
                _ if from == From::Cluster => publisher.publish_owned(record, qos),
                _ if skips_placed && is_placed => {}
                Some(token) if qos == 2 => {
                    bringer.hold(token, (record.packet, publisher.message(record, qos)));
                }
                _ => publisher.gather(record, qos, &way),
            }
            if let Some(token) = record.token.filter(|_| is_local) {
                bringer.accepted(token);
            }
            !is_local
        });
        publisher.finish_run();
    }

    /// Lets in what an operator made: subscribers get it, counted by `meter`. Returns what is for outputs; none where
    /// another node owns its topic, or it is for subscribers only. Never waits.
    pub fn admit_result(&mut self, record: Offered, qos: u8, meter: u32) -> Option<Offered> {
        let record = match self.hub().group() {
            Some(group) => group.send_on(record, qos.min(1))?,
            None => record,
        };
        self.publisher.publish_result(&record, qos, meter);
        (!self.publisher.is_local(&record.key)).then_some(record)
    }
}
