//! Whose word counts for the name of a record: a peer speaks for itself, and for whom it may vouch.
//!
//! A record that comes again under a name that was accepted is confirmed without being taken, so a name is worth
//! a record. What a peer names by no right that is known here can therefore never make a rightful record one
//! that was there before, and is refused where a rightful one has the name already.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_types::accepted::Accepted;
use tidegate_types::record::Identity;

/// Nodes that are remembered as having spoken for themselves.
pub const NODES_MAX: usize = 65_536;
/// Stands for every name in `vouches`.
const ANY: &str = "*";

/// By what right a peer gives a record its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClaimRight {
    /// The name is its own, or one that it may vouch for.
    Proven,
    /// Nothing that is known here says that it may.
    Claimed,
}

/// What is asked of peers, and for whom each may vouch by the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VouchPolicy {
    /// Whether records without a proven name are refused.
    pub is_strict: bool,
    /// Names of origins, or `*`, by the name of the peer.
    pub vouches: BTreeMap<String, Vec<String>>,
}

impl VouchPolicy {
    /// By what right the peer whose certificate says `peer` names records of `origin`.
    pub fn right(&self, peer: &str, origin: &str) -> ClaimRight {
        let may = |names: &Vec<String>| names.iter().any(|name| name == origin || name == ANY);
        match peer == origin || self.vouches.get(peer).is_some_and(may) {
            true => ClaimRight::Proven,
            false => ClaimRight::Claimed,
        }
    }
}

/// What a record is that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// Nobody has brought it before.
    New,
    /// It was accepted before: its sender has not heard so.
    Again,
    /// Its name is that of a rightful record, and its sender has no right to it.
    Stolen,
}

/// Which records of other nodes were accepted here, and by what right they had their names.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    proven: Accepted,
    claimed: Accepted,
    /// Nodes that have spoken for themselves, this one among them: nobody else's claim to them is believed.
    nodes: BTreeSet<Arc<str>>,
}

impl Claims {
    /// Those of the node `me`, which has accepted these before it started.
    pub fn new(me: Arc<str>, accepted: Accepted) -> Self {
        Claims { proven: accepted, claimed: Accepted::default(), nodes: [me].into() }
    }

    /// What a record of this name is.
    pub fn came(&self, identity: &Identity, right: ClaimRight) -> ClaimOutcome {
        match (self.proven.contains(identity), right) {
            (true, ClaimRight::Proven) => ClaimOutcome::Again,
            (true, ClaimRight::Claimed) => ClaimOutcome::Stolen,
            (false, ClaimRight::Claimed) if self.claimed.contains(identity) => ClaimOutcome::Again,
            (false, _) => ClaimOutcome::New,
        }
    }

    /// A record of this name is accepted.
    pub fn accept(&mut self, identity: &Identity, right: ClaimRight) {
        match right {
            ClaimRight::Claimed => self.claimed.insert(identity),
            ClaimRight::Proven => {
                self.proven.insert(identity);
                let node = &identity.origin.node;
                if self.nodes.len() < NODES_MAX && !self.nodes.contains(node) {
                    self.nodes.insert(node.clone());
                }
            }
        }
    }

    /// Whether a record goes on under this name. Otherwise it gets one of ours: further on nobody could tell
    /// it from a rightful one.
    pub fn keeps_name(&self, identity: &Identity, right: ClaimRight) -> bool {
        right == ClaimRight::Proven || !self.nodes.contains(&identity.origin.node)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::record::{Origin, StreamId};

    use super::*;

    fn identity(node: &str, seq: u64) -> Identity {
        let origin = Arc::new(Origin { node: node.into(), incarnation: 7 });
        Identity { origin, stream: StreamId(1), seq }
    }

    #[test]
    fn a_peer_speaks_for_itself_and_for_whom_it_may_vouch() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let vouches = [("relay".to_owned(), names(&["gate-7"])), ("hub".to_owned(), names(&["*"]))];
        let vouching = VouchPolicy { vouches: vouches.into(), ..VouchPolicy::default() };
        for (peer, origin, right) in [
            ("gate-7", "gate-7", ClaimRight::Proven),
            ("evil", "gate-7", ClaimRight::Claimed),
            ("relay", "gate-7", ClaimRight::Proven),
            ("relay", "gate-8", ClaimRight::Claimed),
            ("hub", "gate-8", ClaimRight::Proven),
        ] {
            assert_eq!(vouching.right(peer, origin), right, "{peer} for {origin}");
        }
    }

    #[test]
    fn a_name_that_is_only_claimed_makes_no_rightful_record_a_duplicate() {
        let mut claims = Claims::new("far".into(), Accepted::default());
        let name = identity("gate-7", 5);
        assert_eq!(claims.came(&name, ClaimRight::Claimed), ClaimOutcome::New);
        assert!(claims.keeps_name(&name, ClaimRight::Claimed), "nobody else has this name");
        claims.accept(&name, ClaimRight::Claimed);
        assert_eq!(claims.came(&name, ClaimRight::Claimed), ClaimOutcome::Again);
        assert_eq!(claims.came(&name, ClaimRight::Proven), ClaimOutcome::New);
        claims.accept(&name, ClaimRight::Proven);
        assert_eq!(claims.came(&name, ClaimRight::Proven), ClaimOutcome::Again);
        assert_eq!(claims.came(&name, ClaimRight::Claimed), ClaimOutcome::Stolen);
    }

    #[test]
    fn the_name_of_a_node_that_has_spoken_for_itself_goes_no_further() {
        let mut claims = Claims::new("far".into(), Accepted::default());
        claims.accept(&identity("gate-7", 5), ClaimRight::Proven);
        for node in ["gate-7", "far"] {
            assert!(!claims.keeps_name(&identity(node, 6), ClaimRight::Claimed), "{node}");
            assert!(claims.keeps_name(&identity(node, 6), ClaimRight::Proven), "{node}");
        }
    }
}
