//! What nodes, orchestrators and people say, as protocol buffers: `tidegate/proto/fleet.proto`, package
//! `tidegate.fleet.v1`. The messages are made from that file (docs/decisions/0113); a test holds their bytes.

mod proto;

use std::time::Duration;

use tidegate_fleet::{
    Amount, CarriedGrant, Directive, Fence, FencingToken, FleetDigest, Grant, GrantDecision,
    Heartbeat, NodeId, ReachablePeer, StandingPermits, Tuple,
};
use tidegate_types::class::ClassId;
use tidegate_types::units::Time;

use crate::config::fleet::{LEASE_MAX, STANDING_MAX};

pub use self::proto::{
    Apart as ApartMessage, Beat as BeatMessage, DescribeRequest, Description,
    Digest as DigestMessage, DigestRequest, Directive as DirectiveMessage, DrainReply,
    DrainRequest, Fence as FenceMessage, Given as GivenMessage, Grant as GrantMessage,
    Lender as LenderMessage, LendersReply, LendersRequest, Member as MemberMessage,
    Peers as PeersMessage, Reach as ReachMessage, Standing as StandingMessage,
};

/// A node's stream: beats there, directives back.
pub const ATTEND: &str = "/tidegate.fleet.v1.Fleet/Attend";
/// What the leader knows.
pub const DESCRIBE: &str = "/tidegate.fleet.v1.Fleet/Describe";
/// A node is to lend nothing, or to take part again.
pub const DRAIN: &str = "/tidegate.fleet.v1.Fleet/Drain";
/// What only the leader knows.
pub const DIGEST: &str = "/tidegate.fleet.v1.Fleet/Digest";
/// Nodes that could lend to the one that asks.
pub const LENDERS: &str = "/tidegate.fleet.v1.Fleet/Lenders";
/// Metadata of a node's stream: `host:port` where neighbours dial it.
pub const LISTEN_KEY: &str = "tidegate-listen";
/// Metadata of a node's stream: its site.
pub const SITE_KEY: &str = "tidegate-site";
/// Metadata of a node's stream: names of its classes, with commas between them.
pub const CLASSES_KEY: &str = "tidegate-classes";
/// Metadata of an error: `host:port` of the one that leads.
pub const LEADER_KEY: &str = "tidegate-leader";

/// What a message says makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is missing or out of range")]
pub struct WireError(&'static str);

impl From<Fence> for FenceMessage {
    fn from(Fence { revision, round }: Fence) -> Self {
        FenceMessage { revision, round }
    }
}

impl From<FenceMessage> for Fence {
    fn from(FenceMessage { revision, round }: FenceMessage) -> Self {
        Fence { revision, round }
    }
}

impl GrantMessage {
    /// A grant, and what its provider carries of it.
    pub fn new(grant: &Grant, carried: Amount) -> Self {
        GrantMessage {
            revision: grant.token.revision,
            id: grant.token.id,
            provider: grant.provider.0,
            receiver: grant.receiver.0,
            class: grant.class.0.into(),
            amount: grant.amount.0,
            carried: carried.0,
        }
    }

    /// The grant.
    ///
    /// # Errors
    /// A class that cannot be.
    pub fn grant(&self) -> Result<Grant, WireError> {
        Ok(Grant {
            token: FencingToken { revision: self.revision, id: self.id },
            provider: NodeId(self.provider),
            receiver: NodeId(self.receiver),
            class: ClassId(u8::try_from(self.class).map_err(|_| WireError("class"))?),
            amount: Amount(self.amount),
        })
    }
}

impl From<&Heartbeat> for BeatMessage {
    fn from(beat: &Heartbeat) -> Self {
        let reach =
            |reach: &ReachablePeer| ReachMessage { node: reach.node.0, distance: reach.distance };
        let peers =
            |peers: &Vec<ReachablePeer>| PeersMessage { peers: peers.iter().map(reach).collect() };
        BeatMessage {
            node: beat.node.0,
            incarnation: beat.incarnation,
            number: beat.number,
            heard: Some(beat.heard.into()),
            capacity: beat.tuple.capacity.0,
            demand: beat.tuple.demand.iter().map(|amount| amount.0).collect(),
            output: beat.output.0,
            peers: beat.peers.as_ref().map(peers),
            held: beat.held.iter().map(|one| GrantMessage::new(&one.grant, one.carried)).collect(),
        }
    }
}

impl TryFrom<BeatMessage> for Heartbeat {
    type Error = WireError;

    fn try_from(message: BeatMessage) -> Result<Self, WireError> {
        let reach = |reach: &ReachMessage| ReachablePeer {
            node: NodeId(reach.node),
            distance: reach.distance,
        };
        let held = |held: &GrantMessage| {
            Ok(CarriedGrant { grant: held.grant()?, carried: Amount(held.carried) })
        };
        let demand = message.demand.iter().map(|&amount| Amount(amount)).collect();
        Ok(Heartbeat {
            node: NodeId(message.node),
            incarnation: message.incarnation,
            number: message.number,
            heard: message.heard.unwrap_or_default().into(),
            tuple: Tuple { capacity: Amount(message.capacity), demand },
            output: Amount(message.output),
            peers: message.peers.map(|all| all.peers.iter().map(reach).collect()),
            held: message.held.iter().map(held).collect::<Result<_, _>>()?,
        })
    }
}

impl From<&Directive> for DirectiveMessage {
    fn from(directive: &Directive) -> Self {
        let grant = |grant| GrantMessage::new(grant, Amount::ZERO);
        DirectiveMessage {
            node: directive.node.0,
            incarnation: directive.incarnation,
            fence: Some(directive.fence.into()),
            beat: directive.beat,
            lease_ms: millis(directive.lease),
            grants: directive.grants.iter().map(grant).collect(),
            standing: directive.standing.as_ref().map(|standing| StandingMessage {
                lease_ms: millis(standing.lease),
                permits: standing.permits.iter().map(grant).collect(),
            }),
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

impl TryFrom<StandingMessage> for StandingPermits {
    type Error = WireError;

    fn try_from(message: StandingMessage) -> Result<Self, WireError> {
        Ok(StandingPermits {
            lease: Duration::from_millis(message.lease_ms).min(STANDING_MAX),
            permits: message.permits.iter().map(GrantMessage::grant).collect::<Result<_, _>>()?,
        })
    }
}

impl TryFrom<DirectiveMessage> for Directive {
    type Error = WireError;

    fn try_from(message: DirectiveMessage) -> Result<Self, WireError> {
        Ok(Directive {
            node: NodeId(message.node),
            incarnation: message.incarnation,
            fence: message.fence.ok_or(WireError("fence"))?.into(),
            beat: message.beat,
            lease: Duration::from_millis(message.lease_ms).min(LEASE_MAX),
            grants: message.grants.iter().map(GrantMessage::grant).collect::<Result<_, _>>()?,
            standing: message.standing.map(StandingPermits::try_from).transpose()?,
        })
    }
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

    fn grant() -> Grant {
        Grant {
            token: FencingToken { revision: 7, id: 3 },
            provider: NodeId(1),
            receiver: NodeId(2),
            class: ClassId(2),
            amount: Amount(300),
        }
    }

    fn beat() -> Heartbeat {
        Heartbeat {
            node: NodeId(2),
            incarnation: 9,
            number: 4,
            heard: Fence { revision: 7, round: 1 },
            tuple: Tuple { capacity: Amount(1000), demand: vec![Amount(1), Amount(0), Amount(2)] },
            output: Amount(5),
            peers: Some(vec![ReachablePeer { node: NodeId(1), distance: 1 }]),
            held: vec![CarriedGrant { grant: grant(), carried: Amount(250) }],
        }
    }

    #[test]
    fn what_is_said_is_heard() {
        for peers in [None, Some(vec![]), beat().peers] {
            let said = Heartbeat { peers, ..beat() };
            let bytes = BeatMessage::from(&said).encode_to_vec();
            let heard = BeatMessage::decode(&*bytes).unwrap();
            assert_eq!(Heartbeat::try_from(heard), Ok(said));
        }
        for standing in [None, Some(StandingPermits::default()), directive().standing] {
            let said = Directive { standing, ..directive() };
            let bytes = DirectiveMessage::from(&said).encode_to_vec();
            let heard = DirectiveMessage::decode(&*bytes).unwrap();
            assert_eq!(Directive::try_from(heard), Ok(said));
        }
    }

    fn directive() -> Directive {
        let lease = Duration::from_secs(600);
        Directive {
            node: NodeId(2),
            incarnation: 9,
            fence: Fence { revision: 7, round: 2 },
            beat: 4,
            lease: Duration::from_secs(5),
            grants: vec![grant()],
            standing: Some(StandingPermits { lease, permits: vec![grant()] }),
        }
    }

    /// Bytes of version 1, by hand from `proto/fleet.proto`.
    #[test]
    fn version_1_stays_as_it_is() {
        let grant = "08071003190100000000000000210200000000000000280230ac0238fa01";
        let beat = "090200000000000000110900000000000000180422040807100128e80732030100023805420d0a0b09010000\
                    00000000001001";
        let hex =
            |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let message = BeatMessage::from(&super::tests::beat());
        assert_eq!(hex(message.held[0].encode_to_vec()), grant);
        let whole = hex(message.encode_to_vec());
        assert_eq!(whole, format!("{beat}4a1e{grant}"));
        // What a directive says came first is as it was; standing permits stand behind it.
        let lent = "08071003190100000000000000210200000000000000280230ac02";
        let before =
            format!("0902000000000000001109000000000000001a0408071002200428882732 1b{lent}");
        let before = before.replace(' ', "");
        let message = DirectiveMessage::from(&Directive { standing: None, ..directive() });
        assert_eq!(hex(message.encode_to_vec()), before);
        let standing = format!("3a2108c0cf24121b{lent}");
        let message = DirectiveMessage::from(&directive());
        assert_eq!(hex(message.encode_to_vec()), format!("{before}{standing}"));
    }

    #[test]
    fn nonsense_is_refused() {
        let grant = GrantMessage { class: 256, ..GrantMessage::default() };
        assert_eq!(grant.grant(), Err(WireError("class")));
        let message = DirectiveMessage::default();
        assert_eq!(Directive::try_from(message), Err(WireError("fence")));
    }

    #[test]
    fn a_digest_reaches_a_standby() {
        let apart = vec![(NodeId(1), NodeId(2), Duration::from_millis(1500))];
        let said = FleetDigest { drained: vec![NodeId(7)], apart };
        let message = DigestMessage::new(9, &said);
        let heard = DigestMessage::decode(&*message.encode_to_vec()).unwrap();
        assert_eq!((heard.revision, FleetDigest::from(heard)), (9, said));
    }
}
