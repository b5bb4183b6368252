//! The fleet: a node whose uplink cannot carry everything borrows its neighbours' uplinks.
//!
//! Nodes say what they want and what they have ([`Tuple`]); a [`Problem`] is what that means for the
//! whole fleet at one time; a matching (`match/`, chosen by name) answers with [`Redirection`]s.
//! Everything here is a rate: whole bytes/s, so that matchings are exact ([`Amount`]).
//!
//! Two state machines without I/O hold it together: the [`Agent`] of each node, and the [`Orchestrator`]
//! that leads. What they say to each other ([`Beat`], [`Directive`]) is always the whole state, so that a
//! lost message is repaired by the next one. Grants live in the agents, on their own clocks.

#![forbid(unsafe_code)]

mod agent;
mod candidates;
mod ceiling;
mod election;
mod grants;
mod history;
mod ledger;
mod matching;
mod members;
mod message;
mod neighbours;
mod options;
mod orchestrator;
mod pairs;
mod problem;
mod reserve;
mod smooth;
mod sticky;
mod tuple;

pub use tidegate_types::amount::Amount;
use tidegate_types::class::ClassId;

pub use self::agent::{Agent, AgentInput, AgentOutput, Holding};
pub use self::candidates::{Candidates, Peer};
pub use self::ceiling::FalseClaim;
pub use self::election::{Election, ElectionInput, ElectionOptions, ElectionOutput, Holder};
pub use self::history::{EndReason, Given, Totals};
pub use self::ledger::{GrantStatus, MemberStatus};
pub use self::matching::MatchingName;
pub use self::message::{Beat, Digest, Directive, Fence, Held, Reach};
pub use self::neighbours::Neighbours;
pub use self::options::FleetOptions;
pub use self::orchestrator::{Orchestrator, OrchestratorInput, OrchestratorOutput, Round};
pub use self::pairs::PairState;
pub use self::problem::{Problem, Redirection};
pub use self::reserve::{Reserve, ReserveError, Shift};
pub use self::tuple::Tuple;

/// Nodes of one fleet: places are 32 bits wide, and one orchestrator serves no more.
pub const NODES_MAX: usize = 65_536;
/// Peers that a node names as candidates: those of its site, and the nearest of others.
pub const CANDIDATES_MAX: usize = 64;

/// A node of the fleet: given once, the same at every orchestrator, never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// What no two grants share: the revision under which the granting leader was elected, and its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// Of the leader that granted it.
    pub revision: u64,
    /// From 1, for each leader.
    pub id: u64,
}

/// A part of a provider's uplink, lent for as long as it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its name.
    pub token: Token,
    /// Whose uplink is lent.
    pub provider: NodeId,
    /// Whose records go by it.
    pub receiver: NodeId,
    /// For which class of records.
    pub class: ClassId,
    /// How much.
    pub amount: Amount,
}
