//! Whole fleets: matchings at scale (`fleet-scale`), grants over time (`fleet-damping`).

mod damping;
mod fluid;
mod random;
mod scale;
mod tally;
mod traffic;

pub(in crate::sim) use self::damping::run as damping;
pub(in crate::sim) use self::scale::run as scale;
