//! Decides which node borrows whose uplink: a node whose uplink cannot carry everything uses its neighbours' spare
//! bandwidth.
//!
//! A node reports a [`Tuple`]: its capacity, and what each class wants, never net of what is redirected. A
//! [`MatchingProblem`] is the whole fleet at one time; a *matching* answers with [`Redirection`]s. A [`Grant`] is a lease of
//! a part of a provider's uplink, with a fencing token. The *provider* lends, the *receiver* borrows. Amounts are whole
//! bytes/s, so that matchings are exact ([`Amount`]).
//!
//! Two state machines without I/O form a fleet: the [`Agent`] of each node, and the [`Orchestrator`] that leads. Their
//! messages ([`Heartbeat`], [`Directive`]) always hold the whole state, so that the next message repairs the loss of one.
//! Grants live in the agents, on the agents' own clocks.
//!
//! | file | what |
//! |---|---|
//! | `tuple.rs`, `problem.rs`, `candidates.rs` | what a node reports; what a matching is asked; who can lend to whom |
//! | `matching.rs` | the matchings by name: `augment` (default), `flow`, and baselines |
//! | `standing.rs` | what neighbours may always send by each other |
//! | `sticky.rs` | lets any matching keep what is granted |
//! | `message.rs`, `options.rs` | what agents and orchestrators exchange; what can be tuned |
//! | `agent.rs`, `held.rs`, `neighbours.rs` | a node's side; its grants and permits; the links that it keeps open |
//! | `orchestrator.rs`, `members.rs`, `ledger.rs`, `grants.rs` | the leader: its members and every grant |
//! | `pairs.rs`, `plausibility.rs`, `moving_average.rs` | pairs that do help each other; claims that are refused; smoothed amounts |
//! | `election.rs` | which orchestrator leads |
//! | `grant_history.rs` | why grants were given, for people |
//! ```
//! use tidegate_fleet::{Amount, Candidates, MatchingName, MatchingProblem, Peer};
//!
//! // Node 0 lacks 5 bytes/s in its third class; node 1 has 8 to lend, and they reach each other.
//! let mut candidates = Candidates::default();
//! candidates.push(&[Peer { place: 1, distance: 1 }]);
//! candidates.push(&[Peer { place: 0, distance: 1 }]);
//! let wanted = [0, 0, 5, 0, 0, 0].map(Amount).to_vec();
//! let problem = MatchingProblem::new(&candidates, wanted, [0, 8].map(Amount).to_vec());
//! let redirections = MatchingName::Augment.solve(&problem, 1);
//! let found = redirections[0];
//! assert_eq!((found.receiver, found.class, found.provider, found.amount), (0, 2, 1, Amount(5)));
//! ```

#![forbid(unsafe_code)]

mod agent;
mod candidates;
mod election;
mod grant_history;
mod grants;
mod held;
mod ledger;
mod matching;
mod members;
mod message;
mod moving_average;
mod neighbours;
mod options;
mod orchestrator;
mod pairs;
mod plausibility;
mod problem;
mod standing;
mod sticky;
mod tuple;

pub use tidegate_types::amount::Amount;
use tidegate_types::class::ClassId;

pub use self::agent::{Agent, AgentInput, AgentOutput};
pub use self::candidates::{Candidates, Peer};
pub use self::election::{Election, ElectionInput, ElectionOptions, ElectionOutput, KeyHolder};
pub use self::grant_history::{EndReason, GrantDecision, GrantTotals};
pub use self::held::HeldGrant;
pub use self::ledger::{GrantStatus, MemberStatus};
pub use self::matching::MatchingName;
pub use self::message::{
    CarriedGrant, Directive, Fence, FleetDigest, Heartbeat, ReachablePeer, StandingPermits,
};
pub use self::neighbours::Neighbours;
pub use self::options::FleetOptions;
pub use self::orchestrator::{MatchingRound, Orchestrator, OrchestratorInput, OrchestratorOutput};
pub use self::pairs::PairState;
pub use self::plausibility::FalseClaim;
pub use self::problem::{MatchingProblem, Redirection};
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
pub struct FencingToken {
    /// Of the leader that granted it.
    pub revision: u64,
    /// From 1, for each leader.
    pub id: u64,
}

/// A part of a provider's uplink, lent for as long as it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Its name.
    pub token: FencingToken,
    /// Whose uplink is lent.
    pub provider: NodeId,
    /// Whose records go by it.
    pub receiver: NodeId,
    /// For which class of records.
    pub class: ClassId,
    /// How much.
    pub amount: Amount,
}
