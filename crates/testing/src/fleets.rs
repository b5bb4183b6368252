//! Whole fleets in which anything may die, stand still or be cut off, with clocks that agree on nothing: for the
//! tests of the fleet, and for the lab, which compares them with an oracle.
//!
//! A [`World`] plays the [`Plan`] of a seed with nodes that are a [`Member`] each: [`Whole`] nodes as they are shipped,
//! or a model of their custody. [`Checks`] holds what must be true of every world, and what was seen.
#![expect(missing_docs, reason = "a world's parts; what a name does not say stands beside it")]

mod checks;
mod member;
mod plan;
mod random;
mod whole;
mod world;

use std::time::Duration;

pub use self::checks::{Checks, Seen};
pub use self::member::{Member, Sent, Seq, Wish};
pub use self::plan::{
    ACTIVE, Clock, Event, Fault, Level, MEASURE, ORCHESTRATORS, Party, Plan, TICK, Uplink,
};
pub use self::random::Random;
pub use self::whole::Whole;
pub use self::world::World;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
