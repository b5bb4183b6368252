//! Whole fleets: matchings at scale (`fleet-scale`), grants over time (`fleet-damping`),
//! and whole nodes that redirect (`janus-tables`).

mod damping;
mod fluid;
mod nodes;
mod random;
mod scale;
mod sizes;
mod tables;
mod tally;
mod traffic;

pub(in crate::sim) use self::damping::run as damping;
pub(in crate::sim) use self::scale::run as scale;
pub(in crate::sim) use self::tables::run as tables;
pub(crate) use self::tables::{Point, four_g};
