//! What nodes and standbys ask the leader for.

use std::time::Duration;

use tidegate_fleet::{FleetDigest, GrantDecision, NodeId};
use tidegate_types::units::Time;

use super::GrantMessage;

/// `LendersRequest`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct LendersRequest {}

/// `Lender`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LenderMessage {
    /// Its name, as in its certificate.
    #[prost(string, tag = "1")]
    pub name: String,
    /// `host:port` where it is dialed.
    #[prost(string, tag = "2")]
    pub address: String,
}

/// `Lenders`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LendersReply {
    /// The best first.
    #[prost(message, repeated, tag = "1")]
    pub lenders: Vec<LenderMessage>,
}

/// `GrantDecision`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct GivenMessage {
    /// At its end, if it has ended.
    #[prost(message, optional, tag = "1")]
    pub grant: Option<GrantMessage>,
    /// Bytes/s of the receiver's uplink.
    #[prost(uint64, tag = "2")]
    pub capacity: u64,
    /// Bytes/s that each of its classes wanted.
    #[prost(uint64, repeated, tag = "3")]
    pub demand: Vec<u64>,
    /// Bytes/s that its provider had to lend.
    #[prost(uint64, tag = "4")]
    pub spare: u64,
    /// How long ago it was given, milliseconds.
    #[prost(uint64, tag = "5")]
    pub since_ms: u64,
    /// How long ago it ended; absent while it is in force.
    #[prost(uint64, optional, tag = "6")]
    pub until_ms: Option<u64>,
}

impl GivenMessage {
    /// What a leader remembers of a grant.
    pub fn new(now: Time, given: &GrantDecision) -> Self {
        let ago = |at: Time| u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX);
        GivenMessage {
            grant: Some(GrantMessage::new(&given.grant, given.carried)),
            capacity: given.receiver.capacity.0,
            demand: given.receiver.demand.iter().map(|amount| amount.0).collect(),
            spare: given.spare.0,
            since_ms: ago(given.since),
            until_ms: given.until.map(ago),
        }
    }
}

/// `DigestRequest`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct DigestRequest {}

/// `Apart`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ApartMessage {
    /// Number of the node whose records would go.
    #[prost(fixed64, tag = "1")]
    pub receiver: u64,
    /// Number of the node by which they would go.
    #[prost(fixed64, tag = "2")]
    pub provider: u64,
    /// How much longer, milliseconds.
    #[prost(uint64, tag = "3")]
    pub left_ms: u64,
}

/// `FleetDigest`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct DigestMessage {
    /// Of the leader's election.
    #[prost(uint64, tag = "1")]
    pub revision: u64,
    /// Numbers of the nodes that lend nothing.
    #[prost(fixed64, repeated, tag = "2")]
    pub drained: Vec<u64>,
    /// Pairs that are left alone.
    #[prost(message, repeated, tag = "3")]
    pub apart: Vec<ApartMessage>,
}

impl DigestMessage {
    /// What a leader of this revision knows.
    pub fn new(revision: u64, digest: &FleetDigest) -> Self {
        let apart = |&(receiver, provider, left): &(NodeId, NodeId, Duration)| ApartMessage {
            receiver: receiver.0,
            provider: provider.0,
            left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
        };
        DigestMessage {
            revision,
            drained: digest.drained.iter().map(|node| node.0).collect(),
            apart: digest.apart.iter().map(apart).collect(),
        }
    }
}

impl From<DigestMessage> for FleetDigest {
    fn from(message: DigestMessage) -> Self {
        let apart = |one: &ApartMessage| {
            (NodeId(one.receiver), NodeId(one.provider), Duration::from_millis(one.left_ms))
        };
        FleetDigest {
            drained: message.drained.into_iter().map(NodeId).collect(),
            apart: message.apart.iter().map(apart).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn a_digest_reaches_a_standby() {
        let apart = vec![(NodeId(1), NodeId(2), Duration::from_millis(1500))];
        let said = FleetDigest { drained: vec![NodeId(7)], apart };
        let message = DigestMessage::new(9, &said);
        let heard = DigestMessage::decode(&*message.encode_to_vec()).unwrap();
        assert_eq!((heard.revision, FleetDigest::from(heard)), (9, said));
    }
}
