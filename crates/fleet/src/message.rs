//! What agents and the orchestrator say to each other.
//!
//! Each message is the sender's whole state. It may be lost, come twice or come late: numbers tell an
//! older one, and the next one repairs it.

use std::time::Duration;

use super::{Amount, Grant, NodeId, Tuple};

/// The order of directives: of a later leader, or a later one of the same leader. What is not above the
/// newest that was obeyed comes from the past or from a deposed leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// Of the leader's election.
    pub revision: u64,
    /// Of the leader's directives, from 1.
    pub round: u64,
}

/// A peer that a node reaches over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReachablePeer {
    /// Which.
    pub node: NodeId,
    /// How far it is, in any measure that adds up.
    pub distance: u32,
}

/// A grant that a node holds, as provider or as receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarriedGrant {
    /// As it was granted.
    pub grant: Grant,
    /// What the provider carries of it, measured; what the receiver tells is nothing.
    pub carried: Amount,
}

/// A node's heartbeat: on change, and once a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// Who.
    pub node: NodeId,
    /// New whenever its process is new.
    pub incarnation: u64,
    /// From 1, in each incarnation.
    pub number: u64,
    /// The newest directive that it obeyed.
    pub heard: Fence,
    /// What it has and wants, gross.
    pub tuple: Tuple,
    /// What its own records use of its own uplink, measured.
    pub output: Amount,
    /// The peers that it reaches; absent where the leader has them from an earlier beat.
    pub peers: Option<Vec<ReachablePeer>>,
    /// What it holds.
    pub held: Vec<CarriedGrant>,
}

/// What the leader tells a node: all of its grants. A grant that is not in it is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// To whom.
    pub node: NodeId,
    /// To which life of it.
    pub incarnation: u64,
    /// Its place among all directives.
    pub fence: Fence,
    /// The newest beat that the leader had: a receiver's leases count from when it sent that.
    pub beat: u64,
    /// How long the grants last unless they are renewed.
    pub lease: Duration,
    /// As provider and as receiver.
    pub grants: Vec<Grant>,
    /// Its standing permits; absent where it has them from an earlier directive.
    pub standing: Option<StandingPermits>,
}

/// What neighbours may always send by each other: all permits of a node. One that the same leader named before and that
/// is not in it is over; those of earlier leaders end by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandingPermits {
    /// How long they last unless they are renewed.
    pub lease: Duration,
    /// As provider and as receiver, one a pair.
    pub permits: Vec<Grant>,
}

/// What a leader knows and no node does, for whoever follows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetDigest {
    /// Nodes that are to lend nothing.
    pub drained: Vec<NodeId>,
    /// Receivers and providers that did not help each other, and how much longer they are left alone.
    pub apart: Vec<(NodeId, NodeId, Duration)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_of_a_later_leader_come_later() {
        let fence = |revision, round| Fence { revision, round };
        assert!(fence(2, 1) > fence(1, 900) && fence(1, 2) > fence(1, 1));
        assert!(Fence::default() < fence(1, 0));
    }
}
