//! Decides which node hosts each topic, moves a topic while it is used, and says when it should move.
//!
//! A *unit* is a topic, or a part of one, that one member owns. A *plan* assigns topics to nodes so that each topic keeps
//! its bound on its 90th percentile of latency. A *latency model* predicts that percentile. The *hand-over* gives a unit
//! from one owner to the next: no record is lost, repeated or out of order. The *rebalancer* compares measured with
//! promised latencies and repairs the plan by few moves.
//!
//! | file | what |
//! |---|---|
//! | `place/` | the placement problem, its methods and lower bound; `place/model` predicts latencies, `place/rebalance` repairs a plan |
//! | `handover/` | one member of a group: what it owns, gives, takes, forwards and shows |
//!
//! ```
//! use std::time::Duration;
//!
//! use tidegate_cluster::place::{
//!     FeasibilityOracle, Machine, Machines, Physics, PlacementMethod, PlacementProblem, Topic,
//! };
//!
//! let topic = Topic {
//!     work: Duration::from_millis(10),
//!     work_cv: 0.15,
//!     rate: 50.0,
//!     subscribers: 1,
//!     bound: Duration::from_secs(1),
//!     is_serial: false,
//! };
//! let topics = [topic.clone(), topic];
//! let machine = Machine { cores: 4.0, speed: 1.0, contention: 0.03, bias: 1.0 };
//! let problem = PlacementProblem {
//!     topics: &topics,
//!     machines: &Machines::Any(machine),
//!     model: &Physics,
//!     together_max: 4,
//!     margin: 0.0,
//! };
//! let mut feasible = FeasibilityOracle::new(problem);
//! let plan = PlacementMethod::FirstFit.plan(&mut feasible, 1, 1000).unwrap();
//! assert_eq!((plan.used(), plan.unplaced.len()), (1, 0));
//! ```

#![forbid(unsafe_code)]

pub mod handover;
pub mod place;
